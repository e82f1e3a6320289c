// Singular values of the couplings beside the edge of random ones.

import { s } from "../../parts/dom.js";
import { count, short } from "../../parts/numbers.js";
import { MARGINS, axes, path } from "../../draw/plot.js";
import { straight } from "../../draw/scales.js";
import { Card } from "./card.js";

export class Spectrum extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "spectrum", title: "Spectrum", word: "spectrum" });
  }

  quick() {
    return true;
  }

  caption({ outliers, rank }) {
    return `${count(outliers, "value")} beyond what random couplings have; about ${count(Math.round(rank), "direction")} carry the couplings.`;
  }

  drawn({ values, first, limit, kind }, { width, height }) {
    const sizes = values.map(Math.abs);
    const x = straight(
      [1, Math.max(2, values.length, first.length)],
      [MARGINS.left, width - MARGINS.right],
    );
    const y = straight(
      [0, Math.max(...sizes, ...first.map(Math.abs), limit) * 1.05],
      [height - MARGINS.bottom, MARGINS.top],
    );
    const whole = x.ticks(6).filter((tick) => Number.isInteger(tick) && tick > 0);
    return {
      words: `${kind}: the largest is ${short(sizes[0])}, random couplings end at ${short(limit)}.`,
      children: [
        axes(x, y, { width, height, across: `${kind}, by size`, up: "size", xTicks: whole }),
        s("rect", {
          class: "zone-shade",
          x: MARGINS.left,
          width: width - MARGINS.left - MARGINS.right,
          y: y(limit),
          height: height - MARGINS.bottom - y(limit),
        }),
        s("line", {
          class: "level",
          x1: MARGINS.left,
          x2: width - MARGINS.right,
          y1: y(limit),
          y2: y(limit),
        }),
        s(
          "text",
          { class: "hint", x: width - MARGINS.right - 4, y: y(limit) - 5, "text-anchor": "end" },
          "edge of random couplings",
        ),
        s(
          "g",
          { class: "side b" },
          s("path", { class: "line thin", d: path(first.map((v, i) => [x(i + 1), y(Math.abs(v))])) }),
        ),
        first.length
          ? s(
              "text",
              {
                class: "mark side b",
                x: x(Math.min(first.length, x.back(width / 2))),
                y: y(Math.abs(first[Math.min(first.length - 1, Math.floor(first.length / 2))])) - 6,
              },
              "at the start",
            )
          : null,
        s(
          "g",
          { class: "side a" },
          sizes.map((v, i) =>
            s("circle", {
              class: v > limit ? "dot" : "dot faint",
              cx: x(i + 1),
              cy: y(v),
              r: values.length > 120 ? 1.8 : values.length > 20 ? 2.8 : 4.5,
            }),
          ),
        ),
      ],
    };
  }

  table({ values, first }) {
    return {
      columns: ["number", "value", "at_the_start"],
      rows: values.map((v, i) => [i + 1, v, first[i]]),
    };
  }
}
