// A card that measures when it is asked to, says how far it is, and draws what was found.

import { h, put } from "../../parts/dom.js";
import { Plot } from "../../draw/plot.js";

export const LARGE = 1400; // units of a machine at which one waits

export class Card {
  #plot;
  #wish = null;

  constructor(link, asked, { ask, title, word, height = 250, wide = false }) {
    Object.assign(this, { link, asked, ask, title, found: null });
    this.#plot = new Plot({
      title,
      word,
      name: `${ask}-${asked.machine}`,
      height,
      draw: (size) =>
        this.found ? this.drawn(this.found, size) : { children: [], words: `${title}: not measured yet` },
      table: () => (this.found ? this.table(this.found) : { columns: [], rows: [] }),
    });
    this.state = h("div", { class: "card-state" });
    this.#plot.figure.append(this.state);
    this.#plot.svg.setAttribute("hidden", "");
    if (wide) this.figure.classList.add("wide");
  }

  get figure() {
    return this.#plot.figure;
  }

  get plot() {
    return this.#plot;
  }

  /** Whether it is measured without being asked for: of a machine of so many `units`. */
  quick({ units }) {
    return units < LARGE;
  }

  /** What it will take, in words. */
  patience({ units }) {
    return units < LARGE ? "seconds" : "about a minute";
  }

  offer(place) {
    this.place = place;
    if (!this.found && !this.#wish)
      put(
        this.state,
        h("button", { type: "button", onclick: () => this.measure() }, "Measure"),
        h("span", { class: "small soft" }, this.patience(place)),
      );
  }

  /** Whether an answer is on its way. */
  get asks() {
    return Boolean(this.#wish);
  }

  async measure() {
    this.#wish?.abort();
    const wish = (this.#wish = new AbortController());
    const bar = h("progress", { max: 1, "aria-label": `${this.title} is being measured` });
    const line = h("p", { class: "small soft", role: "status" }, "waits for its turn");
    put(
      this.state,
      bar,
      line,
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          onclick: () => {
            wish.abort();
            this.#wish = null;
            this.offer(this.place);
          },
        },
        "Cancel",
      ),
    );
    const progress = ({ line: told, share }) => {
      line.textContent = told.replace(/^[;:,\s]+/, "");
      if (share !== null) bar.value = share;
    };
    try {
      this.found = await this.link.ask(this.ask, this.asked, { progress, signal: wish.signal });
      put(this.state);
      this.#plot.svg.removeAttribute("hidden");
      this.#plot.caption.textContent = this.caption(this.found);
      this.arrived?.(this.found);
      this.#plot.refresh();
    } catch (error) {
      if (error.name === "AbortError") return;
      put(this.state, h("p", { class: "small soft" }, error.message));
    }
    this.#wish = null;
  }

  close() {
    this.#wish?.abort();
  }
}
