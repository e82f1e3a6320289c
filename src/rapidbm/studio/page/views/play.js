// Play: choose data and a machine, or two, train them, and steer.

import { h, put } from "../parts/dom.js";
import { complain } from "../parts/remarks.js";
import { askAboutRunning, running } from "../parts/trainings.js";
import { LearningCurves } from "./learning.js";
import { Panel } from "./panel.js";
import { Setup } from "./setup.js";

const KEY = "rapidbm-studio-play";

export function open(stage, studio, given) {
  const play = new Play(stage, studio, given);
  return { close: () => play.close(), reopen: () => play.reopen() };
}

class Play {
  constructor(stage, studio, given) {
    this.studio = studio;
    this.link = studio.link;
    this.panels = new Map(); // side: panel
    this.curves = new LearningCurves();
    this.setup = new Setup(studio, (sides, follow) => this.train(sides, follow));
    this.place = h("div", { class: "panels" });
    this.empty = h(
      "div",
      { class: "card empty" },
      h(
        "p",
        {},
        "Choose data and press Train. Curves, patterns, samples and reconstructions appear here while the machine learns.",
      ),
      h(
        "p",
        { class: "soft" },
        "Every training is an ordinary run folder: ",
        h("code", {}, "rapidbm evaluate RUN"),
        " reads it, ",
        h("code", {}, "rapidbm train --resume --out RUN"),
        " goes on with it.",
      ),
    );
    stage.append(
      h(
        "div",
        { class: "play" },
        this.setup.box,
        h(
          "section",
          { class: "play-main", "aria-label": "Training" },
          h("h2", { class: "unseen" }, "Training"),
          this.curves.box,
          this.place,
          this.empty,
        ),
      ),
    );
    this.stops = [this.link.on("training", (told) => this.#heard(told))];
    const { run, a, b } = given;
    const named = Object.fromEntries(Object.entries({ a: run ?? a, b }).filter(([, name]) => name));
    const kept = Object.keys(named).length ? named : stored();
    for (const [side, name] of Object.entries(kept)) this.#panel(side, name);
    if (studio.hello) this.reopen();
  }

  close() {
    this.closed = true;
    for (const stop of this.stops) stop();
    for (const panel of this.panels.values()) panel.close();
    this.link.tell("watch", { runs: {} });
  }

  /** The connection is there, or there again. */
  reopen() {
    this.setup.load().catch(complain);
    const known = new Set(this.studio.trainings.map(({ run }) => run));
    if (!this.panels.size) this.#showRunning();
    for (const panel of this.panels.values()) {
      if (!known.has(panel.run))
        panel
          .read()
          .then(() => this.#draw())
          .catch(() => {
            this.#remove(panel);
            if (!this.panels.size) this.#showRunning(); // the address named a run that is gone
            this.#watch();
          });
    }
    this.#watch();
  }

  /** With nothing on the stage: the training that runs, the newest one. */
  #showRunning() {
    const newest = running(this.studio.trainings).at(-1);
    if (newest) this.#panel("a", newest.run);
  }

  /** Starts the machines of one or two sides on the same data. Those on the stage make place for them when they have
      begun: what is refused changes nothing, and what runs is stopped only if one says so. */
  async train(sides, follow = {}) {
    for (const { asked } of sides) await this.link.ask("check", asked);
    const onStage = [...this.panels.values()].map(({ run }) => run);
    const stop = await askAboutRunning(this.studio.trainings, onStage);
    if (stop === null) return;
    let cleared = false;
    for (const { side, asked } of sides) {
      const { run } = await this.link.ask("train", cleared ? asked : { ...asked, stop }, follow);
      if (!cleared) this.#clear();
      cleared = true;
      this.#panel(side, run);
      this.#watch();
    }
    this.place.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  #clear() {
    for (const panel of this.panels.values()) panel.close();
    this.panels.clear();
    put(this.place);
  }

  #panel(side, run) {
    const panel = new Panel(this.studio, side, run, () => this.#resume(panel));
    this.panels.set(side, panel);
    this.place.append(panel.box);
    this.#store();
  }

  #remove(panel) {
    panel.close();
    panel.box.remove();
    this.panels.delete(panel.side);
    this.#store();
  }

  async #resume(panel) {
    await this.link.ask("resume", { run: panel.run });
    panel.forget();
    this.#watch();
  }

  #watch() {
    this.link.tell("watch", {
      runs: Object.fromEntries(
        [...this.panels.values()].map((panel) => [panel.run, panel.records.length]),
      ),
    });
    this.empty.hidden = this.panels.size > 0;
    this.curves.box.hidden = this.panels.size === 0;
    this.place.classList.toggle("two", this.panels.size > 1);
    this.#draw();
  }

  #heard(told) {
    for (const panel of this.panels.values()) {
      if (panel.run !== told.run) continue;
      panel.hear(told);
      if (told.records.length) this.#draw();
    }
  }

  #draw() {
    this.curves.show([...this.panels.values()]);
  }

  #store() {
    const runs = Object.fromEntries([...this.panels].map(([side, panel]) => [side, panel.run]));
    const { a, b } = runs;
    if (!this.closed) this.studio.here("play", b ? { a, b } : { run: a }); // a run of an older address would hide a newer one
    try {
      sessionStorage.setItem(KEY, JSON.stringify(runs));
    } catch {
      /* a reload begins anew */
    }
  }
}

function stored() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}
