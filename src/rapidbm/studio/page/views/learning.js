// Learning curves: the mean over replicas and a band of four in five, of one machine or of two in the same frame.

import { h, put } from "../parts/dom.js";
import { known, mean, quantile } from "../parts/numbers.js";
import { Curves } from "../draw/curves.js";

const ASIDE = new Set(["epoch", "update", "seconds", "diverged"]);
const NAMES = {
  hamming: ["Reconstruction", "Hamming distance", 0],
  log_likelihood: ["Likelihood", "log p, nats", null],
  log_bound: ["Likelihood, lower bound", "log p ≥, nats", null],
  free_energy: ["Free energy", "F", null],
  gibbs_accessibility: ["Gibbs accessibility", "E / ground state", null],
};
const BAND = [0.1, 0.9];

export class LearningCurves {
  #plots = new Map();

  constructor() {
    this.box = h("div", { class: "curves", hidden: true });
  }

  show(panels) {
    const metrics = new Set(panels.flatMap((panel) => [...metricsOf(panel.records)]));
    for (const name of metrics) {
      if (!this.#plots.has(name)) {
        const [title, up, floor] = NAMES[name] ?? [name, name, null];
        this.#plots.set(
          name,
          new Curves({
            title,
            word:
              name in NAMES && name !== "free_energy" && name !== "gibbs_accessibility" ? name : "bands",
            name: `curve-${name}`,
            up,
            floor,
            height: 250,
          }),
        );
      }
    }
    for (const name of this.#plots.keys()) if (!metrics.has(name)) this.#plots.delete(name);
    const figures = [...this.#plots.values()].map((plot) => plot.figure);
    if (
      figures.some((figure, i) => figure !== this.box.children[i]) ||
      figures.length !== this.box.children.length
    )
      put(this.box, figures);
    const tables = panels.every(({ data }) => data?.shape[0] === 1);
    for (const [name, plot] of this.#plots) {
      plot.up = unitOf(name, tables);
      plot.show(panels.flatMap((panel) => seriesOf(panel, name, panels.length > 1)));
    }
  }
}

function unitOf(name, tables) {
  const up = NAMES[name]?.[1] ?? name;
  return up.endsWith("nats") ? `${up} ${tables ? "a row" : "an image"}` : up;
}

function metricsOf(records) {
  const keys = new Set(records.flatMap((record) => Object.keys(record)));
  return new Set(
    [...keys]
      .filter((key) => !ASIDE.has(key) && !key.includes("_error_"))
      .map((key) => key.replace(/_(train|test|valid)$/, "")),
  );
}

function seriesOf(panel, metric, several) {
  const records = panel.records;
  const parts = ["test", "train", "valid"].filter((part) =>
    records.some((record) => `${metric}_${part}` in record),
  );
  const single = parts.length ? parts : [""];
  const letter = panel.side.toUpperCase();
  return single.map((part, i) => {
    const key = part ? `${metric}_${part}` : metric;
    const rows = records
      .filter((record) => key in record)
      .map((record) => ({
        epoch: epochOf(record, panel),
        values: known(record[key]).sort((p, q) => p - q),
      }));
    const several_replicas = rows.some(({ values }) => values.length > 1);
    const banded = i === 0 && several_replicas;
    return {
      name: [several ? letter : "", part].filter(Boolean).join(" "),
      side: several ? panel.side : ["a", "b", "d"][i],
      dashed: several && i > 0,
      x: rows.map(({ epoch }) => epoch),
      y: rows.map(({ values }) => (values.length ? mean(values) : null)),
      low: banded
        ? rows.map(({ values }) => (values.length ? quantile(values, BAND[0]) : null))
        : undefined,
      high: banded
        ? rows.map(({ values }) => (values.length ? quantile(values, BAND[1]) : null))
        : undefined,
    };
  });
}

const epochOf = (record, panel) => (panel.perEpoch ? record.update / panel.perEpoch : record.epoch);
