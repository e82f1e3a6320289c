// The board: the mean of all chains, and pixels that one holds up or down, by pointer, finger or keyboard.

import { choice, h, put } from "../parts/dom.js";
import { tip } from "../parts/tips.js";
import { colour, follow } from "../parts/theme.js";
import { mixed } from "../draw/tiles.js";

const MOVES = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const TOOLS = [
  ["up", "Draw"],
  ["down", "Erase"],
  ["free", "Let go"],
];
const KEYS = { d: "up", e: "down", g: "free" };

export class Board {
  #held = new Map(); // unit: "up" or "down"
  #shades = null;
  #at = [0, 0];
  #stroke = null;
  #timer = 0;

  constructor(change) {
    this.change = change;
    this.tool = "up";
    this.rows = this.columns = 1;
    this.canvas = h("canvas", {
      class: "easel",
      tabindex: 0,
      role: "application",
      "aria-roledescription": "drawing board",
      width: 280,
      height: 280,
      onpointerdown: (event) => this.#down(event),
      onpointermove: (event) => this.#moved(event),
      onpointerup: () => this.#lift(),
      onpointercancel: () => this.#lift(),
      onkeydown: (event) => this.#key(event),
      onfocus: () => this.paint(),
      onblur: () => this.paint(),
    });
    this.status = h(
      "p",
      { class: "small soft", "aria-live": "polite" },
      "Draw here: what you draw is held.",
    );
    this.tools = choice("Tool", TOOLS, this.tool, (tool) => {
      this.tool = tool;
    });
    this.labelled = h("div", { class: "row tight", hidden: true });
    this.box = h(
      "section",
      { class: "card", "aria-label": "Board" },
      h("div", { class: "figure-head" }, (this.title = h("h3", {}, "Hold pixels")), tip("hold")),
      h(
        "div",
        { class: "board" },
        this.canvas,
        h(
          "div",
          { class: "board-side" },
          this.tools,
          (this.halved = h(
            "button",
            { type: "button", onclick: () => this.half() },
            "Hold the upper half",
          )),
          h("button", { type: "button", onclick: () => this.clear() }, "Let all go"),
        ),
      ),
      this.labelled,
      this.status,
      h(
        "p",
        { class: "small soft" },
        "By keyboard: arrows move, ",
        h("kbd", {}, "space"),
        " uses the tool, ",
        h("kbd", {}, "d"),
        " ",
        h("kbd", {}, "e"),
        " ",
        h("kbd", {}, "g"),
        " choose it.",
      ),
    );
    this.#describe();
    follow(this);
  }

  shape([rows, columns], names = []) {
    const same = rows === this.rows && columns === this.columns;
    Object.assign(this, { rows, columns, names });
    this.title.textContent = rows === 1 ? "Hold cells" : "Hold pixels";
    this.halved.textContent = rows === 1 ? "Hold the first half" : "Hold the upper half";
    if (!same) this.#held.clear();
    this.#at = [Math.min(this.#at[0], rows - 1), Math.min(this.#at[1], columns - 1)];
    const unit = Math.max(4, Math.floor(336 / Math.max(rows, columns)));
    this.unit = unit;
    Object.assign(this.canvas, { width: columns * unit, height: Math.max(rows * unit, 24) });
    this.#shades = null;
    this.paint();
    if (same && this.#held.size) this.#tell();
  }

  /** Machines that have label units: a button holds those of a label. */
  labels(codes, labels, units) {
    this.labelled.hidden = !codes;
    if (!codes) return;
    const first = this.rows * this.columns - units;
    put(
      this.labelled,
      h("span", { class: "label" }, "Label"),
      labels.map((label, i) =>
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              for (let j = 0; j < units; j += 1)
                this.#held.set(first + j, codes.values[i * units + j] ? "up" : "down");
              this.#tell();
              this.status.textContent = `The units of label ${label} are held.`;
            },
          },
          String(label),
        ),
      ),
    );
  }

  /** The mean over chains, (count, units) of 0 and 1. */
  mean(values, count) {
    const units = this.rows * this.columns;
    const shades = (this.#shades = new Float32Array(units));
    for (let i = 0; i < values.length; i += 1) shades[i % units] += values[i];
    for (let i = 0; i < units; i += 1) shades[i] /= count;
    this.#first = values.slice(0, units);
    this.paint();
  }

  #first = null;

  /** Held pixels of all chains in their own colours. */
  marked(values, count) {
    if (!this.#held.size) return values;
    const units = this.rows * this.columns;
    const marked = Uint8Array.from(values);
    for (const [unit, way] of this.#held)
      for (let i = 0; i < count; i += 1) marked[i * units + unit] = way === "up" ? 4 : 3;
    return marked;
  }

  clear() {
    this.#held.clear();
    this.#tell();
    this.status.textContent = "Nothing is held.";
  }

  /** Holds the upper half of the first chain as it is now. */
  half() {
    if (!this.#first) return;
    const some = this.rows > 1 ? Math.floor(this.rows / 2) * this.columns : Math.ceil(this.columns / 2);
    this.#held.clear();
    for (let i = 0; i < some; i += 1) this.#held.set(i, this.#first[i] ? "up" : "down");
    this.#tell();
    this.status.textContent = `${some} pixels of the first chain are held; the others complete them.`;
  }

  // -- drawing ----------------------------------------------------------------------------------

  #place(event) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.rows);
    const column = Math.floor(((event.clientX - box.left) / box.width) * this.columns);
    return [Math.max(0, Math.min(this.rows - 1, row)), Math.max(0, Math.min(this.columns - 1, column))];
  }

  #down(event) {
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.#stroke = this.#place(event);
    this.#use(this.#stroke);
  }

  #moved(event) {
    if (!this.#stroke) return;
    for (const place of line(this.#stroke, this.#place(event))) this.#use(place);
    this.#stroke = this.#place(event);
  }

  #lift() {
    this.#stroke = null;
  }

  #key(event) {
    const move = MOVES[event.key];
    if (move) {
      this.#at = [
        (this.#at[0] + move[0] + this.rows) % this.rows,
        (this.#at[1] + move[1] + this.columns) % this.columns,
      ];
      this.#describe();
    } else if (event.key === " " || event.key === "Enter") {
      this.#use(this.#at);
      this.#describe();
    } else if (KEYS[event.key]) {
      this.tool = KEYS[event.key];
      this.tools.choose(this.tool);
    } else {
      return;
    }
    event.preventDefault();
    this.paint();
  }

  #use(place) {
    this.#at = place;
    // A pen that is one pixel wide draws digits that nobody writes: it takes its neighbours with it on larger boards.
    const wide = this.tool !== "free" && Math.min(this.rows, this.columns) >= 20 && this.#stroke;
    const around = wide
      ? [
          [0, 0],
          [0, 1],
          [1, 0],
          [1, 1],
        ]
      : [[0, 0]];
    for (const [dy, dx] of around) {
      const [row, column] = [place[0] + dy, place[1] + dx];
      if (row >= this.rows || column >= this.columns) continue;
      if (this.tool === "free") this.#held.delete(row * this.columns + column);
      else this.#held.set(row * this.columns + column, this.tool);
    }
    this.#tell();
  }

  #tell() {
    this.paint();
    this.canvas.dataset.held = this.#held.size;
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      const some = (way) => [...this.#held].filter(([, found]) => found === way).map(([unit]) => unit);
      this.change({ up: some("up"), down: some("down") });
    }, 30);
  }

  #describe() {
    const [row, column] = this.#at;
    const way = this.#held.get(row * this.columns + column);
    const name = this.names?.[column] ? `, ${this.names[column]}` : "";
    const state = way ? `held ${way}` : "free";
    this.canvas.setAttribute(
      "aria-label",
      `Pixel in row ${row + 1}, column ${column + 1}${name}: ${state}`,
    );
    if (document.activeElement === this.canvas)
      this.status.textContent = `Row ${row + 1}, column ${column + 1}${name}: ${state}.`;
  }

  repaint() {
    this.paint();
  }

  paint() {
    const { canvas, unit, rows, columns } = this;
    const context = canvas.getContext("2d");
    const [low, high] = [colour("down"), colour("up")];
    for (let i = 0; i < rows * columns; i += 1) {
      const way = this.#held.get(i);
      const shade = way ? colour(`held-${way}`) : mixed(low, high, this.#shades?.[i] ?? 0);
      context.fillStyle = `rgb(${shade.join(" ")})`;
      context.fillRect(
        (i % columns) * unit,
        Math.floor(i / columns) * unit,
        unit,
        rows === 1 ? 24 : unit,
      );
    }
    if (document.activeElement === canvas) {
      const [row, column] = this.#at;
      context.lineWidth = 2;
      context.strokeStyle = `rgb(${colour("link").join(" ")})`;
      context.strokeRect(column * unit + 1, row * unit + 1, unit - 2, (rows === 1 ? 24 : unit) - 2);
    }
  }
}

/** The pixels between two, so that a quick stroke has no gaps. */
function line([y0, x0], [y1, x1]) {
  const steps = Math.max(Math.abs(y1 - y0), Math.abs(x1 - x0), 1);
  return Array.from({ length: steps }, (_, i) => [
    Math.round(y0 + ((y1 - y0) * (i + 1)) / steps),
    Math.round(x0 + ((x1 - x0) * (i + 1)) / steps),
  ]);
}
