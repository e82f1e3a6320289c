// Look: one machine, and what a physicist would measure of it, each in a card of its own.

import { field, h, put, select } from "../parts/dom.js";
import { complain } from "../parts/remarks.js";
import { Along } from "./looks/along.js";
import { Basins } from "./looks/basins.js";
import { Landscape } from "./looks/landscape.js";
import { Likelihood } from "./looks/likelihood.js";
import { Overlaps } from "./looks/overlaps.js";
import { Phases } from "./looks/phases.js";
import { Spectrum } from "./looks/spectrum.js";
import { Verdict } from "./looks/verdict.js";

const CARDS = [Landscape, Verdict, Phases, Overlaps, Spectrum, Basins, Likelihood, Along];

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
      "Its valleys, how they are arranged, and whether the machine is a magnet without order, a memory or a glass.",
    );
    this.grid = h("div", { class: "cards" });
    stage.append(
      h(
        "div",
        { class: "view-head" },
        h("h2", {}, "Look"),
        h("div", { class: "row picks" }, field("Machine", this.picker), this.which),
      ),
      this.text,
      this.grid,
    );
    if (studio.hello) this.begin();
  }

  close() {
    for (const card of this.cards ?? []) card.close();
  }

  begin() {
    if (this.cards) return;
    this.cards = CARDS.map((Card) => new Card(this.link, this.asked));
    put(
      this.grid,
      this.cards.map((card) => card.figure),
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

  /** Quick cards at once, one after the other; those that take long when asked. */
  async #measure() {
    const place = await this.link.ask("place", this.asked).catch(() => ({ units: 0, exact: false }));
    for (const card of this.cards) card.offer(place);
    for (const card of this.cards.filter((one) => one.quick(place))) card.measure();
  }
}
