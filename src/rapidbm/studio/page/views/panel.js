// One training on the stage: where it stands, the hands on it, and what its machine looks like.

import { field, h, logarithmic, put, select, slider } from "../parts/dom.js";
import { count, duration, known, mean, short } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { saveMenu } from "../parts/save.js";
import { tip } from "../parts/tips.js";
import { titled } from "../parts/trainings.js";
import { fields, Tiles } from "../draw/tiles.js";

const OVER = new Set(["finished", "interrupted", "failed", "killed"]);
const PACES = [
  ["0", "as fast as it goes"],
  ["100", "100 updates a second"],
  ["20", "20 updates a second"],
  ["4", "4 updates a second"],
];

export class Panel {
  records = [];
  state = { status: "starting", update: 0 };
  perEpoch = 0;
  #rateTimer = 0;

  constructor(studio, side, run, resume) {
    Object.assign(this, { studio, link: studio.link, side, run });
    this.title = h("h3", { title: run }, run);
    this.badge = h("span", { class: "badge" });
    this.line = h("p", { class: "small soft numbers", role: "status" });
    this.bar = h("progress", { max: 1, value: 0, "aria-label": `Progress of ${run}` });
    const steer = (what, given = {}) => this.link.tell("steer", { run: this.run, what, ...given });
    this.pause = h(
      "button",
      { type: "button", onclick: () => steer(this.state.status === "paused" ? "go" : "pause") },
      "Pause",
    );
    this.step = h("button", { type: "button", onclick: () => steer("step") }, "One step");
    this.stop = h("button", { type: "button", onclick: () => steer("stop") }, "Stop");
    this.again = h(
      "button",
      { type: "button", hidden: true, onclick: () => resume().catch(complain) },
      "Go on",
    );
    this.rate = slider("Rate", {
      value: 0.01,
      from: 1e-5,
      to: 1,
      scale: logarithmic,
      show: (x) => short(x, 2),
      tip: tip("rate"),
      name: "live-rate",
      change: (rate) => this.#steerRate(() => steer("rate", { rate })),
    });
    this.pace = select(PACES, "0", (pace) => steer("pace", { pace: Number(pace) }));
    this.replica = h("select", {
      onchange: () => steer("replica", { replica: Number(this.replica.value) }),
    });
    this.changes = h("p", { class: "small soft" });
    this.fit = h("p", { class: "small soft" });
    this.learned = h("p", { class: "verdict", role: "status" });
    this.paceField = field("Pace", this.pace);
    this.replicaField = field("Replica shown", this.replica, { tip: tip("replicas") });
    this.hands = h("div", { class: "hands" }, this.rate, this.paceField, this.replicaField);
    this.ends = h("div", { class: "row", hidden: true });
    this.pictures = h("div", { class: "pictures" });
    this.box = h(
      "section",
      { class: `card panel side-${side}`, "aria-label": `Training ${run}` },
      h(
        "div",
        { class: "figure-head" },
        h("span", { class: `letter ${side}`, "aria-hidden": "true" }, side.toUpperCase()),
        this.title,
        this.badge,
      ),
      (this.about = h("p", { class: "soft small" })),
      this.bar,
      this.line,
      h("div", { class: "row" }, this.pause, this.step, this.stop, this.again),
      this.hands,
      this.changes,
      this.learned,
      this.fit,
      this.ends,
      this.pictures,
    );
    this.#makePictures();
    this.stopDrawing = this.link.draws(`frame/${run}`, (told) => this.#frame(told));
    this.#show();
  }

  close() {
    this.stopDrawing();
  }

  /** The run goes on in another worker, which tells everything from the beginning. */
  forget() {
    this.records = [];
    this.state = { status: "starting", update: 0 };
    this.#show();
  }

  /** A run that no worker trains now, as its folder has it. */
  async read() {
    const told = await this.link.ask("run", { run: this.run });
    const killed = told.status === "running" ? "killed" : told.status;
    this.hear({
      from: 0,
      records: told.records,
      about: told,
      state: {
        status: killed,
        update: told.update,
        updates: told.updates,
        epoch: told.records.at(-1)?.epoch ?? 0,
      },
    });
  }

  hear({ from, records, state, about }) {
    this.records = [...this.records.slice(0, from), ...records];
    this.state = state;
    if (about) this.#describe(about);
    this.#show();
  }

  #describe({ recipe, data, machine }) {
    this.data = data;
    this.recipe = recipe;
    this.title.textContent = titled({ run: this.run, data: data.name, machine, negative: recipe.negative });
    this.about.textContent = `${data.name}: ${machine}, by ${recipe.negative}${recipe.replicas > 1 ? `, ${count(recipe.replicas, "replica")}` : ""}`;
    this.replicaField.hidden = recipe.replicas < 2;
    put(
      this.replica,
      Array.from({ length: recipe.replicas }, (_, i) => h("option", { value: i }, String(i))),
    );
  }

  #show() {
    const { status, update, updates, base, changes = [], pace, fit } = this.state;
    if (updates && this.recipe) this.perEpoch = Math.ceil(this.data.train / this.recipe.batch_size);
    const over = OVER.has(status);
    this.badge.textContent = status;
    this.badge.dataset.status = status;
    if (updates) this.bar.value = update / updates;
    this.line.textContent = this.#told(over);
    this.#buttons(over);
    if (base && document.activeElement !== this.rate.input && !this.#rateTimer) this.rate.set(base);
    if (pace !== undefined && document.activeElement !== this.pace) this.pace.value = String(pace);
    const changed = changes.map(
      ([at, rate]) => `${short(rate, 2)} from update ${at.toLocaleString("en")}`,
    );
    this.changes.textContent = changed.length ? `Rate changed: ${changed.join("; ")}.` : "";
    this.fit.textContent = poor(fit, this.data?.shape[0] === 1);
    this.#next(over);
  }

  /** Where it stands, in a line. */
  #told(over) {
    const { status, update, updates, epoch, rate, speed, reason, diverged } = this.state;
    const moves = speed && !over;
    const left =
      moves && status !== "paused" ? `, about ${duration((updates - update) / speed)} left` : "";
    const parts = [
      updates &&
        `update ${update.toLocaleString("en")} of ${updates.toLocaleString("en")}, epoch ${epoch}`,
      moves && `${short(speed, 2)} a second${left}`,
      rate && !over && `rate now ${short(rate, 2)}`,
      diverged?.length && `${count(diverged.length, "replica")} diverged and frozen`,
      reason,
    ];
    return parts.filter(Boolean).join(" · ");
  }

  #buttons(over) {
    const { status } = this.state;
    this.pause.textContent = status === "paused" ? "Go on" : "Pause";
    for (const button of [this.pause, this.step, this.stop]) {
      button.hidden = over;
      button.disabled = this.studio.hello?.read_only || status === "starting";
    }
    this.again.hidden = !(status === "interrupted" || status === "killed");
    this.again.disabled = Boolean(this.studio.hello?.read_only);
    this.hands.hidden = over;
  }

  #next(over) {
    this.ends.hidden = !over;
    if (!over || this.ends.childElementCount) return;
    if (this.state.status === "finished") this.#learn();
    put(
      this.ends,
      this.data?.schema &&
        h(
          "button",
          {
            type: "button",
            class: "main",
            onclick: () => this.studio.go("table", { machine: this.run }),
          },
          "See it as a table",
        ),
      h(
        "button",
        { type: "button", onclick: () => this.studio.go("dream", { machine: this.run }) },
        "Let it dream",
      ),
      h(
        "button",
        { type: "button", onclick: () => this.studio.go("look", { machine: this.run }) },
        "Look at it",
      ),
      h(
        "a",
        { class: "button", href: `/export?run=${encodeURIComponent(this.run)}`, download: "" },
        "Save as one page",
      ),
    );
  }

  /** What the machine has learned, in a sentence. */
  #learn() {
    this.link
      .ask("learned", { machine: this.run })
      .then(({ sentence, numbers }) => {
        this.learned.textContent = sentence;
        this.learned.title = numbers;
      })
      .catch(() => {});
  }

  #steerRate(tell) {
    clearTimeout(this.#rateTimer);
    this.#rateTimer = setTimeout(() => {
      this.#rateTimer = 0;
      tell();
    }, 150);
  }

  // -- pictures ---------------------------------------------------------------------------------

  #makePictures() {
    const figure = (title, word, tiles) =>
      h(
        "figure",
        { class: "tile-figure", hidden: true },
        h(
          "figcaption",
          { class: "figure-head" },
          h("h4", {}, title),
          tip(word),
          h("span", { class: "push" }),
          saveMenu(
            `${title}-${this.run}`,
            () => tiles.canvas,
            () => table(tiles),
          ),
        ),
        tiles.box,
      );
    this.couplings = new Tiles({ label: "Patterns", paint: fields, most: 8, tallest: () => 260 });
    this.samples = new Tiles({ label: "Samples", columns: 9, tallest: () => 260 });
    this.filled = new Tiles({ label: "Reconstructions", columns: 8, tallest: () => 210 });
    this.each = new Tiles({ label: "One chain of each replica", columns: 20, tallest: () => 200 });
    this.figures = {
      couplings: figure("Patterns", "patterns", this.couplings),
      samples: figure("Samples", "samples", this.samples),
      filled: figure("Filled in", "filled", this.filled),
      each: figure("Each replica", "each", this.each),
    };
    put(this.pictures, Object.values(this.figures));
  }

  #frame({ arrays, patterned, update }) {
    if (!this.data || this.data.schema) return; // cells of a table are no pixels
    const shape = this.data.shape;
    const { couplings, samples, given, known, filled, each } = arrays;
    const name = patterned ? "Patterns" : "Couplings of some hidden units";
    this.figures.couplings.querySelector("h4").textContent = patterned ? "Patterns" : "Couplings";
    this.couplings.show(
      new Uint8Array(couplings.values.buffer, couplings.values.byteOffset, couplings.values.length),
      couplings.shape[0],
      shape,
      `${name} after update ${update}`,
    );
    this.samples.show(samples.values, samples.shape[0], shape, `Samples after update ${update}`);
    this.figures.couplings.hidden = this.figures.samples.hidden = false;
    if (filled) {
      const corrupted = given.values.map((x, i) => (known.values[i] ? x : 2));
      this.filled.columns = given.shape[0];
      this.filled.show(
        Uint8Array.from([...given.values, ...corrupted, ...filled.values]),
        3 * given.shape[0],
        shape,
        `Test ${this.data.shape[0] === 1 ? "rows" : "images"}, what is known of them, and what the machine makes of it after update ${update}`,
      );
      this.figures.filled.hidden = false;
    }
    if (each) {
      this.each.show(each.values, each.shape[0], shape, `One chain of each of ${each.shape[0]} replicas`);
      this.figures.each.hidden = false;
    }
  }
}

/** What a finished run has proven, where its likelihood is below that of independent columns. */
function poor(fit, table) {
  const most = known(fit?.log_likelihood_at_most ?? []);
  if (!most.length || Math.max(...most) >= fit.independent_columns) return "";
  const [proven, free] = [short(mean(most), 4), short(fit.independent_columns, 4)];
  const [units, what] = table ? ["columns", "fills gaps in rows"] : ["pixels", "completes images"];
  return `Its log p of the training data is at most ${proven}, independent ${units} give ${free}: it ${what}, it is no model of their likelihood.`;
}

/** One row for each tile. */
export function table(tiles) {
  const shown = tiles.size;
  if (!shown) return { columns: [], rows: [] };
  const units = shown.rows * shown.columns;
  return {
    columns: [units === shown.columns ? "row" : "image", ...Array.from({ length: units }, (_, i) => `v${i}`)],
    rows: Array.from({ length: shown.count }, (_, i) => [
      i,
      ...shown.values.slice(i * units, (i + 1) * units),
    ]),
  };
}
