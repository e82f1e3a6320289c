// Images of spins and of couplings side by side on a canvas, each unit a square of whole pixels.

import { h } from "../parts/dom.js";
import { colour, follow } from "../parts/theme.js";

const GAP = 0.06; // of a tile's width, between two
const small = document.createElement("canvas"); // all tiles, a pixel to a unit, before they are enlarged

/** A canvas of tiles that fits its place. What is shown are indices into the colours of `paint`. */
export class Tiles {
  #shown = null;
  #image = null;
  #wide = 0;

  constructor({ label, columns = null, most = 12, paint = spins, tallest = () => Infinity }) {
    Object.assign(this, { columns, most, paint, tallest });
    this.canvas = h("canvas", { role: "img", "aria-label": label, width: 1, height: 1 });
    this.box = h("div", { class: "tiles" }, this.canvas);
    new ResizeObserver(([entry]) => {
      this.#wide = entry.contentRect.width;
      this.repaint();
    }).observe(this.box);
    follow(this);
  }

  /** Draws `count` images of a shape. */
  show(values, count, [rows, columns], label = null) {
    this.#shown = { values, count, rows, columns };
    if (label) this.canvas.setAttribute("aria-label", label);
    this.#draw();
  }

  repaint() {
    if (this.#shown) this.#draw();
  }

  get size() {
    return this.#shown;
  }

  #draw() {
    const { values, count, rows, columns } = this.#shown;
    if (!this.#wide || !count) return;
    const across = Math.min(count, this.columns ?? this.#fitting(count, rows, columns));
    const down = Math.ceil(count / across);
    const dense = window.devicePixelRatio || 1;
    const most = Math.min(
      (this.#wide * dense) / across / columns,
      (this.tallest() * dense) / down / rows,
    );
    const gap = Math.round(Math.max(3 * dense, rows === 1 ? most : GAP * most * columns));
    const room = Math.min(
      ((this.#wide * dense + gap) / across - gap) / columns,
      ((this.tallest() * dense + gap) / down - gap) / rows,
    );
    const zoom = room < 2 ? 2 : Math.floor(room); // on a small screen the browser scales it down
    const [w, t] = [columns * zoom, rows * zoom];
    const [wide, tall] = [across * (w + gap) - gap, down * (t + gap) - gap];
    const { canvas } = this;
    if (canvas.width !== wide || canvas.height !== tall)
      Object.assign(canvas, { width: wide, height: tall });
    canvas.style.width = `${Math.min(this.#wide, (wide / dense) * Math.min(1, room / zoom))}px`;
    canvas.classList.toggle("scaled", room < 2);
    if (this.#image?.width !== columns || this.#image?.height !== rows * count)
      this.#image = new ImageData(columns, rows * count);
    fill(this.#image, values, this.paint());
    if (small.width !== columns || small.height < rows * count)
      Object.assign(small, { width: columns, height: rows * count });
    small.getContext("2d").putImageData(this.#image, 0, 0);
    const context = canvas.getContext("2d");
    context.imageSmoothingEnabled = false;
    context.clearRect(0, 0, wide, tall);
    for (let tile = 0; tile < count; tile += 1) {
      context.drawImage(
        small,
        0,
        tile * rows,
        columns,
        rows,
        (tile % across) * (w + gap),
        Math.floor(tile / across) * (t + gap),
        w,
        t,
      );
    }
  }

  #fitting(count, rows, columns) {
    return Math.max(
      1,
      Math.min(this.most, Math.round(Math.sqrt((count * rows) / columns) * (rows === 1 ? 0.2 : 1.5))),
    );
  }
}

function fill(image, values, paint) {
  const pixels = new Uint32Array(image.data.buffer);
  for (let i = 0; i < pixels.length; i += 1) pixels[i] = paint[values[i]];
}

const packed = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/** Colours of 0 (down), 1 (up), 2 (unknown), 3 (held down), 4 (held up). */
export const spins = () =>
  ["down", "up", "unknown", "held-down", "held-up"].map((name) => packed(colour(name)));

/** 256 colours from blue through paper to orange, for signed bytes by their bits. */
export function fields() {
  const [low, middle, high] = [colour("low"), colour("mid"), colour("high")];
  return Array.from({ length: 256 }, (_, byte) => {
    const x = (byte < 128 ? byte : byte - 256) / 127;
    return packed(mixed(middle, x < 0 ? low : high, Math.min(1, Math.abs(x))));
  });
}

export const mixed = (from, to, share) => from.map((x, i) => Math.round(x + (to[i] - x) * share));
