// The verdict: what decided, each number beside its threshold.

import { h, s } from "../../parts/dom.js";
import { withError } from "../../parts/numbers.js";
import { straight } from "../../draw/scales.js";
import { Card } from "./card.js";

const ROW = 46;
const LIMITS = [
  [0.1, "frozen above"],
  [null, ""],
  [0.02, "few valleys above"],
  [0, "more with size above"],
  [0.9, "kept above"],
];

export class Verdict extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "verdict", title: "Verdict", word: "verdict" });
    this.words = h("p", { class: "verdict" });
    this.figure.querySelector(".plot-body").before(this.words);
  }

  arrived({ verdict, plain, rows }) {
    this.words.textContent = verdict;
    this.plot.height = ROW * rows.length + 6;
    this.told?.({ plain });
  }

  caption({ starts }) {
    return `From chains, ${starts} descents and diluted copies; a number within two errors of its threshold decides nothing.`;
  }

  drawn({ rows, verdict }, { width }) {
    return {
      words: `${verdict}: ${rows.map(([name, pair]) => `${name} ${withError(pair)}`).join("; ")}.`,
      children: rows.map(([name, [value, error]], i) => {
        const slope = name.startsWith("slope");
        const most = slope ? Math.max(0.05, Math.abs(value ?? 0) * 1.5) : 1;
        const x = straight([slope ? -0.2 * most : 0, most], [8, width - 12]);
        const at = i * ROW + 30;
        const [limit, meaning] = LIMITS[i] ?? [null, ""];
        return s(
          "g",
          { class: "side a" },
          s("text", { class: "hint", x: 8, y: at - 14 }, name),
          s("line", { class: "base", x1: 8, x2: width - 12, y1: at, y2: at }),
          limit !== null && [
            s("line", { class: "level", x1: x(limit), x2: x(limit), y1: at - 7, y2: at + 7 }),
            s("title", {}, meaning),
          ],
          value !== null && [
            s("line", {
              class: "line",
              x1: x(Math.max(value - error, slope ? -most : 0)),
              x2: x(Math.min(most, value + error)),
              y1: at,
              y2: at,
            }),
            s("circle", {
              class: "dot",
              cx: x(Math.max(slope ? -0.2 * most : 0, Math.min(most, value))),
              cy: at,
              r: 4.5,
            }),
          ],
          s(
            "text",
            { class: "hint strong", x: width - 8, y: at - 14, "text-anchor": "end" },
            withError([value, error]),
          ),
        );
      }),
    };
  }

  table({ rows }) {
    return {
      columns: ["what", "value", "error"],
      rows: rows.map(([name, [value, error]]) => [name, value, error]),
    };
  }
}
