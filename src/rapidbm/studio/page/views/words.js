// What is set, as a command and as a program that train the same.

import { h, put } from "../parts/dom.js";

export class TrainWords {
  constructor(link, asked) {
    Object.assign(this, { link, asked }); // `asked()` answers what each machine asks for
    this.body = h("div", {});
    this.box = h(
      "details",
      { class: "train-words", ontoggle: () => this.box.open && this.show().catch(() => {}) },
      h("summary", {}, "As a command, or in Python"),
      this.body,
    );
  }

  /** Follows the choices while it is open. */
  changed() {
    if (this.box.open) this.show().catch(() => {});
  }

  async show() {
    const all = this.asked();
    const told = await Promise.all(all.map((asked) => this.link.ask("words", asked)));
    put(
      this.body,
      told.flatMap(({ command, python }, i) => {
        const which = all.length > 1 ? ` of machine ${"AB"[i]}` : "";
        return [this.#block(`command${which}`, command), this.#block(`Python${which}`, python)];
      }),
      h(
        "p",
        { class: "small soft" },
        "Both train as the button does; files are named as seen from the studio's folder.",
      ),
    );
  }

  #block(name, text) {
    const button = h(
      "button",
      {
        type: "button",
        class: "quiet small",
        onclick: async () => {
          await navigator.clipboard.writeText(text).then(
            () => (button.textContent = "Copied"),
            () => (button.textContent = "Select it and copy"),
          );
        },
      },
      `Copy as ${name}`,
    );
    return h("div", { class: "code" }, button, h("pre", { tabindex: 0 }, h("code", {}, text.trimEnd())));
  }
}
