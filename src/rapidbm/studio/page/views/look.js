// Look: one machine, and what a physicist would measure of it, each in a card of its own.

import { field, h, put, select } from "../parts/dom.js";
import { minus } from "../parts/numbers.js";
import { snapshotButton } from "../parts/snapshot.js";
import { complain } from "../parts/remarks.js";
import { Along } from "./looks/along.js";
import { Basins } from "./looks/basins.js";
import { Landscape } from "./looks/landscape.js";
import { Likelihood } from "./looks/likelihood.js";
import { Overlaps } from "./looks/overlaps.js";
import { Phases } from "./looks/phases.js";
import { Spectrum } from "./looks/spectrum.js";
import { Verdict } from "./looks/verdict.js";

const CARDS = [Landscape, Likelihood, Along];
const THEORY = [Verdict, Phases, Overlaps, Spectrum, Basins]; // measured when one asks for the theory

export function open(stage, studio, given) {
  const look = new Look(stage, studio, given);
  return { close: () => look.close(), reopen: () => look.begin() };
}

class Look {
  constructor(stage, studio, given) {
    this.studio = studio;
    this.link = studio.link;
    this.asked = { machine: given.machine ?? "specimen:retrieval", replica: Number(given.replica ?? 0) };
    if (given.update)
      this.asked.update = /^\d+$/.test(given.update) ? Number(given.update) : given.update;
    this.picker = h(
      "select",
      { id: "look-machine", onchange: () => studio.go("look", { machine: this.picker.value }) },
      h("option", { value: this.asked.machine }, this.asked.machine),
    );
    this.which = h("div", { class: "which" });
    this.text = h(
      "p",
      { class: "lead" },
      "What the machine is, in a sentence; its valleys, and how they are arranged.",
    );
    this.grid = h("div", { class: "cards" });
    this.behind = h("div", { class: "cards" });
    this.learned = h("p", { class: "verdict", role: "status" }, "Looking at what it has learned …");
    this.states = h("p", { class: "verdict", role: "status" });
    this.numbers = h("p", { class: "small soft" });
    this.theory = h(
      "details",
      { class: "theory", ontoggle: () => this.theory.open && this.#measureTheory() },
      h("summary", {}, "The theory behind it: phases, overlaps, spectrum, basins"),
      this.behind,
    );
    stage.append(
      h(
        "div",
        { class: "view-head" },
        h("h2", {}, "Look"),
        h(
          "div",
          { class: "row picks" },
          field("Machine", this.picker),
          this.which,
          snapshotButton(() => `Look at ${this.picker.selectedOptions[0]?.textContent ?? ""}`),
        ),
      ),
      this.text,
      h("section", { class: "card plain-verdict", "aria-label": "In a sentence" }, this.learned, this.states, this.numbers),
      this.grid,
      this.theory,
    );
    if (studio.hello) this.begin();
  }

  close() {
    for (const card of this.cards ?? []) card.close();
  }

  begin() {
    if (this.cards) return;
    const made = (some) => some.map((Card) => new Card(this.link, this.asked));
    this.plain = made(CARDS);
    this.behindIt = made(THEORY);
    this.verdict = this.behindIt[0];
    this.verdict.told = ({ plain }) => {
      this.states.textContent = plain;
    };
    this.cards = [...this.plain, ...this.behindIt];
    put(
      this.grid,
      this.plain.map((card) => card.figure),
    );
    put(
      this.behind,
      this.behindIt.map((card) => card.figure),
    );
    this.#list().catch(complain);
    this.#measure();
  }

  async #list() {
    const { embedded, runs } = await this.link.ask("machines");
    const group = (label, some) =>
      h(
        "optgroup",
        { label },
        some.map(({ name, title }) => h("option", { value: name }, title)),
      );
    put(this.picker, group("With the package", embedded), runs.length ? group("Runs", runs) : null);
    this.picker.value = this.asked.machine;
    const about = [...embedded, ...runs].find(({ name }) => name === this.asked.machine);
    if (about) this.text.textContent = about.text;
    if (!this.asked.machine.includes(":")) await this.#checkpoints();
  }

  async #checkpoints() {
    const run = await this.link.ask("run", { run: this.asked.machine });
    const go = (more) => this.studio.go("look", { ...this.asked, ...more });
    const saved = [
      ["", run.best ? "best" : "newest"],
      ...(run.best ? [["last", "last"]] : []),
      ...run.checkpoints.map((u) => [String(u), `update ${u.toLocaleString("en")}`]),
    ];
    put(
      this.which,
      field(
        "Checkpoint",
        select(saved, String(this.asked.update ?? ""), (update) => go({ update: update || undefined })),
      ),
      run.recipe.replicas > 1 &&
        field(
          "Replica",
          select(
            Array.from({ length: run.recipe.replicas }, (_, i) => [String(i), String(i)]),
            String(this.asked.replica),
            (replica) => go({ replica }),
          ),
        ),
    );
  }

  /** The sentences, then quick cards one after the other; those that take long when asked, and those of the theory when
      they are looked at. */
  async #measure() {
    this.#learn();
    this.place = await this.link.ask("place", this.asked).catch(() => ({ units: 0, exact: false, load: null }));
    for (const card of this.cards) card.offer(this.place);
    if (this.place.load === null) {
      this.theory.firstElementChild.textContent = "The theory behind it, of machines whose units are all ±1";
      this.#pointToTable().catch(complain);
    } else if (this.verdict.quick(this.place)) this.verdict.measure();
    for (const card of this.plain.filter((one) => one.quick(this.place))) card.measure();
    if (this.theory.open) this.#measureTheory();
  }

  /** Of a machine of a table the view of tables shows more than this one. */
  async #pointToTable() {
    const { machine } = this.asked;
    const { runs } = await this.link.ask("machines", { tables: true });
    if (!runs.some(({ name }) => name === machine)) return;
    const href = `#/table?${new URLSearchParams({ machine })}`;
    this.numbers.after(h("p", {}, h("a", { href }, "See it as a table")));
  }

  async #learn() {
    try {
      const { sentence, numbers } = await this.link.ask("learned", this.asked);
      this.learned.textContent = sentence;
      this.numbers.textContent = minus(numbers);
    } catch (error) {
      this.learned.textContent = error.message;
    }
  }

  #measureTheory() {
    if (!this.place) return;
    for (const card of this.behindIt.filter((one) => !one.found && !one.asks && one.quick(this.place)))
      card.measure();
  }
}
