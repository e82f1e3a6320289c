// How far a pattern's basin reaches.

import { s } from "../../parts/dom.js";
import { short } from "../../parts/numbers.js";
import { MARGINS, axes, cursor, path } from "../../draw/plot.js";
import { straight } from "../../draw/scales.js";
import { Card } from "./card.js";

export class Basins extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "basins", title: "Basins of the patterns", word: "basins" });
  }

  caption({ radius }) {
    const kept = radius.filter((r) => r !== null);
    return kept.length
      ? `${kept.length} of ${radius.length} patterns have a basin, on average up to ${Math.round((100 * kept.reduce((a, b) => a + b, 0)) / kept.length)} % of their units.`
      : `None of ${radius.length} patterns is found again: they are no valleys of their own.`;
  }

  drawn({ flipped, overlap, overlap_error: error, returned }, { width, height }) {
    const x = straight([0, 0.5], [MARGINS.left, width - MARGINS.right]);
    const y = straight([0, 1.04], [height - MARGINS.bottom, MARGINS.top]);
    const band = [
      ...flipped.map((f, i) => [x(f), y(overlap[i] + error[i])]),
      ...flipped.map((f, i) => [x(f), y(Math.max(0, overlap[i] - error[i]))]).reverse(),
    ];
    const looks = flipped.map((f, i) => ({
      x: x(f),
      y: [
        [y(Math.max(0, overlap[i])), "a"],
        [y(returned[i]), "b"],
      ],
      text: `${Math.round(100 * f)} % turned: overlap ${short(overlap[i])} ± ${short(error[i], 1)}, ${Math.round(100 * returned[i])} % return`,
    }));
    return {
      words: `Overlap with the pattern after descent: ${short(overlap[0])} from the pattern itself, ${short(overlap.at(-1))} from half of it turned.`,
      children: [
        axes(x, y, { width, height, across: "share of units turned", up: "after descent" }),
        s(
          "g",
          { class: "side a" },
          s("path", { class: "band", d: `${path(band)}Z` }),
          s("path", {
            class: "line",
            d: path(flipped.map((f, i) => [x(f), y(Math.max(0, overlap[i]))])),
          }),
        ),
        s(
          "g",
          { class: "side b" },
          s("path", { class: "line dashed", d: path(flipped.map((f, i) => [x(f), y(returned[i])])) }),
        ),
        s(
          "text",
          { class: "mark side a", x: MARGINS.left + 8, y: height - MARGINS.bottom - 26 },
          "overlap with the pattern",
        ),
        s(
          "text",
          { class: "mark side b", x: MARGINS.left + 8, y: height - MARGINS.bottom - 10 },
          "share that return",
        ),
        cursor(this.plot, looks, { height }),
      ],
    };
  }

  table({ flipped, overlap, overlap_error: a, returned, returned_error: b }) {
    return {
      columns: ["turned", "overlap", "overlap_error", "returned", "returned_error"],
      rows: flipped.map((f, i) => [f, overlap[i], a[i], returned[i], b[i]]),
    };
  }
}
