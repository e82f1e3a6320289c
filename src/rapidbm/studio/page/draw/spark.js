// A small curve with its band, in a frame that others share.

import { s } from "../parts/dom.js";
import { short } from "../parts/numbers.js";
import { path } from "./plot.js";
import { around, fromZero, straight } from "./scales.js";

const [WIDE, TALL] = [220, 84];

export class Spark {
  constructor(curve, shared, name) {
    const x = fromZero([0, Math.max(1, ...shared.map(([e]) => e))], [4, WIDE - 4]);
    const y = straight(around(shared.flatMap((row) => row.slice(1)).filter((v) => v !== null)), [
      TALL - 4,
      4,
    ]);
    const at = (row, i) => (row[i] === null ? null : [x(row[0]), y(row[i])]);
    const band = [...curve.map((row) => at(row, 3)), ...curve.map((row) => at(row, 2)).reverse()].filter(
      Boolean,
    );
    const end = curve.at(-1);
    this.svg = s(
      "svg",
      {
        class: "plot spark",
        viewBox: `0 0 ${WIDE} ${TALL}`,
        role: "img",
        "aria-label": `${name}: ends at ${short(end[1])} after epoch ${end[0]}`,
      },
      s("line", { class: "base", x1: 4, x2: WIDE - 4, y1: TALL - 3, y2: TALL - 3 }),
      s(
        "g",
        { class: "side a" },
        s("path", { class: "band", d: `${path(band)}Z` }),
        s("path", { class: "line", d: path(curve.map((row) => at(row, 1))) }),
      ),
    );
  }
}
