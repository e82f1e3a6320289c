// The choices for one machine: only what was changed is sent, and the rest is shown as the library fills it in.

import { choice, field, h, logarithmic, put, select, slider, wholeLog } from "../parts/dom.js";
import { short } from "../parts/numbers.js";
import { tip } from "../parts/tips.js";

const NEGATIVES = {
  pid: "PID, pattern-induced: the patterns",
  cd: "CD, contrastive divergence: chains from the data",
  pcd: "PCD, persistent CD: chains that live on",
  exact: "exact: all states",
  pt: "tempering",
};
const TAKES = { pid: ["sweeps"], cd: ["sweeps"], pcd: ["sweeps", "particles"], pt: ["rungs"] };
/** The likelihood where the sum over hidden units has a closed form, else its lower bound. */
const watched = ({ model }) => (model === "rbm" ? "log_likelihood" : "log_bound");
const WAIT = 120; // milliseconds without a change before the library is asked

/** How long a training may take whose settings are found for one. */
const BUDGETS = [
  ["30s", "30 seconds, to try it"],
  ["1m", "1 minute"],
  ["5m", "5 minutes, for good"],
  ["20m", "20 minutes"],
  ["1h", "1 hour"],
];
const OPTIONS = ["sweeps", "particles", "rungs"];

export class Choices {
  usual = {}; // of the data, where a lighter start than the library's suits a page
  chosen = {}; // by hand; kept when the data change
  recipe = null;
  wrong = "";
  budget = "1m";
  simple = false; // settings are found by short trainings; else all of them can be chosen
  refused = {}; // values of choices that do not go with the couplings
  #timer = 0;
  #turn = 0;

  constructor(side, link, changed) {
    Object.assign(this, { side, link, changed });
    this.error = h("p", { class: "note bad small", role: "alert", hidden: true });
    this.head = h("h3", {}, "Machine");
    this.form = h("div", {});
    this.mode = choice(
      "Settings",
      [
        ["simple", "Simple"],
        ["all", "All settings"],
      ],
      "all",
      (mode) => {
        this.decided = true;
        this.#simplify(mode === "simple");
        this.#ask();
      },
    );
    this.time = select(BUDGETS, this.budget, (budget) => {
      this.budget = budget;
      this.#ask();
    });
    this.easy = h(
      "div",
      { hidden: true },
      field("Time to train", this.time),
      h(
        "p",
        { class: "small soft" },
        "About a third of the time goes into short trainings that find good settings; the rest trains the best of them.",
      ),
    );
    this.box = h(
      "div",
      { class: `card choices side-${side}` },
      h(
        "div",
        { class: "figure-head" },
        (this.letter = h("span", { class: `letter ${side}`, "aria-hidden": "true" }, side.toUpperCase())),
        this.head,
        h("span", { class: "push" }),
        (this.again = h(
          "button",
          { type: "button", class: "quiet small", hidden: true, onclick: () => this.#forget() },
          "Usual settings",
        )),
      ),
      this.mode,
      this.form,
      this.easy,
      this.error,
    );
  }

  #simplify(simple) {
    this.simple = simple;
    this.mode.choose(simple ? "simple" : "all");
    this.form.hidden = simple;
    this.easy.hidden = !simple;
  }

  get preset() {
    return this.simple ? "auto" : undefined;
  }

  alone(alone) {
    this.letter.hidden = alone;
    this.head.textContent = alone ? "Machine" : `Machine ${this.side.toUpperCase()}`;
  }

  /** Other data, with what was chosen as it is; or other choices. */
  begin(dataset, usual, chosen = this.chosen) {
    Object.assign(this, { dataset, usual, chosen: { ...chosen } });
    if (Object.keys(chosen).length) this.#simplify(false);
    else if (!this.decided) this.#simplify(dataset.startsWith("upload:"));
    this.#ask();
  }

  /** What is asked for: what is usual for the data, unless it belongs to something that was chosen otherwise. */
  get asked() {
    const { columns } = this.usual;
    if (this.simple) return { budget: this.budget, ...(columns && { columns }) };
    const usual = { ...this.usual };
    if (!columns) delete usual.columns;
    if ("negative" in this.chosen) for (const option of OPTIONS) delete usual[option];
    if (this.chosen.patterns === null) delete usual.scale;
    if ("model" in this.chosen) delete usual.hidden;
    return { ...usual, ...this.chosen };
  }

  #forget() {
    this.begin(this.dataset, this.usual, {});
  }

  #set(name, value) {
    this.chosen[name] = value;
    if (name === "negative")
      for (const option of OPTIONS)
        if (!(TAKES[value] ?? []).includes(option)) delete this.chosen[option];
    if (name === "patterns" && value === null) this.#dense();
    if (name === "model") this.#layers(value);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask(), WAIT);
  }

  /** What needs patterns goes with them. */
  #dense() {
    if (this.chosen.negative === "pid") delete this.chosen.negative;
    if (this.chosen.projection !== "none") delete this.chosen.projection;
  }

  #layers(model) {
    const [first] = this.recipe?.hidden ?? [100];
    this.chosen.hidden = model === "dbm" ? [first || 100, Math.ceil((first || 100) / 2)] : [first || 100];
    delete this.chosen.metrics; // what can be watched is another
  }

  async #ask() {
    if (!this.link.opened) return void setTimeout(() => this.#ask(), 300);
    const mine = (this.#turn += 1);
    try {
      const told = await this.link.ask("recipe", {
        dataset: this.dataset,
        chosen: this.asked,
        preset: this.preset,
      });
      if (mine !== this.#turn) return undefined; // something else was chosen meanwhile
      Object.assign(this, { recipe: told.recipe, rate: told.rate, refused: told.refused, wrong: "" });
      if (!this.simple) this.#show();
    } catch (error) {
      if (mine !== this.#turn) return undefined;
      this.wrong = error.message;
    }
    this.again.hidden = this.simple || !Object.keys(this.chosen).length;
    this.error.textContent = this.wrong;
    this.error.hidden = !this.wrong;
    this.changed();
    return undefined;
  }

  #show() {
    const { recipe } = this;
    if (!this.controls) this.#build();
    const { controls } = this;
    const quiet = (control, value) => {
      if (!control.contains(document.activeElement)) control.set(value);
    };
    controls.model.choose(recipe.model);
    controls.couplings.choose(recipe.patterns === null ? "dense" : "patterns");
    controls.patterns.hidden = recipe.patterns === null;
    if (recipe.patterns !== null) quiet(controls.patterns, recipe.patterns);
    quiet(controls.hidden, Math.max(1, recipe.hidden[0] ?? 1));
    for (const name of ["negative", "projection"])
      for (const option of controls[name].options) {
        option.disabled = (this.refused[name] ?? []).includes(option.value);
        option.title = option.disabled ? "needs couplings built from patterns (RA)" : "";
      }
    controls.negative.value = recipe.negative;
    quiet(controls.rate, this.rate);
    quiet(controls.replicas, recipe.replicas);
    quiet(controls.epochs, recipe.epochs);
    const takes = TAKES[recipe.negative] ?? [];
    const usual = { sweeps: recipe.negative === "pid" ? 0 : 1, particles: 1000, rungs: 10 };
    for (const name of ["sweeps", "particles", "rungs"]) {
      controls[name].box.hidden = !takes.includes(name);
      if (document.activeElement !== controls[name]) controls[name].value = recipe[name] ?? usual[name];
    }
    for (const name of ["batch_size", "seed"])
      if (document.activeElement !== controls[name]) controls[name].value = recipe[name];
    controls.optimizer.value = recipe.optimizer;
    controls.projection.value = recipe.projection;
    controls.biases.checked = recipe.biases;
    controls.likelihood.checked = recipe.metrics.includes(watched(recipe));
  }

  #build() {
    const number = (name, text, least, most) => {
      const input = h("input", {
        type: "number",
        min: least,
        max: most,
        step: 1,
        name,
        onchange: () =>
          this.#set(name, Math.max(least, Math.min(most, Math.round(Number(input.value) || least)))),
      });
      input.box = field(text, input);
      return input;
    };
    const check = (name, text, on) => {
      const input = h("input", { type: "checkbox", name, onchange: () => on(input.checked) });
      input.box = h("label", { class: "check" }, input, text);
      return input;
    };
    const c = (this.controls = {
      model: choice(
        "Kind",
        [
          ["rbm", "restricted, RBM"],
          ["dbm", "deep, DBM"],
          ["bm", "full, BM"],
        ],
        "rbm",
        (model) => this.#set("model", model),
      ),
      couplings: choice(
        "Couplings",
        [
          ["patterns", "patterns, RA"],
          ["dense", "dense"],
        ],
        "patterns",
        (kind) => this.#set("patterns", kind === "dense" ? null : (this.recipe?.patterns ?? 8)),
        { tip: tip("patterns") },
      ),
      patterns: slider("Patterns K", {
        value: 8,
        from: 1,
        to: 400,
        scale: wholeLog,
        name: "patterns",
        change: (k) => this.#set("patterns", k),
      }),
      hidden: slider("Hidden units", {
        value: 100,
        from: 4,
        to: 3000,
        scale: wholeLog,
        name: "hidden",
        change: (n) => this.#set("hidden", this.recipe?.model === "dbm" ? [n, Math.ceil(n / 2)] : [n]),
      }),
      negative: select(Object.entries(NEGATIVES), "pid", (name) => this.#set("negative", name)),
      rate: slider("Rate", {
        value: 0.02,
        from: 1e-5,
        to: 1,
        scale: logarithmic,
        show: (x) => short(x, 2),
        tip: tip("rate"),
        name: "rate",
        change: (x) => this.#set("rate", Number(x.toPrecision(3))),
      }),
      replicas: slider("Replicas", {
        value: 1,
        from: 1,
        to: 100,
        scale: wholeLog,
        tip: tip("replicas"),
        name: "replicas",
        change: (n) => this.#set("replicas", n),
      }),
      epochs: slider("Epochs", {
        value: 20,
        from: 1,
        to: 3000,
        scale: wholeLog,
        name: "epochs",
        change: (n) => this.#set("epochs", n),
      }),
      sweeps: number("sweeps", "Sweeps an update", 0, 1000),
      particles: number("particles", "Chains", 1, 10000),
      rungs: number("rungs", "Rungs", 2, 64),
      batch_size: number("batch_size", "Batch", 1, 100000),
      seed: number("seed", "Seed", 0, 2 ** 31),
      optimizer: select(
        [
          ["sgd", "SGD"],
          ["adam", "Adam"],
        ],
        "sgd",
        (name) => {
          delete this.chosen.rate;
          this.#set("optimizer", name);
        },
      ),
      projection: select(
        [
          ["none", "none"],
          ["sign", "sign: back to ±1"],
          ["clip", "clip to [−1, 1]"],
          ["gibbs", "Gibbs"],
        ],
        "none",
        (name) => this.#set("projection", name),
      ),
      biases: check("biases", "Biases", (on) => this.#set("biases", on)),
      likelihood: check("likelihood", "Watch the likelihood", (on) =>
        this.#set("metrics", on ? ["hamming", watched(this.recipe)] : ["hamming"]),
      ),
    });
    put(
      this.form,
      c.model,
      c.couplings,
      c.patterns,
      c.hidden,
      field("Negative phase", c.negative, { tip: tip("negative") }),
      h("div", { class: "fields" }, c.sweeps.box, c.particles.box, c.rungs.box),
      c.rate,
      c.replicas,
      c.epochs,
      h(
        "details",
        {},
        h("summary", {}, "More"),
        h(
          "div",
          { class: "fields" },
          field("Optimiser", c.optimizer),
          field("Projection", c.projection),
          c.batch_size.box,
          c.seed.box,
        ),
        c.biases.box,
        c.likelihood.box,
      ),
    );
  }
}
