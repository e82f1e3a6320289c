// Dream: a grid of chains that moves, its temperature, its field, and pixels that are held.

import { choice, field, h, linear, logarithmic, put, select, slider, wholeLog } from "../parts/dom.js";
import { short } from "../parts/numbers.js";
import { complain, remark } from "../parts/remarks.js";
import { tip } from "../parts/tips.js";
import { saveMenu } from "../parts/save.js";
import { Tiles } from "../draw/tiles.js";
import { Board } from "./board.js";
import { Ladder } from "./ladder.js";
import { Meters } from "./meters.js";
import { Zones } from "./zones.js";

const BETA = { from: 0.05, to: 8 };
const CHAINS = 64;
const PATIENCE = 30000; // milliseconds

export function open(stage, studio, given) {
  const dream = new Dream(stage, studio, given);
  return { close: () => dream.close(), reopen: () => dream.begin() };
}

class Dream {
  constructor(stage, studio, given) {
    this.studio = studio;
    this.link = studio.link;
    this.given = given;
    this.machine = given.machine ?? "pretrained:mnist";
    this.running = true;
    this.mode = given.mode === "ladder" ? "ladder" : "chains";
    this.tiles = new Tiles({
      label: "Gibbs chains",
      columns: 8,
      tallest: () => Math.max(420, window.innerHeight - 170),
    });
    this.meters = new Meters();
    this.ladder = new Ladder();
    this.board = new Board((held) => this.#hold(held));
    this.zones = new Zones();
    this.frames = 0;
    stage.append(this.#layout());
    this.stops = [
      this.link.draws("frame/dream", (told) => this.#frame(told)),
      this.link.on("dream", (told) => this.#opened(told)),
      this.link.on("woken", ({ text }) => this.#woken(text)),
    ];
    if (studio.hello) this.begin();
  }

  close() {
    this.link.tell("dream", { what: "close" });
    for (const stop of this.stops) stop();
  }

  /** Opens the chains of the machine that is chosen, with everything as the controls stand. */
  begin() {
    const { beta, field: force, sweeps } = this.controls;
    this.link.tell("dream", {
      what: "open",
      machine: this.machine,
      replica: Number(this.given.replica ?? 0),
      chains: CHAINS,
      beta: beta.input.number,
      field: force.input.number,
      sweeps: sweeps.input.number,
      running: this.running,
      start: this.given.start ? { from: this.given.start } : undefined,
    });
    if (this.mode === "ladder") this.link.tell("dream", { what: "ladder", on: true });
    if (!this.listed) this.#list().catch(complain);
    this.link
      .ask("place", { machine: this.machine, replica: Number(this.given.replica ?? 0) })
      .then((place) => {
        if (place.load === null) return this.zones.hide(); // the theory is one of spins
        this.zones.show(place, BETA);
        return this.zones.mark(beta.input.number);
      })
      .catch(() => this.zones.hide());
  }

  /** The worker has died: once it begins anew, but not for ever. */
  #woken(text) {
    const again = !this.died || performance.now() - this.died > PATIENCE;
    this.died = performance.now();
    remark(again ? `${text}; it begins anew` : `${text}; choose the machine again to go on`);
    if (again) this.begin();
  }

  // -- controls ---------------------------------------------------------------------------------

  #layout() {
    const set = (name, value) => this.link.tell("dream", { what: "set", [name]: value });
    const beta = slider("Inverse temperature β", {
      value: Number(this.given.beta ?? 1),
      ...BETA,
      scale: logarithmic,
      show: (x) => x.toFixed(2),
      tip: tip("beta"),
      name: "beta",
      change: (x) => {
        set("beta", x);
        this.zones.mark(x);
      },
    });
    const force = slider("Field h", {
      value: 0,
      from: -1,
      to: 1,
      scale: linear,
      step: 0.01,
      show: (x) => short(x, 2),
      tip: tip("field"),
      name: "field",
      change: (x) => set("field", Math.abs(x) < 0.005 ? 0 : x),
    });
    const sweeps = slider("Sweeps a frame", {
      value: 1,
      from: 1,
      to: 50,
      scale: wholeLog,
      show: String,
      tip: tip("sweeps"),
      name: "sweeps",
      change: (x) => set("sweeps", x),
    });
    this.controls = { beta, field: force, sweeps };
    this.picker = select(
      [[this.machine, this.machine]],
      this.machine,
      (name) => this.studio.go("dream", { machine: name }),
      { id: "dream-machine" },
    );
    this.play = h(
      "button",
      { type: "button", class: "main", onclick: () => this.#run(!this.running) },
      "Pause",
    );
    const once = h(
      "button",
      {
        type: "button",
        onclick: () => {
          this.#run(false);
          this.link.tell("dream", { what: "once" });
        },
      },
      "One sweep",
    );
    const quick = [
      ["hot", 0.1],
      ["β = 1", 1],
      ["frozen", 6],
    ].map(([text, value]) =>
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            beta.set(value);
            set("beta", value);
            this.zones.mark(value);
          },
        },
        text,
      ),
    );
    this.starts = h("div", { class: "row tight" });
    this.unlike = h(
      "p",
      { class: "card small", hidden: true },
      "This machine is for a table with categories or numbers. Each strip is a row that it drew: a category is lit where it was chosen, a number where it is above 0. Holding cells and the field are for machines whose units are all ±1, so they are not offered here.",
    );
    this.asTable = h(
      "p",
      { class: "card small", hidden: true },
      h("a", { href: `#/table?${new URLSearchParams({ machine: this.machine })}` }, "See it as a table"),
      ": columns by name, values to hold, rows in the words of your file.",
    );
    this.about = h("p", { class: "soft small" });
    this.gridHead = h("h2", {}, "Dream");
    this.stageBody = h("div", { class: "dream-stage" }, this.tiles.box, this.ladder.box);
    this.#showMode();
    const save = saveMenu(
      "chains",
      () => (this.mode === "ladder" ? this.ladder.canvas : this.tiles.canvas),
      () => this.#table(),
    );
    return h(
      "div",
      { class: "dream" },
      h(
        "section",
        { class: "dream-main", "aria-label": "Chains" },
        h(
          "div",
          { class: "view-head" },
          this.gridHead,
          h(
            "div",
            { class: "row stage-head" },
            (this.speed = h("span", { class: "soft small numbers" })),
            this.play,
            once,
            choice(
              "Show",
              [
                ["chains", "Chains"],
                ["ladder", "Tempering"],
              ],
              this.mode,
              (mode) => this.#switch(mode),
            ),
            save,
          ),
        ),
        h(
          "p",
          { class: "lead" },
          "Every unit is drawn again and again, given the others. Heat it, freeze it, or hold some pixels.",
        ),
        this.stageBody,
      ),
      h(
        "div",
        { class: "dream-side" },
        h(
          "section",
          { class: "card", "aria-label": "Temperature" },
          field("Machine", this.picker),
          this.about,
          beta,
          this.zones.box,
          h("div", { class: "row tight quick" }, quick),
          h("div", { class: "fields" }, force, sweeps),
          h("div", { class: "field" }, h("span", { class: "label" }, "Start chains from"), this.starts),
        ),
        this.asTable,
        this.board.box,
        this.unlike,
      ),
      this.meters.box,
    );
  }

  async #list() {
    this.listed = true;
    const { embedded, runs } = await this.link.ask("machines");
    const group = (label, some) =>
      h(
        "optgroup",
        { label },
        some.map(({ name, title }) => h("option", { value: name }, title)),
      );
    put(this.picker, group("With the package", embedded), runs.length ? group("Runs", runs) : null);
    this.picker.value = this.machine;
  }

  #opened(told) {
    this.told = told;
    this.board.shape(told.shape, told.columns);
    this.board.box.hidden = this.controls.field.hidden = !told.spins;
    this.unlike.hidden = told.spins;
    this.asTable.hidden = !told.table;
    this.about.textContent = `${told.words}${told.replicas > 1 ? `, one of ${told.replicas} replicas` : ""}`;
    this.tiles.columns = told.shape[0] === 1 ? 1 : 8;
    const start = (start) => {
      this.link.tell("dream", { what: "start", start });
    };
    const parts = [h("button", { type: "button", onclick: () => start({ from: "noise" }) }, "noise")];
    if (told.patterns) {
      const names = [
        ["", "all patterns"],
        ...Array.from({ length: told.patterns }, (_, k) => [String(k), `pattern ${k + 1}`]),
      ];
      parts.push(
        select(
          [["-", "a pattern …"], ...names],
          "-",
          (k) => k !== "-" && start({ from: "pattern", pattern: k === "" ? null : Number(k) }),
          { "aria-label": "Start from patterns", class: "narrow" },
        ),
      );
    }
    if (told.data)
      parts.push(h("button", { type: "button", onclick: () => start({ from: "data" }) }, "data"));
    if (told.labels.length) {
      const labels = [
        ["", "a label …"],
        ...told.labels.map((label) => [String(label), `label ${label}`]),
      ];
      parts.push(
        select(labels, "", (label) => label !== "" && start({ from: "data", label: Number(label) }), {
          "aria-label": "Start from data of a label",
          class: "narrow",
        }),
      );
    }
    put(this.starts, parts);
    this.board.labels(told.label_units ? told.arrays.codes : null, told.labels, told.label_units);
    this.meters.begin(told);
    this.meters.pairs.hidden = !told.spins; // an overlap is one of spins
  }

  #run(running) {
    this.running = running;
    this.play.textContent = running ? "Pause" : "Go on";
    this.link.tell("dream", { what: "set", running });
  }

  #switch(mode) {
    this.mode = mode;
    this.#showMode();
    this.link.tell("dream", { what: "ladder", on: mode === "ladder" });
  }

  #showMode() {
    this.tiles.box.hidden = this.mode === "ladder";
    this.ladder.box.hidden = this.mode !== "ladder";
  }

  #hold({ up, down }) {
    this.link.tell("dream", { what: "hold", up, down });
  }

  // -- frames -----------------------------------------------------------------------------------

  #frame(told) {
    this.#count();
    if (told.ladder) return this.ladder.show(told, this.told?.shape ?? [1, told.arrays.spins.shape[1]]);
    const { spins, energy, overlaps } = told.arrays;
    const shape = this.told?.shape;
    if (!shape || shape[0] * shape[1] !== spins.shape[1]) return undefined;
    this.newest = told;
    this.tiles.show(
      this.board.marked(spins.values, spins.shape[0]),
      spins.shape[0],
      shape,
      `${spins.shape[0]} chains at β = ${told.beta.toFixed(2)}`,
    );
    this.board.mean(spins.values, spins.shape[0]);
    this.meters.show(energy.values, overlaps?.values, told.beta);
    return undefined;
  }

  #count() {
    const now = performance.now();
    this.frames += 1;
    this.since ??= now;
    if (now - this.since > 1000) {
      this.speed.textContent = `${Math.round((this.frames * 1000) / (now - this.since))} frames a second`;
      document.documentElement.dataset.fps = Math.round((this.frames * 10000) / (now - this.since)) / 10;
      [this.since, this.frames] = [now, 0];
    }
  }

  #table() {
    if (!this.newest) return { columns: [], rows: [] };
    const { values, shape } = this.newest.arrays.spins;
    const columns = [
      "chain",
      "energy",
      ...Array.from({ length: shape[1] }, (_, i) => this.told.columns[i] ?? `v${i}`),
    ];
    const rows = Array.from({ length: shape[0] }, (_, i) => [
      i,
      this.newest.arrays.energy.values[i],
      ...values.subarray(i * shape[1], (i + 1) * shape[1]),
    ]);
    return { columns, rows };
  }
}
