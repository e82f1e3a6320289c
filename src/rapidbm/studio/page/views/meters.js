// What the chains do, in numbers: their energies over the last frames, and how much they agree.

import { h, s } from "../parts/dom.js";
import { short } from "../parts/numbers.js";
import { tip } from "../parts/tips.js";
import { saveMenu } from "../parts/save.js";
import { css, follow } from "../parts/theme.js";

const FRAMES = 240;
const [WIDE, TALL] = [360, 96];

export class Meters {
  #energies = [];
  #overlaps = null;
  #due = 0;

  constructor() {
    this.canvas = h("canvas", {
      role: "img",
      "aria-label": "Energies of the chains",
      width: 2 * WIDE,
      height: 2 * TALL,
      class: "meter",
    });
    this.bars = s("svg", {
      role: "img",
      "aria-label": "Overlaps of the chains",
      class: "meter",
      viewBox: `0 0 ${WIDE} ${TALL}`,
    });
    this.energy = h("span", { class: "push numbers small soft" });
    this.overlap = h("span", { class: "push numbers small soft" });
    const table = () => ({
      columns: ["frame", ...(this.#energies[0] ?? []).map((_, i) => `chain_${i}`)],
      rows: this.#energies.map((row, i) => [i, ...row]),
    });
    const shares = () => ({
      columns: ["q", "share"],
      rows: [...(this.#overlaps ?? [])].map((x, i, all) => [-1 + (2 * i + 1) / all.length, x]),
    });
    const meter = (title, word, number, picture, numbers) =>
      h(
        "figure",
        { class: "tile-figure" },
        h(
          "figcaption",
          { class: "figure-head" },
          h("h3", {}, title),
          tip(word),
          number,
          saveMenu(word, () => picture, numbers),
        ),
        picture,
      );
    this.box = h(
      "section",
      { class: "meters", "aria-label": "Meters" },
      meter("Energy", "energy", this.energy, this.canvas, table),
      (this.pairs = meter("Overlaps", "overlaps", this.overlap, this.bars, shares)),
    );
    follow(this);
  }

  begin() {
    this.#energies = [];
    this.#overlaps = null;
  }

  show(energies, overlaps) {
    this.#energies.push([...energies]);
    if (this.#energies.length > FRAMES) this.#energies.shift();
    if (overlaps) {
      this.#overlaps = overlaps.slice();
      this.#drawOverlaps();
    }
    if ((this.#due += 1) % 3 === 0) this.#drawEnergies();
  }

  repaint() {
    this.#drawEnergies();
    if (this.#overlaps) this.#drawOverlaps();
  }

  #drawEnergies() {
    const rows = this.#energies;
    if (!rows.length) return;
    const all = rows.flat();
    let [low, high] = [Infinity, -Infinity];
    for (const x of all) {
      if (x < low) low = x;
      if (x > high) high = x;
    }
    const room = (high - low) * 0.05 || 0.01;
    const context = this.canvas.getContext("2d");
    context.setTransform(2, 0, 0, 2, 0, 0);
    context.clearRect(0, 0, WIDE, TALL);
    context.strokeStyle = css("a");
    context.globalAlpha = Math.max(0.12, Math.min(0.7, 6 / rows[0].length));
    context.lineWidth = 1;
    const y = (x) => 4 + ((high + room - x) / (high - low + 2 * room)) * (TALL - 8);
    for (let chain = 0; chain < rows[0].length; chain += 1) {
      context.beginPath();
      rows.forEach((row, i) => context.lineTo((i / (FRAMES - 1)) * WIDE, y(row[chain])));
      context.stroke();
    }
    context.globalAlpha = 1;
    const now = rows.at(-1).reduce((a, b) => a + b, 0) / rows[0].length;
    this.energy.textContent = `E/N = ${short(now, 3)}`;
    this.canvas.setAttribute(
      "aria-label",
      `Energies of the chains: from ${short(low)} to ${short(high)} a unit, now ${short(now)} on average`,
    );
  }

  #drawOverlaps() {
    const shares = this.#overlaps;
    const most = Math.max(...shares, 1e-9);
    const wide = WIDE / shares.length;
    const mean = shares.reduce((sum, x, i) => sum + x * (-1 + (2 * i + 1) / shares.length), 0);
    this.bars.replaceChildren(
      ...[...shares].map((x, i) =>
        s("rect", {
          class: "bar",
          x: i * wide + 0.5,
          width: wide - 1,
          y: TALL - 14 - (x / most) * (TALL - 22),
          height: (x / most) * (TALL - 22),
        }),
      ),
      ...[
        [-1, "start"],
        [0, "middle"],
        [1, "end"],
      ].map(([q, anchor]) =>
        s(
          "text",
          { x: ((q + 1) / 2) * WIDE, y: TALL - 2, "text-anchor": anchor },
          String(q).replace("-", "−"),
        ),
      ),
    );
    this.overlap.textContent = `⟨q⟩ = ${short(mean, 2)}`;
    this.bars.setAttribute("aria-label", `Overlaps of pairs of chains: on average ${short(mean, 2)}`);
  }
}
