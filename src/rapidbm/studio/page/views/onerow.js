// One row: its cells in a form, how usual it is, which cell is not, and what would be in its gaps.

import { field, fresh, h, put } from "../parts/dom.js";
import { cell, minus, share } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { tip } from "../parts/tips.js";

const WAIT = 250; // milliseconds without a change
const LISTED = 200; // values of a column that are offered as a list

export class OneRow {
  #timer = 0;
  #turn = 0;

  constructor(view) {
    this.view = view;
    this.form = h("div", { class: "fields row-form" });
    this.told = h("p", { class: "verdict", role: "status" });
    this.more = h("p", { class: "small soft" });
    this.box = h(
      "section",
      { class: "card", "aria-label": "One row", onpaste: (event) => this.#paste(event) },
      h("div", { class: "figure-head" }, h("h3", {}, "One row"), tip("score")),
      h(
        "p",
        { class: "small soft" },
        "Type, paste a row of your file into any cell, or choose “Look at it” beside a row. An empty cell is a gap, and is filled.",
      ),
      this.form,
      this.told,
      this.more,
    );
  }

  begin({ columns, rows }) {
    this.columns = columns;
    this.inputs = columns.map((column) => this.#input(column));
    put(
      this.form,
      columns.map((column, i) => {
        const box = field(column.name, this.inputs[i]);
        box.append((this.inputs[i].note = h("span", { class: "small soft cell-note" })));
        return box;
      }),
    );
    if (rows[0]) this.fill(rows[0], false);
  }

  #input(column) {
    const oninput = () => this.#changed();
    if (column.kind === "words" && column.values.length <= LISTED)
      return h(
        "select",
        { onchange: oninput },
        h("option", { value: "" }, "not known"),
        column.values.map((value) => h("option", { value }, value)),
      );
    return h("input", {
      type: "text",
      id: fresh("cell"),
      autocomplete: "off",
      disabled: column.kind === "none",
      placeholder: column.kind === "numbers" ? "not known" : "",
      oninput,
    });
  }

  /** Puts these cells into the form. */
  fill(cells, look = true) {
    cells.forEach((value, i) => {
      const input = this.inputs[i];
      if (!input.disabled) input.value = value === null ? "" : typeof value === "number" ? plain(value) : value;
      if (input.tagName === "SELECT" && input.selectedIndex < 0) input.value = String(value);
    });
    this.#changed();
    if (look) this.box.scrollIntoView({ block: "nearest", behavior: "smooth" });
  }

  #changed() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#ask().catch(complain), WAIT);
  }

  /** A row of a spreadsheet or of a file, as text: from the cell on in which it is pasted, or by names. */
  #paste(event) {
    const text = event.clipboardData?.getData("text") ?? "";
    const lines = text.split(/\r?\n/).filter((line) => line.trim());
    const mark = ["\t", ";", ","].find((one) => lines[0]?.includes(one));
    if (!mark) return;
    event.preventDefault();
    const [first, second] = lines.map((line) => cellsOf(line, mark));
    const names = this.columns.map(({ name }) => name);
    const named = second && first.every((name) => names.includes(name));
    const start = Math.max(0, this.inputs.indexOf(document.activeElement));
    const whole = first.length >= names.length;
    (named ? second : first).forEach((value, i) => {
      const at = named ? names.indexOf(first[i]) : (whole ? 0 : start) + i;
      this.#put(at, value);
    });
    this.#changed();
  }

  #put(at, value) {
    const input = this.inputs[at];
    if (!input || input.disabled) return;
    const same = [...(input.options ?? [])].find(
      (option) => option.value.toLowerCase() === value.toLowerCase(),
    );
    input.value = same?.value ?? (input.tagName === "SELECT" ? "" : value);
  }

  async #ask() {
    const mine = (this.#turn += 1);
    const cells = this.inputs.map((input) => input.value.trim() || null);
    this.told.textContent = "Looking …";
    try {
      const found = await this.view.link.ask("row", { ...this.view.asked, cells });
      if (mine === this.#turn) this.#show(found, cells);
    } catch (error) {
      if (mine !== this.#turn) return;
      this.told.textContent = error.message;
      this.more.textContent = "";
    }
  }

  #show({ log_p, unusual, parts, filled, below, rows }, cells) {
    const empty = cells.every((value) => value === null);
    const usual =
      below === null
        ? ""
        : `This row is more usual than ${share(below)} of ${rows.toLocaleString("en")} rows of the data.`;
    const least =
      unusual === null ? "" : `Its least expected cell is ${unusual}.`;
    this.told.textContent = empty ? "All cells are gaps: this is a typical row." : `${usual} ${least}`.trim();
    const [value, low, high] = log_p;
    this.more.textContent = empty
      ? ""
      : minus(
          `log p = ${value.toFixed(2)} (95 % interval: ${low.toFixed(2)} to ${high.toFixed(2)}), in nats. Below each cell: log p of the cell, given the others.`,
        );
    this.inputs.forEach((input, i) => {
      const name = this.columns[i].name;
      input.note.textContent =
        filled[i] !== null && filled[i] !== undefined
          ? `likely ${cell(filled[i])}`
          : parts[i] === null || cells[i] === null
            ? ""
            : minus(`log p ${parts[i].toFixed(2)}`);
      input.note.classList.toggle("unusual", name === unusual);
      input.note.classList.toggle("filled", cells[i] === null && filled[i] !== null);
    });
  }
}

/** A number as one would type it. */
const plain = (value) => String(Number(value.toPrecision(6)));

/** Cells of a line of text, some of them in quotes. */
function cellsOf(line, mark) {
  const cells = [""];
  let quoted = false;
  for (const letter of line) {
    if (letter === '"') quoted = !quoted;
    else if (letter === mark && !quoted) cells.push("");
    else cells[cells.length - 1] += letter;
  }
  return cells.map((one) => one.trim());
}
