// Tempering: the walkers' ways over the rungs as a braid, and what stands on each rung now.

import { h } from "../parts/dom.js";
import { colour, css, follow } from "../parts/theme.js";
import { mixed } from "../draw/tiles.js";

const TURNS = 160;

export class Ladder {
  #ways = []; // of each turn: which walker stands on each rung
  #round = -1;
  #newest = null;

  constructor() {
    this.canvas = h("canvas", {
      role: "img",
      "aria-label": "Walkers on the rungs of a ladder",
      class: "braid",
    });
    this.text = h("p", { class: "small soft numbers", role: "status" });
    this.box = h("div", { class: "ladder" }, this.canvas, this.text);
    follow(this);
    new ResizeObserver(() => this.repaint()).observe(this.box);
  }

  show(told, shape) {
    const names = told.arrays.names.values;
    if (told.round !== this.#round || this.#ways[0]?.length !== names.length) {
      this.#round = told.round;
      this.#ways = [];
    }
    this.#ways.push([...names]);
    if (this.#ways.length > TURNS) this.#ways.shift();
    this.#newest = { told, shape };
    this.repaint();
    const rates = [...told.arrays.rates.values];
    const some =
      told.turn > 2
        ? `; neighbours trade with chances ${Math.min(...rates).toFixed(2)} to ${Math.max(...rates).toFixed(2)}`
        : "";
    const what = told.settled
      ? "the ladder stands"
      : "the rungs are being placed so that all pairs trade alike";
    this.text.textContent = `Turn ${told.turns}: ${what}${some}; ${told.trips} round trips.`;
  }

  repaint() {
    if (!this.#newest || this.box.hidden) return;
    const { told, shape } = this.#newest;
    const rungs = told.arrays.rungs.values;
    const count = rungs.length;
    const dense = window.devicePixelRatio || 1;
    const wide = Math.max(280, this.box.clientWidth);
    const tall = Math.min(680, Math.max(420, wide * 0.85));
    const step = (tall - 30) / count;
    const tile = Math.min(step - 3, 64);
    Object.assign(this.canvas, { width: wide * dense, height: tall * dense });
    this.canvas.style.width = `${wide}px`;
    this.canvas.style.height = `${tall}px`;
    const context = this.canvas.getContext("2d");
    context.scale(dense, dense);
    const right = wide - (tile * shape[1]) / Math.max(...shape) - 62;
    const y = (rung) => 20 + (rung + 0.5) * step;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = css("soft");
    context.textAlign = "right";
    context.fillText("β on the path", wide - 4, 12);
    this.#braid(context, count, right, y);
    this.#tiles(context, told.arrays, shape, { count, right, y, tile, wide });
    this.canvas.setAttribute(
      "aria-label",
      `${count} walkers on a ladder from free pixels above to the machine below, after ${told.turns} turns`,
    );
  }

  #braid(context, count, right, y) {
    const ways = this.#ways;
    const x = (i) =>
      right - 10 - ((ways.length - 1 - i) * (right - 14)) / (Math.max(60, ways.length) - 1);
    context.lineWidth = 2;
    context.lineJoin = "round";
    for (let walker = 0; walker < count; walker += 1) {
      context.strokeStyle = shade(walker, count);
      context.beginPath();
      ways.forEach((names, i) => {
        const rung = names.indexOf(walker);
        if (i === 0) context.moveTo(x(i), y(rung));
        else context.lineTo(x(i), y(rung));
      });
      context.stroke();
    }
  }

  #tiles(context, { spins, rungs, names }, [rows, columns], { count, right, y, tile, wide }) {
    const units = rows * columns;
    const unit = tile / Math.max(rows, columns);
    const [low, high] = [css("down"), css("up")];
    for (let rung = 0; rung < count; rung += 1) {
      const top = y(rung) - (unit * rows) / 2;
      context.fillStyle = low;
      context.fillRect(right, top, unit * columns, unit * rows);
      context.fillStyle = high;
      for (let i = 0; i < units; i += 1) {
        if (spins.values[rung * units + i])
          context.fillRect(
            right + (i % columns) * unit,
            top + Math.floor(i / columns) * unit,
            unit + 0.3,
            unit + 0.3,
          );
      }
      context.fillStyle = shade(names.values[rung], count);
      context.fillRect(right - 7, top, 4, unit * rows);
      context.fillStyle = css("soft");
      context.textAlign = "right";
      context.fillText(rungs.values[rung].toFixed(3), wide - 4, y(rung) + 4);
    }
  }
}

/** From blue, which began at the hot end, through green to orange, which began at the machine. */
function shade(walker, count) {
  const share = walker / Math.max(1, count - 1);
  const [from, middle, to] = [colour("a"), colour("c"), colour("b")];
  return `rgb(${(share < 0.5 ? mixed(from, middle, 2 * share) : mixed(middle, to, 2 * share - 1)).join(" ")})`;
}
