// Compare: the runs of the folder as a table and as small multiples, and any of them in one frame.

import { field, h, put } from "../parts/dom.js";
import { minus, short, size } from "../parts/numbers.js";
import { askLabel, askToDelete } from "../parts/runs.js";
import { complain } from "../parts/remarks.js";
import { saveMenu } from "../parts/save.js";
import { snapshotButton } from "../parts/snapshot.js";
import { running } from "../parts/trainings.js";
import { Curves } from "../draw/curves.js";
import { Spark } from "../draw/spark.js";
import { average, bestOf, groupsOf, headline, measureOf } from "./measures.js";

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
const FRESH = 6000; // milliseconds after which the folder is read again while something trains
const SHOWN = 8; // curves of one frame

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
    this.frames = new Map(); // of data and measure: the curves of the runs that are ticked
    this.framed = h("div", { class: "frames" });
    this.head = h("tr", {});
    this.table = h(
      "table",
      { class: "runs" },
      h("caption", { class: "unseen" }, "Runs of the folder"),
      h("thead", {}, this.head),
    );
    this.multiples = h("div", { class: "multiples" });
    this.text = h("p", { class: "lead" });
    this.filter = h("input", {
      type: "search",
      id: "filter-runs",
      placeholder: "name, data, machine, status, note",
      oninput: () => this.#show(),
    });
    this.matching = h("p", { class: "small soft", role: "status" });
    stage.append(
      h(
        "div",
        { class: "view-head" },
        h("h2", {}, "Compare"),
        h(
          "div",
          { class: "row" },
          h("button", { type: "button", onclick: () => this.load().catch(complain) }, "Read again"),
          snapshotButton(() => "Runs compared"),
          saveMenu(
            "runs",
            () => [...this.frames.values()][0]?.svg ?? this.multiples.querySelector("svg"),
            () => this.#rows(),
          ),
        ),
      ),
      this.text,
      field("Show runs with", this.filter),
      this.matching,
      this.framed,
      h(
        "div",
        { class: "card scroll", tabindex: 0, role: "region", "aria-label": "Table of runs" },
        this.table,
      ),
      h("h3", { class: "between" }, "Small multiples"),
      this.multiples,
    );
    this.stops = [this.link.on("trainings", ({ trainings }) => this.#live(trainings))];
    if (studio.hello) this.load().catch(complain);
  }

  close() {
    for (const stop of this.stops) stop();
    clearTimeout(this.timer);
  }

  /** Rows of trainings follow them; the folder is read again when one has begun or ended. */
  #live(trainings) {
    const states = JSON.stringify(trainings.map(({ run, status }) => [run, status]));
    if (states !== this.states) this.#soon();
    this.states = states;
    const stale = running(trainings).length > 0 && performance.now() - this.read > FRESH;
    if (stale && !this.table.contains(document.activeElement)) this.#soon(); // its newest measures and curves
    for (const { run, status, epoch, epochs, update, updates } of running(trainings)) {
      const shown = this.runs.find(({ name }) => name === run);
      const row = [...this.table.querySelectorAll("tr[data-run]")].find((tr) => tr.dataset.run === run);
      if (!shown || !row) continue;
      Object.assign(shown, { status, epoch: epoch ?? shown.epoch, epochs: shown.epochs ?? epochs });
      const badge = row.querySelector(".badge");
      badge.textContent = badge.dataset.status = status;
      row.querySelector(".epoch").textContent = `${shown.epoch}/${shown.epochs ?? "…"}`;
      row.querySelector(".epoch").title = updates ? `update ${update} of ${updates}` : "";
    }
  }

  #soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load().catch(complain), 600);
  }

  async load() {
    const { runs } = await this.link.ask("runs");
    this.runs = runs;
    this.read = performance.now();
    this.text.textContent = runs.length
      ? "Runs of the same data and measure stand together, and only those are drawn in one frame. Click a heading to sort within each group; tick runs to draw their curves."
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
    const shown = this.runs.filter((run) => matches(run, this.filter.value));
    this.matching.textContent =
      shown.length < this.runs.length ? `${shown.length} of ${this.runs.length} runs` : "";
    const ordered = shown.sort((p, q) => (down ? -1 : 1) * compared(key(p, by), key(q, by)));
    const groups = groupsOf(ordered);
    for (const body of this.table.querySelectorAll("tbody")) body.remove();
    this.table.append(
      ...groups.map((group) => {
        const best = bestOf(group);
        const title = h(
          "tr",
          { class: "group" },
          h("th", { scope: "rowgroup", colspan: COLUMNS.length + 2 }, headline(group)),
        );
        return h("tbody", {}, title, group.runs.map((run) => this.#row(run, run === best)));
      }),
    );
    this.#drawMultiples(groups);
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

  #row(run, best) {
    const open = !run.reason;
    const tick = h("input", {
      type: "checkbox",
      "aria-label": `Draw ${run.title}`,
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
          "aria-label": `${text} ${run.title}`,
          onclick: () =>
            this.studio.go(view, view === "play" ? { run: run.name } : { machine: run.name }),
        },
        text,
      );
    const act = (text, go) =>
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `${text} ${run.title}`,
          onclick: () => go().catch(complain),
        },
        text,
      );
    return h(
      "tr",
      { dataset: { run: run.name } },
      h("td", {}, tick),
      h(
        "th",
        { scope: "row", title: run.name },
        run.title,
        run.note && h("div", { class: "small soft note-of-run" }, run.note),
      ),
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
      h("td", { class: "numbers epoch" }, open ? `${run.epoch}/${run.epochs ?? "…"}` : "–"),
      h("td", { class: "numbers" }, measured(run, run.last)),
      h(
        "td",
        { class: "numbers" },
        measured(run, run.best),
        best ? h("span", { class: "badge best" }, "best") : null,
      ),
      h("td", { class: "numbers" }, size(run.size)),
      h("td", { class: "numbers" }, run.changed.slice(5, 16).replace("T", " ")),
      h(
        "td",
        { class: "acts" },
        open
          ? [
              run.table && button("Table", "table"),
              button("Dream", "dream"),
              button("Look", "look"),
              button("Play", "play"),
              h(
                "a",
                {
                  href: `/export?run=${encodeURIComponent(run.name)}`,
                  download: "",
                  "aria-label": `Save ${run.title} as one page`,
                },
                "Page",
              ),
              !this.studio.hello?.read_only && [
                act("Name", () => askLabel(this.link, run).then((changed) => changed && this.load())),
                act("Delete", () => askToDelete(this.link, run).then((gone) => gone && this.#gone(run))),
              ],
            ]
          : h("span", { class: "small soft" }, run.reason),
      ),
    );
  }

  #gone(run) {
    this.chosen.delete(run.name);
    return this.load();
  }

  /** A frame for each data set and measure of the runs that are ticked; numbers in it stand for names below. */
  #drawCurves() {
    const groups = groupsOf(this.runs.filter((run) => this.chosen.has(run.name) && run.measure));
    const keys = new Set(groups.map(({ key }) => key));
    for (const key of this.frames.keys()) if (!keys.has(key)) this.frames.delete(key);
    for (const group of groups) this.#drawFrame(group);
    put(
      this.framed,
      groups.map(({ key }) => this.frames.get(key).figure),
    );
    for (const { key } of groups) this.frames.get(key).refresh();
  }

  #drawFrame(group) {
    const shown = group.runs.slice(0, SHOWN);
    const { title, unit } = measureOf(shown[0]);
    if (!this.frames.has(group.key)) {
      const curves = new Curves({
        title: headline(group),
        name: `compare-${group.data}-${group.measure}`,
        word: "bands",
        up: unit.startsWith("nats") ? `${title}, ${unit}` : title,
        height: 280,
      });
      curves.legend = h("ol", { class: "small legend-list" });
      curves.figure.append(curves.legend);
      this.frames.set(group.key, curves);
    }
    const curves = this.frames.get(group.key);
    curves.show(
      shown.map((run, i) => ({
        name: String(i + 1),
        side: SIDES[i % 4],
        dashed: i > 3,
        x: run.curve.map(([x]) => x),
        y: run.curve.map(([, y]) => y),
        low: run.curve.map(([, , low]) => low),
        high: run.curve.map(([, , , high]) => high),
      })),
    );
    put(
      curves.legend,
      shown.map((run) => h("li", {}, run.title)),
    );
    const left = group.runs.length - shown.length;
    curves.caption.textContent = `The lines are means over replicas; the bands reach from the lowest to the highest.${left ? ` ${left} more are ticked and not drawn.` : ""}`;
  }

  #drawMultiples(groups) {
    const curved = groups.map(({ runs }) => runs.filter((run) => run.curve.length > 1));
    const some = curved.flatMap((runs) => {
      const shared = runs.flatMap((run) => run.curve); // runs that can be compared share their axes
      return runs.map((run) => ({ run, shared }));
    });
    put(
      this.multiples,
      some.slice(0, 60).map(({ run, shared }) =>
        h(
          "figure",
          { class: "card multiple" },
          h(
            "figcaption",
            { class: "small" },
            h("b", {}, run.title),
            h("br"),
            h(
              "span",
              { class: "soft" },
              `${run.data}, ${measureOf(run).title}: ${measured(run, run.last)}`,
            ),
          ),
          new Spark(run.curve, shared, run.title).svg,
        ),
      ),
    );
  }

  #rows() {
    const columns = [
      "name",
      "title",
      "note",
      "status",
      "data",
      "machine",
      "epoch",
      "epochs",
      "replicas",
      "measure",
      "low",
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

/** Whether a run has all of these words somewhere. */
function matches(run, text) {
  const said = [run.title, run.name, run.data, run.machine, run.status, run.note, run.measure]
    .join("\n")
    .toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => said.includes(word));
}

function key(run, name) {
  if (name === "name") return run.title;
  return name === "last" || name === "best" ? average(run[name]) : run[name];
}

function compared(p, q) {
  if (p === q) return 0;
  if (p === null || p === undefined) return -1;
  if (q === null || q === undefined) return 1;
  return typeof p === "string" ? p.localeCompare(q, "en", { numeric: true }) : p - q;
}

function measured(run, values) {
  const found = (values ?? []).filter((x) => x !== null);
  if (!found.length) return "–";
  const middle = average(found);
  if (found.length < 2) return short(middle, 4);
  const spread = Math.sqrt(found.reduce((sum, x) => sum + (x - middle) ** 2, 0) / (found.length - 1));
  return minus(`${short(middle, 3)} ± ${short(spread, 1)}`);
}
