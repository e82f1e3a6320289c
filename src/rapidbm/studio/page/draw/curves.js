// Curves with bands, against epochs or updates.

import { s } from "../parts/dom.js";
import { short } from "../parts/numbers.js";
import { around, fromZero, straight } from "./scales.js";
import { MARGINS, axes, clip, cursor, path, Plot } from "./plot.js";

/** A plot of series {name, side, x, y, low, high, dashed}; sides a, b, c, d are colours. */
export class Curves extends Plot {
  series = [];

  constructor({ across = "epoch", up = "", floor = null, ...given }) {
    super({ ...given, draw: (size) => this.#drawn(size), table: () => this.#table() });
    this.across = across;
    this.up = up;
    this.floor = floor;
  }

  show(series) {
    this.series = series;
    this.refresh();
  }

  #drawn({ width, height }) {
    const shown = this.series.filter((one) => one.x.length);
    const margins = {
      ...MARGINS,
      right: shown.some((one) => one.name) ? Math.min(96, width * 0.22) : 16,
    };
    const frame = { width, height, margins };
    const xs = shown.flatMap((one) => one.x);
    const far = xs.length && Math.max(...xs) > 30;
    const scale = far ? fromZero : straight;
    const x = scale([Math.min(0, ...xs), Math.max(1, ...xs)], [margins.left, width - margins.right]);
    const edges = shown
      .flatMap((one) => [...(one.low ?? one.y), ...(one.high ?? one.y)])
      .filter((v) => v !== null);
    const [low, high] = around(withoutFar(edges));
    const y = straight([this.floor ?? low, high], [height - margins.bottom, margins.top]);
    const looks = this.#looks(shown, x, y);
    const children = [
      axes(x, y, { ...frame, across: this.across, up: this.up }),
      clip(
        shown.map((one) => this.#series(one, x, y)),
        frame,
      ),
      this.#names(shown, x, y, margins, height),
      cursor(this, looks, frame),
    ];
    const words = shown.map((one) => `${one.name || this.up} is ${short(last(one.y))}`).join("; ");
    return { children, words: `${this.up} against ${this.across}: ${words || "nothing yet"}.` };
  }

  #series(one, x, y) {
    const at = (values) =>
      one.x.map((v, i) => (values[i] === null || values[i] === undefined ? null : [x(v), y(values[i])]));
    const band = one.low && s("path", { class: "band", d: closed(at(one.high), at(one.low)) });
    const dots =
      one.x.length < 3
        ? at(one.y)
            .filter(Boolean)
            .map(([cx, cy]) => s("circle", { class: "dot", cx, cy, r: 3 }))
        : [];
    return s(
      "g",
      { class: `side ${one.side}` },
      band,
      s("path", { class: one.dashed ? "line dashed" : "line", d: path(at(one.y)) }),
      dots,
    );
  }

  #names(shown, x, y, margins, height) {
    const ends = shown
      .filter((one) => one.name && last(one.y) !== null)
      .map((one) => ({
        one,
        at: Math.max(margins.top + 8, Math.min(height - margins.bottom, y(last(one.y)))),
        x: x(last(one.x)),
      }))
      .sort((p, q) => p.at - q.at);
    for (let i = 1; i < ends.length; i += 1) ends[i].at = Math.max(ends[i].at, ends[i - 1].at + 14);
    return ends.map(({ one, at, x: end }) =>
      s("text", { class: `mark side ${one.side}`, x: end + 6, y: at + 4 }, one.name),
    );
  }

  #looks(shown, x, y) {
    const places = [...new Set(shown.flatMap((one) => one.x))].sort((p, q) => p - q);
    return places.map((v) => {
      const here = shown
        .map((one) => [one, one.x.indexOf(v)])
        .filter(([one, i]) => i >= 0 && one.y[i] !== null);
      const told = here.map(([one, i]) =>
        `${one.name} ${short(one.y[i])}${one.low ? ` (${short(one.low[i])} to ${short(one.high[i])})` : ""}`.trim(),
      );
      return {
        x: x(v),
        y: here.map(([one, i]) => [y(one.y[i]), one.side]),
        text: `${this.across} ${short(v)}: ${told.join(", ")}`,
      };
    });
  }

  #table() {
    const columns = ["series", this.across.replaceAll(" ", "_"), "value", "low", "high"];
    const rows = this.series.flatMap((one) =>
      one.x.map((v, i) => [one.name, v, one.y[i], one.low?.[i], one.high?.[i]]),
    );
    return { columns, rows };
  }
}

const last = (values) => values.findLast((v) => v !== null && v !== undefined) ?? null;

function closed(up, down) {
  const [over, under] = [up.filter(Boolean), down.filter(Boolean).reverse()];
  return over.length ? `${path([...over, ...under])}Z` : "";
}

/** A start far away would flatten all that follows: of many values the farthest few may leave the frame. */
function withoutFar(values) {
  if (values.length < 30) return values;
  const sorted = [...values].sort((p, q) => p - q);
  const cut = Math.floor(sorted.length * 0.08);
  const inner = sorted.slice(cut, sorted.length - cut);
  const span = inner.at(-1) - inner[0];
  return sorted.at(-1) - sorted[0] > 6 * span && span > 0 ? inner : values;
}
