// A strip below the slider of β: what random patterns of this load would do at each temperature.

import { h, put } from "../parts/dom.js";
import { tip } from "../parts/tips.js";

const TEXTS = {
  paramagnet: "paramagnet",
  retrieval: "retrieval",
  metastable: "retrieval, metastable",
  glass: "spin glass",
};

export class Zones {
  constructor() {
    this.strip = h("div", { class: "zones", "aria-hidden": "true" });
    this.text = h("p", { class: "small soft zone-text", role: "status" });
    this.box = h(
      "details",
      { hidden: true },
      h("summary", {}, "Theory: random patterns at this temperature"),
      this.strip,
      h("div", { class: "zone-row" }, this.text, tip("zones")),
    );
  }

  hide() {
    this.box.hidden = true;
  }

  /** T = T(1)/β, beside the lines' temperatures at the machine's load. */
  show(place, { from, to }) {
    this.place = place;
    this.ends = [Math.log(from), Math.log(to)];
    const cuts = [place.glass, place.retrieval, place.stable]
      .filter((t) => t !== null)
      .map((t) => place.temperature / t);
    const edges = [from, ...cuts.filter((b) => b > from && b < to).sort((p, q) => p - q), to];
    const spans = edges.slice(1).map((end, i) => [edges[i], end, this.phase(Math.sqrt(edges[i] * end))]);
    const share = (b) => (Math.log(b) - this.ends[0]) / (this.ends[1] - this.ends[0]);
    put(
      this.strip,
      spans.map(([start, end, phase]) => {
        const zone = h(
          "span",
          { class: `zone ${phase}` },
          share(end) - share(start) > 0.16 ? TEXTS[phase] : "",
        );
        zone.style.left = `${100 * share(start)}%`;
        zone.style.width = `${100 * (share(end) - share(start))}%`;
        return zone;
      }),
      (this.needle = h("i", { class: "needle" })),
    );
    this.box.hidden = false;
  }

  phase(beta) {
    const { temperature, glass, retrieval, stable } = this.place;
    const t = temperature / beta;
    if (t >= glass) return "paramagnet";
    if (stable !== null && t < stable) return "retrieval";
    if (retrieval !== null && t < retrieval) return "metastable";
    return "glass";
  }

  mark(beta) {
    if (!this.place) return;
    this.needle.style.left = `${(100 * (Math.log(beta) - this.ends[0])) / (this.ends[1] - this.ends[0])}%`;
    const load = this.place.load < 10 ? this.place.load.toPrecision(2) : Math.round(this.place.load);
    this.text.textContent = `Random patterns at this load (${load}) and β: ${TEXTS[this.phase(beta)]}.`;
  }
}
