// What runs are judged by: names, units, which way is better, and the groups of runs that can be compared.

const NAMES = {
  log_likelihood: ["log p", "nats a row"],
  log_bound: ["lower bound of log p", "nats a row"],
  hamming: ["Hamming distance", "share of wrong pixels"],
  free_energy: ["free energy", ""],
};

/** The measure in words: {title, unit, better}. */
export function measureOf({ measure, low }) {
  const [, base, part] = measure.match(/^(.*?)(?:_(test|valid|train))?$/);
  const [name, unit] = NAMES[base] ?? [base.replaceAll("_", " "), ""];
  const better = base in NAMES && base !== "free_energy" ? (low ? "lower" : "higher") : "";
  return { title: [name, part].filter(Boolean).join(", "), unit, better };
}

export function average(values) {
  const found = (values ?? []).filter((x) => x !== null);
  return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
}

/** Runs of the same data and measure, in the order in which the first of each stands; what was not measured last. */
export function groupsOf(runs) {
  const groups = new Map();
  for (const run of runs) {
    const key = JSON.stringify([run.data, run.measure]);
    if (!groups.has(key)) groups.set(key, { key, data: run.data, measure: run.measure, runs: [] });
    groups.get(key).runs.push(run);
  }
  const found = [...groups.values()];
  return [...found.filter(({ measure }) => measure), ...found.filter(({ measure }) => !measure)];
}

/** The run of a group whose best value is the best; null where there is nothing to choose among. */
export function bestOf({ runs }) {
  const measured = runs.filter((run) => average(run.best) !== null);
  if (measured.length < 2 || !measureOf(measured[0]).better) return null;
  const sign = measured[0].low ? -1 : 1;
  return measured.reduce((p, q) => (sign * average(q.best) > sign * average(p.best) ? q : p));
}

/** "bars4 · Hamming distance, test: share of wrong pixels, lower is better". */
export function headline({ data, measure, runs }) {
  if (!measure) return [data, "not measured yet"].filter(Boolean).join(" · ");
  const { title, unit, better } = measureOf(runs[0]);
  const more = [unit, better && `${better} is better`].filter(Boolean).join(", ");
  return `${data} · ${title}${more ? `: ${more}` : ""}`;
}
