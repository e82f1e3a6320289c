// P(q): how much independent chains agree.

import { s } from "../../parts/dom.js";
import { withError } from "../../parts/numbers.js";
import { MARGINS, axes } from "../../draw/plot.js";
import { straight } from "../../draw/scales.js";
import { Card } from "./card.js";

export class Overlaps extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "overlaps", title: "P(q)", word: "overlaps" });
  }

  caption({ within, between, chains, sweeps }) {
    return `${chains} Gibbs chains from random starts, ${sweeps} sweeps. A chain agrees with its later self by ${withError(within)}, with other chains by ${withError(between)}.`;
  }

  drawn({ edges, density, error, within }, { width, height }) {
    const x = straight([-1, 1], [MARGINS.left, width - MARGINS.right]);
    const y = straight(
      [0, Math.max(...density.map((d, i) => d + (error[i] ?? 0))) * 1.06 || 1],
      [height - MARGINS.bottom, MARGINS.top],
    );
    const bars = density.map((d, i) => {
      const [left, right] = [x(Math.max(-1, edges[i])), x(Math.min(1, edges[i + 1]))];
      const middle = (left + right) / 2;
      return [
        s("rect", {
          class: "bar",
          x: left + 0.5,
          width: Math.max(0.5, right - left - 1),
          y: y(d),
          height: y(0) - y(d),
        }),
        d > 0 &&
          s("line", {
            class: "whisker",
            x1: middle,
            x2: middle,
            y1: y(Math.max(0, d - (error[i] ?? 0))),
            y2: y(d + (error[i] ?? 0)),
          }),
      ];
    });
    const mark =
      within[0] === null
        ? null
        : [
            s("line", { class: "level", x1: x(within[0]), x2: x(within[0]), y1: MARGINS.top, y2: y(0) }),
            s(
              "text",
              {
                class: "hint",
                x: x(within[0]) + (within[0] > 0.6 ? -5 : 5),
                y: MARGINS.top + 10,
                "text-anchor": within[0] > 0.6 ? "end" : "start",
              },
              "q of a chain with itself",
            ),
          ];
    return {
      words: `Density of overlaps from −1 to 1, q of a chain with its later self ${withError(within)}.`,
      children: [axes(x, y, { width, height, across: "overlap q", up: "P(q)" }), bars, mark],
    };
  }

  table({ edges, density, error }) {
    return {
      columns: ["from", "to", "density", "error"],
      rows: density.map((d, i) => [edges[i], edges[i + 1], d, error[i]]),
    };
  }
}
