// log p of each part of the data, between both of its bounds.

import { s } from "../../parts/dom.js";
import { minus, short } from "../../parts/numbers.js";
import { axes } from "../../draw/plot.js";
import { around, straight } from "../../draw/scales.js";
import { Card, LARGE } from "./card.js";

const MARGINS = { left: 64, right: 24, top: 14, bottom: 38 };
const SIDES = ["a", "b", "d"];

export class Likelihood extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "likelihood", title: "Likelihood", word: "likelihood", height: 200 });
  }

  quick({ exact }) {
    return exact || this.asked.machine.startsWith("pretrained:");
  }

  patience({ units }) {
    return units < LARGE ? "up to a minute" : "minutes";
  }

  caption({ method, effort, note, independent }) {
    const how =
      method === "exact"
        ? `Exact, over ${effort}.`
        : `Annealed there and back${effort ? `, ${effort}` : ""}${note ? `; ${note}` : ""}.`;
    return independent ? `${how} Independent columns give ${short(independent, 4)}.` : how;
  }

  drawn({ parts, method, independent }, { width, height }) {
    const rows = Object.entries(parts);
    const values = rows.flatMap(([, { value, lower, upper, forward = value, back = value }]) => [
      value,
      lower,
      upper,
      forward,
      back,
    ]);
    const near =
      independent !== undefined &&
      independent !== null &&
      values.every(
        (v) => Math.abs(v - independent) < 4 * (Math.max(...values) - Math.min(...values) + 5),
      );
    const x = straight(around(near ? [...values, independent] : values, 0.1), [
      MARGINS.left,
      width - MARGINS.right,
    ]);
    const step = (height - MARGINS.top - MARGINS.bottom) / rows.length;
    const y = straight([0, rows.length], [MARGINS.top, height - MARGINS.bottom]);
    const words = rows
      .map(
        ([part, { value, lower, upper }]) =>
          `${part} ${minus(value.toFixed(2))} (${minus(lower.toFixed(2))} to ${minus(upper.toFixed(2))})`,
      )
      .join("; ");
    return {
      words: `log p, nats a row: ${words}.`,
      children: [
        axes(x, y, { width, height, across: "log p, nats a row", margins: MARGINS, yTicks: [] }),
        near &&
          s("line", {
            class: "level",
            x1: x(independent),
            x2: x(independent),
            y1: MARGINS.top,
            y2: height - MARGINS.bottom,
          }),
        rows.map(([part, { value, lower, upper, forward, back }], i) => {
          const at = y(i) + step / 2;
          return s(
            "g",
            { class: `side ${SIDES[i % 3]}` },
            s("text", { class: "mark", x: MARGINS.left - 10, y: at + 4, "text-anchor": "end" }, part),
            s("rect", {
              class: "band solid",
              x: x(lower),
              width: Math.max(2, x(upper) - x(lower)),
              y: at - 9,
              height: 18,
              rx: 3,
            }),
            method !== "exact" &&
              [forward, back]
                .filter((v) => v !== undefined && v !== null)
                .map((v) =>
                  s("line", { class: "line thin", x1: x(v), x2: x(v), y1: at - 14, y2: at + 14 }),
                ),
            s("circle", { class: "dot", cx: x(value), cy: at, r: 4.5 }),
            s(
              "text",
              { class: "hint", x: x(value), y: at - 14, "text-anchor": "middle" },
              method === "exact"
                ? minus(value.toFixed(3))
                : `${minus(lower.toFixed(2))} … ${minus(upper.toFixed(2))}`,
            ),
          );
        }),
      ],
    };
  }

  table({ parts }) {
    return {
      columns: ["part", "value", "lower", "upper", "forward", "back"],
      rows: Object.entries(parts).map(([part, p]) => [
        part,
        p.value,
        p.lower,
        p.upper,
        p.forward,
        p.back,
      ]),
    };
  }
}
