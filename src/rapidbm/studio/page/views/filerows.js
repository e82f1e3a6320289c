// Rows of a file: those that the machine finds unusual, and those that have gaps, filled.

import { field, h, put } from "../parts/dom.js";
import { count, minus } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { upload } from "../parts/upload.js";
import { tip } from "../parts/tips.js";
import { grid, saveTable } from "./rows.js";

const HOW = [
  ["draw", "a draw: varies as the data do"],
  ["likely", "the likely value"],
  ["mean", "the mean of numbers"],
];

export class FileRows {
  constructor(view) {
    this.view = view;
    this.picker = h("select", {});
    this.how = h(
      "select",
      {},
      HOW.map(([value, text]) => h("option", { value }, text)),
    );
    this.about = h("p", { class: "small soft", role: "status" });
    this.found = h("div", {});
    this.chosen = h("input", {
      type: "file",
      id: "table-file",
      accept: ".csv,.tsv,.txt,.data",
      onchange: () => this.#upload().catch(complain),
    });
    const button = (text, go) =>
      h("button", { type: "button", onclick: (event) => go(event.currentTarget) }, text);
    this.box = h(
      "section",
      { class: "card", "aria-label": "Rows of a file" },
      h("div", { class: "figure-head" }, h("h3", {}, "Rows of a file"), tip("gaps")),
      h(
        "div",
        { class: "fields" },
        field("File", this.picker),
        field("Fill a gap by", this.how),
      ),
      h(
        "p",
        { class: "drop small" },
        "Another file with the same columns: ",
        this.chosen,
        h("label", { for: "table-file" }, "choose one"),
        ".",
      ),
      h(
        "div",
        { class: "row" },
        button("Fill the gaps", () => this.#gaps().catch(complain)),
        button("Save filled table as CSV", (it) => this.#save(it, "filled")),
        button("Find unusual rows", () => this.#scores().catch(complain)),
        button("Save scores as CSV", (it) => this.#save(it, "scores")),
      ),
      this.about,
      this.found,
    );
  }

  async begin() {
    const { uploads } = await this.view.link.ask("datasets");
    const kept = this.picker.value;
    put(
      this.picker,
      h("option", { value: "" }, "the data that it was trained on"),
      uploads
        .filter((name) => /\.(csv|tsv|txt|data)$/.test(name))
        .map((name) => h("option", { value: name }, name.replace("upload:", ""))),
    );
    this.picker.value = kept;
  }

  async #upload() {
    const [file] = this.chosen.files;
    if (!file) return;
    this.about.textContent = `Reading ${file.name} …`;
    try {
      const { dataset } = await upload(file);
      await this.begin();
      this.picker.value = dataset;
      this.about.textContent = "";
    } finally {
      this.chosen.value = "";
    }
  }

  get #asked() {
    return { ...this.view.asked, file: this.picker.value || null, how: this.how.value };
  }

  #save(button, what) {
    return saveTable(button, { ...this.#asked, what });
  }

  async #ask(question, words) {
    this.about.textContent = `${words} …`;
    try {
      return await this.view.link.ask(question, this.#asked);
    } catch (error) {
      this.about.textContent = error.message;
      put(this.found);
      return null;
    }
  }

  get #names() {
    return this.view.marginal.columns.map(({ name }) => name);
  }

  async #gaps() {
    const told = await this.#ask("gaps", "Filling");
    if (!told) return;
    this.about.textContent = told.gaps
      ? `${count(told.gaps, "gap")} in ${count(told.count, "row")} of ${told.looked.toLocaleString("en")}${part(told)}. What was filled is marked.`
      : `No gaps in ${count(told.looked, "row")}${part(told)}.`;
    put(
      this.found,
      told.rows.length &&
        grid({
          names: this.#names,
          heads: ["row"],
          rows: told.rows.map((row) => ({ ...row, head: [String(row.row)] })),
          label: "Rows with their gaps filled",
        }),
    );
  }

  async #scores() {
    const told = await this.#ask("scores", "Looking");
    if (!told) return;
    this.about.textContent = minus(
      `The least usual of ${count(told.looked, "row")}${part(told)}, the least usual first; mean log p ${told.mean.toFixed(2)} nats. The cell that the others least expect is marked.`,
    );
    put(
      this.found,
      grid({
        names: this.#names,
        heads: ["row", "log p"],
        rows: told.rows.map((row) => ({
          ...row,
          head: [String(row.row), minus(row.log_p[0].toFixed(2))],
        })),
        label: "The least usual rows",
        act: { text: "Look at it", go: (row) => this.view.one.fill(row.cells) },
      }),
    );
  }
}

const part = ({ of, looked }) =>
  of > looked ? ` (the first of ${of.toLocaleString("en")}; the saved file has all)` : "";
