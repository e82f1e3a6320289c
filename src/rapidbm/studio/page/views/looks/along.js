// The likelihood of every checkpoint of a training.

import { s } from "../../parts/dom.js";
import { minus, short } from "../../parts/numbers.js";
import { MARGINS, axes, cursor, path } from "../../draw/plot.js";
import { around, fromZero, straight } from "../../draw/scales.js";
import { Card } from "./card.js";

const SIDES = ["a", "b", "d"];

/** Whether it is a lower bound that was measured: of hidden units that are coupled to each other. */
const bounded = (keys) => keys.some((key) => key.startsWith("log_bound"));

export class Along extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "along", title: "Along the training", word: "along" });
    if (asked.machine.includes(":")) this.figure.hidden = true; // no checkpoints, no way
  }

  quick() {
    return false;
  }

  patience({ exact }) {
    return exact ? "seconds" : "minutes";
  }

  caption({ records, keys }) {
    const what = bounded(keys) ? " of a lower bound of log p, by mean field" : "";
    return `${records.length} checkpoints; bands are 95 % intervals${what}.`;
  }

  drawn({ records, parts, keys }, { width, height }) {
    const ends = (key) =>
      records
        .map((record) =>
          [record[`${key}_from`], record[`${key}_to`]].map((v) => v.filter((n) => n !== null)),
        )
        .map(([low, high]) => (low.length ? [Math.min(...low), Math.max(...high)] : [null, null]));
    const all = keys.map(ends);
    const updates = records.map(({ update }) => update);
    const x = fromZero([0, Math.max(...updates, 1)], [MARGINS.left, width - MARGINS.right]);
    const y = straight(around(all.flat(2).filter((v) => v !== null)), [
      height - MARGINS.bottom,
      MARGINS.top,
    ]);
    const looks = updates.map((u, i) => ({
      x: x(u),
      y: all
        .filter((rows) => rows[i][0] !== null)
        .map((rows, k) => [y((rows[i][0] + rows[i][1]) / 2), SIDES[k]]),
      text: `update ${u}: ${parts.map((part, k) => `${part} ${short(all[k][i][0], 5)} to ${short(all[k][i][1], 5)}`).join(", ")}`,
    }));
    return {
      words: `${bounded(keys) ? "A lower bound of log p" : "log p"} along ${records.length} checkpoints, ending at ${parts.map((part, k) => `${part} ${minus(String(all[k].at(-1)[0]))}`).join(", ")}.`,
      children: [
        axes(x, y, { width, height, across: "update", up: `log p${bounded(keys) ? " ≥" : ""}, nats` }),
        all.map((rows, k) => {
          const points = rows
            .map(([low, high], i) => (low === null ? null : [x(updates[i]), y(low), y(high)]))
            .filter(Boolean);
          const band = [
            ...points.map(([px, , high]) => [px, high]),
            ...points.map(([px, low]) => [px, low]).reverse(),
          ];
          return s(
            "g",
            { class: `side ${SIDES[k]}` },
            s("path", { class: "band", d: `${path(band)}Z` }),
            s("path", {
              class: "line",
              d: path(points.map(([px, low, high]) => [px, (low + high) / 2])),
            }),
            s(
              "text",
              {
                class: "mark",
                x: width - MARGINS.right - 4,
                y: height - MARGINS.bottom - 8 - 15 * k,
                "text-anchor": "end",
              },
              parts[k],
            ),
          );
        }),
        cursor(this.plot, looks, { height }),
      ],
    };
  }

  table({ records, parts, keys }) {
    const columns = ["update", ...parts.flatMap((part) => [`${part}_from`, `${part}_to`])];
    return {
      columns,
      rows: records.map((r) => [
        r.update,
        ...keys.flatMap((key) => [r[`${key}_from`].join(" "), r[`${key}_to`].join(" ")]),
      ]),
    };
  }
}
