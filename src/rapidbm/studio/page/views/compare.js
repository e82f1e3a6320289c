// Compare: the runs of the folder as a table and as small multiples, and any of them in one frame.

import { h, put } from "../parts/dom.js";
import { minus, short, size } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { saveMenu } from "../parts/save.js";
import { Curves } from "../draw/curves.js";
import { Spark } from "../draw/spark.js";

const COLUMNS = [
  ["name", "Run"],
  ["status", "Status"],
  ["data", "Data"],
  ["machine", "Machine"],
  ["epoch", "Epochs"],
  ["last", "Last"],
  ["best", "Best"],
  ["size", "Size"],
  ["changed", "Changed"],
];
const SIDES = ["a", "b", "c", "d"];
const MEASURES = { log_likelihood: "log p", log_bound: "log p ≥", hamming: "HD" };

export function open(stage, studio, given) {
  const compare = new Compare(stage, studio, given);
  return { close: () => compare.close(), reopen: () => compare.load() };
}

class Compare {
  runs = [];
  chosen = new Set();
  sort = { by: "changed", down: true };

  constructor(stage, studio) {
    this.studio = studio;
    this.link = studio.link;
    this.curves = new Curves({
      title: "In one frame",
      name: "compare",
      word: "bands",
      up: "",
      height: 280,
    });
    this.curves.figure.hidden = true;
    this.body = h("tbody", {});
    this.head = h("tr", {});
    this.table = h(
      "table",
      { class: "runs" },
      h("caption", { class: "unseen" }, "Runs of the folder"),
      h("thead", {}, this.head),
      this.body,
    );
    this.multiples = h("div", { class: "multiples" });
    this.text = h("p", { class: "lead" });
    stage.append(
      h(
        "div",
        { class: "view-head" },
        h("h2", {}, "Compare"),
        h(
          "div",
          { class: "row" },
          h("button", { type: "button", onclick: () => this.load().catch(complain) }, "Read again"),
          saveMenu(
            "runs",
            () => this.curves.svg,
            () => this.#rows(),
          ),
        ),
      ),
      this.text,
      this.curves.figure,
      h(
        "div",
        { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Table of runs" },
        this.table,
      ),
      h("h3", { class: "between" }, "Small multiples"),
      this.multiples,
    );
    this.stops = [this.link.on("trainings", () => this.#soon())];
    if (studio.hello) this.load().catch(complain);
  }

  close() {
    for (const stop of this.stops) stop();
    clearTimeout(this.timer);
  }

  #soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load().catch(complain), 600);
  }

  async load() {
    const { runs } = await this.link.ask("runs");
    this.runs = runs;
    this.text.textContent = runs.length
      ? "Click a heading to sort; tick runs to draw their curves in one frame."
      : "There are no runs in this folder yet: train one on the page Play, or by the command.";
    this.#show();
  }

  #show() {
    put(
      this.head,
      h("th", { scope: "col" }, h("span", { class: "unseen" }, "In one frame")),
      COLUMNS.map(([key, text]) => this.#heading(key, text)),
      h("th", { scope: "col" }, h("span", { class: "unseen" }, "What to do")),
    );
    const { by, down } = this.sort;
    const ordered = [...this.runs].sort((p, q) => (down ? -1 : 1) * compared(key(p, by), key(q, by)));
    put(
      this.body,
      ordered.map((run) => this.#row(run)),
    );
    this.#drawMultiples(ordered);
    this.#drawCurves();
  }

  #heading(name, text) {
    const { by, down } = this.sort;
    const mine = by === name;
    return h(
      "th",
      { scope: "col", "aria-sort": mine ? (down ? "descending" : "ascending") : "none" },
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            this.sort = { by: name, down: mine ? !down : name !== "name" };
            this.#show();
            this.head.querySelector("[aria-sort]:not([aria-sort=none]) button").focus();
          },
        },
        text,
        h("span", { "aria-hidden": "true" }, mine ? (down ? " ↓" : " ↑") : ""),
      ),
    );
  }

  #row(run) {
    const open = !run.reason;
    const tick = h("input", {
      type: "checkbox",
      "aria-label": `Draw ${run.name}`,
      checked: this.chosen.has(run.name),
      disabled: !run.curve.length,
      onchange: () => {
        if (tick.checked) this.chosen.add(run.name);
        else this.chosen.delete(run.name);
        this.#drawCurves();
      },
    });
    const button = (text, view) =>
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `${text} ${run.name}`,
          onclick: () =>
            this.studio.go(view, view === "play" ? { run: run.name } : { machine: run.name }),
        },
        text,
      );
    return h(
      "tr",
      {},
      h("td", {}, tick),
      h("th", { scope: "row" }, run.name),
      h(
        "td",
        {},
        h(
          "span",
          { class: "badge", dataset: { status: run.status }, title: run.reason || undefined },
          run.status,
        ),
      ),
      h("td", {}, run.data),
      h(
        "td",
        {},
        run.machine,
        run.replicas > 1 ? h("span", { class: "soft" }, ` ×${run.replicas}`) : null,
      ),
      h("td", { class: "numbers" }, open ? `${run.epoch}/${run.epochs ?? "…"}` : "–"),
      h("td", { class: "numbers" }, measured(run, run.last)),
      h("td", { class: "numbers" }, measured(run, run.best)),
      h("td", { class: "numbers" }, size(run.size)),
      h("td", { class: "numbers" }, run.changed.slice(5, 16).replace("T", " ")),
      h(
        "td",
        { class: "acts" },
        open
          ? [
              button("Dream", "dream"),
              button("Look", "look"),
              button("Play", "play"),
              h(
                "a",
                {
                  href: `/export?run=${encodeURIComponent(run.name)}`,
                  download: "",
                  "aria-label": `Save ${run.name} as one page`,
                },
                "Page",
              ),
            ]
          : h("span", { class: "small soft" }, run.reason),
      ),
    );
  }

  #drawCurves() {
    const shown = this.runs.filter((run) => this.chosen.has(run.name)).slice(0, 8);
    this.curves.figure.hidden = !shown.length;
    this.curves.up = [...new Set(shown.map((run) => words(run.measure)))].join(", ");
    this.curves.show(
      shown.map((run, i) => ({
        name: run.name,
        side: SIDES[i % 4],
        dashed: i > 3,
        x: run.curve.map(([x]) => x),
        y: run.curve.map(([, y]) => y),
        low: run.curve.map(([, , low]) => low),
        high: run.curve.map(([, , , high]) => high),
      })),
    );
    this.curves.caption.textContent = shown.length
      ? "The lines are means over replicas; the bands reach from the lowest to the highest."
      : "";
  }

  #drawMultiples(runs) {
    const some = runs.filter((run) => run.curve.length > 1).slice(0, 60);
    const frames = new Map(); // runs of one measure share their axes
    for (const run of some) frames.set(run.measure, [...(frames.get(run.measure) ?? []), ...run.curve]);
    put(
      this.multiples,
      some.map((run) =>
        h(
          "figure",
          { class: "card multiple" },
          h(
            "figcaption",
            { class: "small" },
            h("b", {}, run.name),
            h("br"),
            h("span", { class: "soft" }, `${words(run.measure)}: ${measured(run, run.last)}`),
          ),
          new Spark(run.curve, frames.get(run.measure), run.name).svg,
        ),
      ),
    );
  }

  #rows() {
    const columns = [
      "name",
      "status",
      "data",
      "machine",
      "epoch",
      "epochs",
      "replicas",
      "measure",
      "last",
      "best",
      "size",
      "changed",
    ];
    return {
      columns,
      rows: this.runs.map((run) =>
        columns.map((name) => (Array.isArray(run[name]) ? average(run[name]) : run[name])),
      ),
    };
  }
}

function average(values) {
  const found = (values ?? []).filter((x) => x !== null);
  return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
}

function key(run, name) {
  return name === "last" || name === "best" ? average(run[name]) : run[name];
}

function compared(p, q) {
  if (p === q) return 0;
  if (p === null || p === undefined) return -1;
  if (q === null || q === undefined) return 1;
  return typeof p === "string" ? p.localeCompare(q, "en", { numeric: true }) : p - q;
}

const words = (measure) =>
  measure.replace(/^(log_likelihood|log_bound|hamming)/, (name) => MEASURES[name]).replaceAll("_", " ");

function measured(run, values) {
  const found = (values ?? []).filter((x) => x !== null);
  if (!found.length) return "–";
  const middle = average(found);
  if (found.length < 2) return short(middle, 4);
  const spread = Math.sqrt(found.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (found.length - 1));
  return minus(`${short(middle, 3)} ± ${short(spread, 1)}`);
}
