// The phase diagram of random pattern machines, and the way of this machine through it.

import { s } from "../../parts/dom.js";
import { short } from "../../parts/numbers.js";
import { MARGINS, axes, clip, path } from "../../draw/plot.js";
import { logarithmic, straight } from "../../draw/scales.js";
import { Card } from "./card.js";

export class Phases extends Card {
  constructor(link, asked) {
    super(link, asked, { ask: "phases", title: "Phase diagram", word: "phases" });
  }

  quick() {
    return true;
  }

  patience() {
    return "some seconds";
  }

  caption({ phase, patterns, patterned }) {
    return `A random machine of this load and temperature is: ${phase}. ${patterned ? `K = ${short(patterns)}.` : `Its couplings count as those of ${short(patterns, 2)} patterns.`} Trained patterns are not random: a guide, not a verdict.`;
  }

  drawn({ here, path: way, load, glass, retrieval, stable }, { width, height }) {
    const places = [here, ...way].filter(([l, t]) => l > 0 && t > 0);
    const loads = places.map(([l]) => l);
    const x = logarithmic(
      [Math.min(1e-3, ...loads), Math.max(3.2, ...loads) * 1.1],
      [MARGINS.left, width - MARGINS.right],
    );
    const top = Math.min(4, Math.max(2.2, ...places.map(([, t]) => t * 1.15)));
    const y = straight([0, top], [height - MARGINS.bottom, MARGINS.top]);
    const line = (values) => load.map((l, i) => (values[i] === null ? null : [x(l), y(values[i])]));
    const filled = (values, name) => {
      const points = line(values).filter(Boolean);
      if (!points.length) return null;
      const floor = height - MARGINS.bottom;
      const end =
        name === "glass"
          ? [
              [width, Math.min(points.at(-1)[1], MARGINS.top)],
              [width, floor],
            ]
          : [[points.at(-1)[0], floor]];
      return s("path", {
        class: `zone-fill ${name}`,
        d: `${path([[points[0][0], floor], ...points, ...end])}Z`,
      });
    };
    const [hx, hy] = [x(Math.max(here[0], x.back(MARGINS.left))), y(Math.min(here[1], top))];
    const beyond = here[1] > top ? " (above the frame)" : "";
    const text = (words, px, py) =>
      s("text", { class: "hint", x: px, y: py, "text-anchor": "middle" }, words);
    return {
      words: `Load ${short(here[0])}, temperature ${short(here[1])}${beyond}.`,
      children: [
        clip(
          [
            filled(glass, "glass"),
            filled(retrieval, "metastable"),
            filled(stable, "retrieval"),
            s("path", { class: "boundary", d: path(line(glass)) }),
            s("path", { class: "boundary", d: path(line(retrieval)) }),
            text("paramagnet", x(0.02), y(top * 0.82)),
            text("spin glass", x(0.55), y(0.45)),
            text("retrieval", x(0.006), y(0.45)),
            s("path", { class: "way", d: path(way.map(([l, t]) => [x(l), y(Math.min(t, top))])) }),
          ],
          { width, height },
        ),
        axes(x, y, { width, height, across: "load", up: "temperature" }),
        s("circle", { class: "place", cx: hx, cy: hy, r: 6 }),
      ],
    };
  }

  table({ load, glass, retrieval, stable, path: way, updates, here }) {
    const lines = load.map((l, i) => ["line", null, l, glass[i], retrieval[i], stable[i]]);
    const steps = way.map(([l, t], i) => ["checkpoint", updates[i], l, t, null, null]);
    return {
      columns: ["what", "update", "load", "glass_or_temperature", "retrieval", "stable"],
      rows: [...lines, ...steps, ["machine", null, ...here, null, null]],
    };
  }
}
