// What the columns of a file are: recognised, shown, and changed by a choice for each.

import { h, put } from "../parts/dom.js";
import { count } from "../parts/numbers.js";

const NAMES = {
  category: "category",
  integer: "whole number",
  real: "number",
  skip: "left out",
  constant: "one value",
  empty: "empty",
};
const CHOICES = [
  ["", "as recognised"],
  ["category", "category"],
  ["integer", "whole number"],
  ["real", "number"],
  ["skip", "leave it out"],
];

export class FileTypes {
  #turn = 0;

  constructor(link, changed) {
    Object.assign(this, { link, changed });
    this.kept = new Map(); // by data set: kinds that were chosen, by column
    this.rows = h("ul", { class: "plain types", "aria-label": "What the columns are" });
    this.summary = h("summary", {});
    this.details = h(
      "details",
      {},
      this.summary,
      h(
        "p",
        { class: "small soft" },
        "Check what each column is, and change what is wrong. A column that counts or names rows is better left out.",
      ),
      this.rows,
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            type: "button",
            onclick: () => {
              this.details.open = false;
              this.summary.focus();
            },
          },
          "These are right",
        ),
      ),
    );
    this.box = h("div", { class: "card file-types", hidden: true }, this.details);
  }

  /** What is named of a data set, as text: "age=real,zip=skip". */
  named(dataset) {
    const kinds = [...(this.kept.get(dataset) ?? [])];
    return kinds.map(([name, kind]) => `${name}=${kind}`).join(",") || undefined;
  }

  /** Shows the columns of a data set, open where nobody has looked at them yet. */
  async show(dataset) {
    const mine = (this.#turn += 1);
    const first = !this.kept.has(dataset);
    if (!dataset.startsWith("upload:")) {
      this.box.hidden = true;
      return;
    }
    const { columns } = await this.link.ask("columns", { dataset, columns: this.named(dataset) });
    if (mine !== this.#turn) return;
    this.box.hidden = !columns.length;
    if (!columns.length) return;
    if (first) {
      this.details.open = true;
      const refused = columns.filter(({ error }) => error).map(({ name }) => [name, "skip"]);
      this.kept.set(dataset, new Map(refused));
      if (refused.length) this.changed();
    }
    this.dataset = dataset;
    this.#draw(columns);
  }

  #draw(columns) {
    const gaps = columns.reduce((sum, { missing }) => sum + missing, 0);
    this.summary.textContent = `${count(columns.length, "column")}, ${count(gaps, "gap")}: what they are`;
    const focused = this.rows.contains(document.activeElement) ? document.activeElement.name : null;
    put(
      this.rows,
      columns.map((column) => this.#row(column)),
    );
    if (focused !== null)
      [...this.rows.querySelectorAll("select")].find(({ name }) => name === focused)?.focus();
  }

  #row({ name, line, is, error, missing, examples, kinds }) {
    const wanted = this.kept.get(this.dataset)?.get(name) ?? "";
    const choice = h(
      "select",
      {
        name,
        "aria-label": `Take ${name} as`,
        disabled: !kinds.length,
        title: kinds.length ? undefined : "a name with a comma cannot be chosen for",
        onchange: () => this.#choose(name, choice.value),
      },
      CHOICES.map(([value, text]) => h("option", { value }, text)),
    );
    choice.value = wanted;
    return h(
      "li",
      {},
      h("b", { class: "type-name" }, name),
      choice,
      h(
        "span",
        { class: error && wanted !== "skip" ? "bad small" : "small" },
        error || `${NAMES[is] ?? is}${is === "skip" ? "" : `: ${line}`}`,
        h(
          "span",
          { class: "soft" },
          `${missing ? `; ${count(missing, "gap")}` : ""}${examples.length ? `; for instance ${examples.join(", ")}` : ""}`,
        ),
      ),
    );
  }

  #choose(name, kind) {
    const kinds = this.kept.get(this.dataset);
    if (kind) kinds.set(name, kind);
    else kinds.delete(name);
    this.changed();
    this.show(this.dataset).catch(() => {});
  }
}
