// A figure with a title, an explanation, a way to save it, and a drawing that fits its width.

import { h, put, s } from "../parts/dom.js";
import { saveMenu } from "../parts/save.js";
import { tip } from "../parts/tips.js";
import { follow } from "../parts/theme.js";
import { labels } from "./scales.js";

export const MARGINS = { left: 60, right: 16, top: 10, bottom: 38 };

/** `draw({width, height})` answers the children of the SVG and what it shows in words; `table()` its numbers. */
export class Plot {
  #draw;
  #width = 0;

  constructor({ title, word = null, name, height = 230, draw, table, level = 3, side = [] }) {
    this.#draw = draw;
    this.height = height;
    this.svg = s("svg", { class: "plot", role: "img", tabindex: 0 });
    this.readout = h("p", { class: "readout numbers", "aria-live": "polite" });
    this.caption = h("figcaption", {});
    this.body = h("div", { class: "plot-body" }, this.svg);
    this.figure = h(
      "figure",
      { class: "card figure" },
      h(
        "div",
        { class: "figure-head" },
        h(`h${level}`, {}, title),
        word && tip(word),
        h("span", { class: "push" }),
        side,
        saveMenu(
          name ?? title,
          () => this.svg,
          () => table(),
        ),
      ),
      this.body,
      this.readout,
      this.caption,
    );
    new ResizeObserver(([entry]) => {
      const width = Math.round(entry.contentRect.width);
      if (width !== this.#width) {
        this.#width = width;
        this.refresh();
      }
    }).observe(this.body);
    follow(this);
  }

  repaint() {
    this.refresh();
  }

  refresh() {
    if (!this.#width || !this.figure.isConnected) return;
    const [width, height] = [this.#width, this.height];
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("height", height);
    const { children, words } = this.#draw({ width, height });
    put(this.svg, children);
    this.svg.setAttribute("aria-label", words);
  }
}

/** Grid, ticks and names of two scales. */
export function axes(
  x,
  y,
  { width, height, across, up, margins = MARGINS, xTicks = x.ticks(), yTicks = y.ticks() },
) {
  const { left, right, top, bottom } = margins;
  const floor = height - bottom;
  const xs = (x.labels ?? labels)(xTicks);
  const ys = (y.labels ?? labels)(yTicks);
  return s(
    "g",
    { class: "axes" },
    yTicks.map((v, i) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      s("text", { x: left - 7, y: y(v) + 4, "text-anchor": "end" }, ys[i]),
    ]),
    xTicks.map((v, i) => [
      s("line", { class: "tick", x1: x(v), x2: x(v), y1: floor, y2: floor + 4 }),
      s("text", { x: x(v), y: floor + 17, "text-anchor": "middle" }, xs[i]),
    ]),
    s("line", { class: "base", x1: left, x2: width - right, y1: floor, y2: floor }),
    s(
      "text",
      { class: "name", x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" },
      across,
    ),
    up &&
      s(
        "text",
        {
          class: "name",
          x: 0,
          y: 0,
          "text-anchor": "middle",
          transform: `translate(11 ${(top + floor) / 2}) rotate(-90)`,
        },
        up,
      ),
  );
}

/** A path through points [x, y]; null breaks it. */
export function path(points) {
  let pen = "M";
  let told = "";
  for (const point of points) {
    if (point === null || !Number.isFinite(point[1]) || !Number.isFinite(point[0])) {
      pen = "M";
      continue;
    }
    told += `${pen}${point[0].toFixed(1)},${point[1].toFixed(1)}`;
    pen = "L";
  }
  return told;
}

/** What lies beyond the frame is cut off. */
export function clip(children, { width, height, margins = MARGINS }) {
  const { left, right, top, bottom } = margins;
  const [w, h0] = [Math.max(0, width - left - right), Math.max(0, height - top - bottom)];
  return s(
    "svg",
    { x: left, y: top, width: w, height: h0, viewBox: `${left} ${top} ${w} ${h0}` },
    children,
  );
}

/** A cursor that reads off the nearest of some looks {x, text, y: [[place, class], …]}, by pointer and by arrow keys. */
export function cursor(plot, looks, { height, margins = MARGINS }) {
  const line = s("line", {
    class: "cursor",
    y1: margins.top,
    y2: height - margins.bottom,
    visibility: "hidden",
  });
  const spots = s("g", {});
  let at = looks.length - 1;
  const show = (i) => {
    at = Math.max(0, Math.min(looks.length - 1, i));
    const look = looks[at];
    if (!look) return;
    line.setAttribute("visibility", "visible");
    line.setAttribute("x1", look.x);
    line.setAttribute("x2", look.x);
    put(
      spots,
      look.y.map(([y, side]) => s("circle", { class: `spot ${side}`, cx: look.x, cy: y, r: 4 })),
    );
    plot.readout.textContent = look.text;
  };
  plot.svg.onpointermove = (event) => {
    const box = plot.svg.getBoundingClientRect();
    const x = event.clientX - box.left;
    show(
      looks.reduce((best, look, i) => (Math.abs(look.x - x) < Math.abs(looks[best].x - x) ? i : best), 0),
    );
  };
  plot.svg.onpointerleave = () => {
    line.setAttribute("visibility", "hidden");
    put(spots);
  };
  plot.svg.onkeydown = (event) => {
    const move = { ArrowLeft: -1, ArrowRight: 1, Home: -looks.length, End: looks.length }[event.key];
    if (move === undefined) return;
    event.preventDefault();
    show(at + move);
  };
  return [line, spots];
}
