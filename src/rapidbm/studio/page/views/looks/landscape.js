// The landscape: valleys, patterns and data in the plane of their overlaps, with the energy as depth; it can be turned.

import { h, put, s } from "../../parts/dom.js";
import { count, short } from "../../parts/numbers.js";
import { ticks } from "../../draw/scales.js";
import { Tiles } from "../../draw/tiles.js";
import { Card } from "./card.js";

const SIDES = { minima: "a", patterns: "b", data: "c" };
const NAMES = { minima: "valley", patterns: "pattern", data: "datum" };
const TURN = Math.PI / 24;
const TILT = 0.24;

export class Landscape extends Card {
  #yaw = 0.5;
  #tilt = TILT; // 0 is from the side, 1 from above
  #points = [];
  #chosen = null;

  constructor(link, asked) {
    super(link, asked, {
      ask: "landscape",
      title: "Landscape",
      word: "landscape",
      height: 400,
      wide: true,
    });
    this.thumb = new Tiles({ label: "The state that is chosen", columns: 1, tallest: () => 130 });
    this.told = h(
      "p",
      { class: "small numbers", role: "status" },
      "Point at a valley to see its state; drag or use the arrow keys to turn the map.",
    );
    this.legend = h("p", { class: "legend small" });
    const above = h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        onclick: () => {
          this.#tilt = this.#tilt < 1 ? 1 : TILT;
          above.setAttribute("aria-pressed", String(this.#tilt === 1));
          this.plot.refresh();
        },
      },
      "From above",
    );
    this.aside = h(
      "div",
      { class: "landscape-side", hidden: true },
      this.thumb.box,
      this.told,
      this.legend,
      above,
    );
    this.figure.querySelector(".plot-body").append(this.aside);
    this.figure.classList.add("with-side");
    this.#turning();
  }

  arrived({ groups, distinct }) {
    const words = (name, many) =>
      name === "minima" && distinct > many
        ? `${many} of ${count(distinct, "valley")}, the deepest`
        : count(many, NAMES[name]).replace("datums", "data");
    this.aside.hidden = false;
    put(
      this.legend,
      groups.map(([name, many]) =>
        h("span", { class: `key ${SIDES[name]}` }, words(name, many)),
      ),
    );
  }

  caption({ starts, distinct, total, kept, folded, retrieval }) {
    const more =
      retrieval === null ? "" : ` ${Math.round(100 * retrieval)} % of the descents end at a pattern.`;
    const all = total[1] >= 0.5 ? `${short(total[0], 3)} ± ${short(total[1], 2)}` : short(total[0], 3);
    return `${starts} descents found ${count(distinct, "valley")}; by those met once and twice there are at least ${all}.${more} The plane keeps ${Math.round(100 * kept)} % of the distances${folded ? "; a state and its mirror image are one point" : ""}.`;
  }

  #turning() {
    const { svg } = this.plot;
    let from = null;
    svg.addEventListener("pointerdown", (event) => {
      from = [event.clientX, event.clientY];
      svg.setPointerCapture(event.pointerId);
    });
    svg.addEventListener("pointerup", () => {
      from = null;
    });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return this.#nearest(event);
      this.#yaw += (event.clientX - from[0]) * 0.008;
      this.#tilt = Math.max(0.1, Math.min(1, this.#tilt + (event.clientY - from[1]) * 0.004));
      from = [event.clientX, event.clientY];
      return this.plot.refresh();
    });
    svg.addEventListener("keydown", (event) => {
      const yaw = { ArrowLeft: -TURN, ArrowRight: TURN }[event.key];
      const tilt = { ArrowUp: -0.06, ArrowDown: 0.06 }[event.key];
      if (event.key === "Enter" || event.key === "n") this.#choose((this.#chosen ?? -1) + 1);
      else if (yaw !== undefined) this.#yaw += yaw;
      else if (tilt !== undefined) this.#tilt = Math.max(0.1, Math.min(1, this.#tilt + tilt));
      else return;
      event.preventDefault();
      this.plot.refresh();
    });
  }

  #nearest(event) {
    const box = this.plot.svg.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    for (const point of this.#points) {
      const far = Math.hypot(point.x - x, point.y - y);
      if (far < 22 && (!best || far < best.far)) best = { far, index: point.index };
    }
    if (best && best.index !== this.#chosen) {
      this.#choose(best.index);
      this.plot.refresh();
    }
  }

  #choose(index) {
    const { groups, energies, counts, overlaps, starts, shape, arrays } = this.found;
    const total = energies.length;
    this.#chosen = (index + total) % total;
    const units = shape[0] * shape[1];
    this.thumb.show(
      arrays.images.values.subarray(this.#chosen * units, (this.#chosen + 1) * units),
      1,
      shape,
    );
    const [name, place] = this.#group(groups, this.#chosen);
    const found =
      name === "minima"
        ? `, ${Math.round((1000 * counts[place]) / starts) / 10} % of the descents end there${overlaps ? `, overlap with the nearest pattern ${short(overlaps[place], 2)}` : ""}`
        : "";
    this.told.textContent = `${NAMES[name]} ${place + 1}: E/N = ${short(energies[this.#chosen], 4)}${found}`;
  }

  #group(groups, index) {
    let first = 0;
    for (const [name, many] of groups) {
      if (index < first + many) return [name, index - first];
      first += many;
    }
    return ["minima", 0];
  }

  drawn(found, { width, height }) {
    const { groups, places, energies, counts, starts, random, folded } = found;
    const reach = Math.max(...places.map(([px, py]) => Math.hypot(px, py)), 1e-6);
    const flat = this.#tilt;
    const wide = Math.min((width - 60) * 0.47, ((height - 40) * 0.5) / flat / 0.9);
    const half = wide * flat * 0.9; // of the plane, as it is seen
    const ceiling = random[0] + random[1];
    const floor = Math.min(...energies);
    const span = Math.max(ceiling - floor, 1e-9);
    const deep = Math.max(0, height - 2 * half - 44) * (flat < 1 ? 1 : 0);
    const centre = [width / 2 + 18, 20 + half];
    const [cos, sin] = [Math.cos(this.#yaw), Math.sin(this.#yaw)];
    const project = ([px, py], energy) => {
      const [a, b] = [(px * cos - py * sin) / reach, (px * sin + py * cos) / reach];
      return {
        x: centre[0] + a * wide,
        y: centre[1] + b * half + ((ceiling - energy) / span) * deep,
        far: b,
        top: centre[1] + b * half,
      };
    };
    this.#points = places.map((place, index) => {
      const [name, number] = this.#group(groups, index);
      const share = name === "minima" ? counts[number] / starts : 0;
      return {
        ...project(place, energies[index]),
        index,
        name,
        r: name === "minima" ? 3.2 + 26 * Math.sqrt(share) : 4,
      };
    });
    const order = [...this.#points].sort((p, q) => p.far - q.far);
    const marks = deep > 40 ? ticks(floor, ceiling, 5).filter((e) => e <= ceiling && e >= floor) : [];
    const children = [
      s("ellipse", { class: "sea", cx: centre[0], cy: centre[1], rx: wide * 1.04, ry: half * 1.04 }),
      marks.length ? this.#ruler(marks, (e) => height - 12 - deep + ((ceiling - e) / span) * deep) : null,
      deep > 12
        ? order.map((p) =>
            s("line", { class: `stem side ${SIDES[p.name]}`, x1: p.x, x2: p.x, y1: p.top, y2: p.y }),
          )
        : null,
      order.map((p) => this.#drawnPoint(p)),
    ];
    const best = Math.min(...energies.slice(0, groups[0][1]));
    return {
      children,
      words: `A map of ${groups.map(([name, many]) => count(many, NAMES[name])).join(", ")}${folded ? ", mirror images folded" : ""}; the deepest valley has E/N = ${short(best, 4)}.`,
    };
  }

  /** The length of stems: how deep below the sea of random states a valley lies. */
  #ruler(marks, y) {
    return s(
      "g",
      { class: "axes" },
      s("line", { class: "base", x1: 46, x2: 46, y1: y(marks.at(-1)), y2: y(marks[0]) }),
      marks.map((e) => [
        s("line", { class: "tick", x1: 42, x2: 46, y1: y(e), y2: y(e) }),
        s("text", { x: 38, y: y(e) + 4, "text-anchor": "end" }, short(e, 2)),
      ]),
      s("text", { class: "name", x: 46, y: y(marks.at(-1)) - 8, "text-anchor": "end" }, "E/N"),
    );
  }

  #drawnPoint({ x, y, r, name, index }) {
    const side = `side ${SIDES[name]}`;
    const chosen = index === this.#chosen ? s("circle", { class: "ring", cx: x, cy: y, r: r + 4 }) : null;
    const shape =
      name === "patterns"
        ? s("path", {
            class: `dot ${side}`,
            d: `M${x},${y - r - 1.5}l${r + 1.5},${r + 1.5}l${-r - 1.5},${r + 1.5}l${-r - 1.5},${-r - 1.5}z`,
          })
        : s("circle", {
            class: `${name === "minima" ? "valley" : "dot"} ${side}`,
            cx: x,
            cy: y,
            r: name === "data" ? 2.6 : r,
          });
    return [shape, chosen];
  }

  table({ groups, places, energies, counts }) {
    const rows = places.map(([px, py], i) => {
      const [name, number] = this.#group(groups, i);
      return [NAMES[name], number, px, py, energies[i], name === "minima" ? counts[number] : null];
    });
    return { columns: ["what", "number", "x", "y", "energy_per_unit", "descents"], rows };
  }
}
