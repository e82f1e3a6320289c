// Play: choose data and a machine, or two, train them, and steer.

import { h, put } from "../parts/dom.js";
import { complain } from "../parts/remarks.js";
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
    this.setup = new Setup(studio, (sides) => this.train(sides));
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
    const kept = given.run ? { a: given.run } : stored();
    for (const [side, run] of Object.entries(kept)) this.#panel(side, run);
    if (studio.hello) this.reopen();
  }

  close() {
    for (const stop of this.stops) stop();
    for (const panel of this.panels.values()) panel.close();
    this.link.tell("watch", { runs: {} });
  }

  /** The connection is there, or there again. */
  reopen() {
    this.setup.load().catch(complain);
    const known = new Set(this.studio.hello.trainings.map(({ run }) => run));
    for (const panel of this.panels.values()) {
      if (!known.has(panel.run))
        panel
          .read()
          .then(() => this.#draw())
          .catch(() => this.#remove(panel));
    }
    this.#watch();
  }

  /** Starts the machines of one or two sides on the same data, in the place of those on the stage. */
  async train(sides) {
    for (const panel of this.panels.values()) {
      panel.end();
      panel.close();
    }
    this.panels.clear();
    put(this.place);
    for (const { side, asked } of sides) {
      const { run } = await this.link.ask("train", asked);
      this.#panel(side, run);
    }
    this.#watch();
    this.place.scrollIntoView({ block: "nearest", behavior: "smooth" });
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
