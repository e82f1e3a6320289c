// Table: what a machine has learned about a table. Columns as bars that one can hold, rows that it draws, one row and
// what is unusual in it, and the gaps and the unusual rows of a file.

import { field, h, put } from "../parts/dom.js";
import { share } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { snapshotButton } from "../parts/snapshot.js";
import { tip } from "../parts/tips.js";
import { ColumnBars, heldWords } from "./columns.js";
import { FileRows } from "./filerows.js";
import { OneRow } from "./onerow.js";
import { grid, saveTable } from "./rows.js";

export function open(stage, studio, given) {
  const table = new Table(stage, studio, given);
  return { close: () => table.close(), reopen: () => table.begin().catch(complain) };
}

class Table {
  held = new Map(); // number of a column: what it is held at
  marginal = null; // the answer without conditions, of this machine
  seed = 0;
  #asking = false;
  #again = false;

  constructor(stage, studio, given) {
    this.studio = studio;
    this.link = studio.link;
    this.machine = given.machine ?? null;
    this.replica = Number(given.replica ?? 0);
    this.held = parsed(given.held);
    this.bars = new ColumnBars((column, hold) => this.#hold(column, hold));
    this.one = new OneRow(this);
    this.file = new FileRows(this);
    stage.append(this.#layout());
    if (studio.hello) this.begin().catch(complain);
  }

  close() {
    this.closed = true;
  }

  /** What every question about this machine says. */
  get asked() {
    return { machine: this.machine, replica: this.replica };
  }

  get conditions() {
    return [...this.held].map(([column, hold]) => ({ column, ...hold }));
  }

  #layout() {
    this.picker = h("select", {
      id: "table-machine",
      onchange: () => this.studio.go("table", { machine: this.picker.value }),
    });
    this.pick = field("Machine", this.picker);
    this.status = h("p", { class: "small soft", role: "status" });
    this.holding = h("div", { class: "row tight holding" });
    this.drawn = h("div", {});
    this.count = h("input", { type: "number", min: 1, max: 100000, step: 1, value: 1000 });
    this.body = h(
      "div",
      { hidden: true },
      h(
        "section",
        { "aria-label": "Columns" },
        h(
          "div",
          { class: "view-head" },
          h("h3", {}, "Columns ", tip("marginals")),
          h(
            "button",
            { type: "button", class: "quiet", onclick: () => this.#redraw() },
            "Draw other rows",
          ),
        ),
        this.holding,
        this.status,
        this.bars.box,
      ),
      h(
        "section",
        { class: "card", "aria-label": "Rows that it draws" },
        h("div", { class: "figure-head" }, h("h3", {}, "Rows that it draws"), tip("drawn")),
        this.drawn,
        h(
          "div",
          { class: "row save-rows" },
          field("Rows", this.count),
          h(
            "button",
            {
              type: "button",
              onclick: (event) =>
                saveTable(event.currentTarget, {
                  ...this.asked,
                  what: "samples",
                  held: this.conditions,
                  seed: this.seed,
                  count: Math.max(1, Math.round(Number(this.count.value) || 1)),
                }),
            },
            "Save rows as CSV",
          ),
        ),
      ),
      this.one.box,
      this.file.box,
    );
    this.lead = h("p", { class: "lead" });
    return h(
      "div",
      { class: "table-view" },
      h(
        "div",
        { class: "view-head" },
        h("h2", {}, "Table"),
        h(
          "div",
          { class: "row picks" },
          this.pick,
          snapshotButton(() => `Table of ${this.picker.selectedOptions[0]?.textContent ?? ""}`),
        ),
      ),
      this.lead,
      this.body,
    );
  }

  async begin() {
    const { runs } = await this.link.ask("machines", { tables: true });
    if (this.closed) return;
    this.machine ??= runs[0]?.name ?? null;
    this.pick.hidden = !runs.length;
    put(
      this.picker,
      runs.map(({ name, title }) => h("option", { value: name }, title)),
    );
    if (this.machine) this.picker.value = this.machine;
    this.lead.textContent = this.machine
      ? "What the machine has learned about your table. Click a bar to hold that value: the other columns then show what goes with it."
      : "No machine of a table yet. On the page Play drop a CSV file, check what its columns are, and press Train; then come back.";
    if (this.machine) await this.ask();
  }

  /** Asks for the columns as things are held; while an answer is on its way only the newest wish is kept. */
  async ask() {
    if (this.#asking) {
      this.#again = true;
      return;
    }
    this.#asking = true;
    this.body.setAttribute("aria-busy", "true");
    try {
      if (!this.marginal) this.marginal = await this.#answer([]);
      const found = this.held.size || this.seed ? await this.#answer(this.conditions) : this.marginal;
      if (!this.closed && !this.#again) this.#show(found);
    } catch (error) {
      if (!this.closed) this.#failed(error);
    }
    this.#asking = false;
    this.body.removeAttribute("aria-busy");
    if (this.#again) {
      this.#again = false;
      await this.ask();
    }
  }

  #answer(held) {
    const progress = ({ line }) => {
      this.status.textContent = `Drawing rows: ${line}`;
    };
    return this.link.ask("table", { ...this.asked, held, seed: this.seed }, { progress });
  }

  #failed(error) {
    if (!this.marginal) {
      this.lead.textContent = error.message;
      return;
    }
    this.status.textContent = error.message;
    complain(error);
  }

  #show(found) {
    const first = this.body.hidden;
    this.body.hidden = false;
    this.bars.show(found.columns, this.marginal.columns, this.held);
    this.#showHeld(found);
    const names = found.columns.map(({ name }) => name);
    put(
      this.drawn,
      grid({
        names,
        rows: found.rows.slice(0, 12).map((cells) => ({ cells })),
        label: "Rows that the machine draws",
        act: { text: "Look at it", go: (row) => this.one.fill(row.cells) },
      }),
    );
    if (first) {
      this.one.begin(this.marginal);
      this.file.begin();
    }
    this.studio.here("table", {
      machine: this.machine,
      replica: this.replica || undefined,
      held: this.held.size ? JSON.stringify(this.conditions) : undefined,
    });
  }

  #showHeld({ columns, probability, rhat, count, more }) {
    const [value, low, high] = probability;
    const parts = [...this.held].map(([number, hold]) =>
      h(
        "button",
        {
          type: "button",
          class: "held",
          "aria-label": `Let go of ${columns[number].name}`,
          onclick: () => this.#hold(number, null),
        },
        `${columns[number].name}: ${heldWords(hold)}`,
        h("span", { "aria-hidden": "true" }, " ×"),
      ),
    );
    put(
      this.holding,
      parts,
      parts.length > 1 &&
        h("button", { type: "button", class: "quiet", onclick: () => this.#letGo() }, "Let all go"),
    );
    const exact = Math.max(1, Math.round(100 / Math.sqrt(count)));
    const held = parts.length
      ? `${share(value)} of all rows are like that (95 % interval: ${share(low)} to ${share(high)}). `
      : "Nothing is held. ";
    const agree = rhat > 1.1 ? " The draws have not fully settled: small differences may be chance." : "";
    const left = more ? ` ${more.toLocaleString("en")} more columns are not shown.` : "";
    this.status.textContent = `${held}Bars are shares of ${count.toLocaleString("en")} drawn rows; chance moves them by up to ${exact} %.${agree}${left}`;
  }

  #hold(number, hold) {
    if (hold) this.held.set(number, hold);
    else this.held.delete(number);
    this.bars.mark(this.held);
    this.ask().catch(complain);
  }

  #letGo() {
    this.held.clear();
    this.bars.mark(this.held);
    this.ask().catch(complain);
  }

  #redraw() {
    this.seed += 1;
    this.ask().catch(complain);
  }
}

/** What is held, as the address says it; nothing where it says nonsense. */
function parsed(text) {
  try {
    return new Map(JSON.parse(text ?? "[]").map(({ column, ...hold }) => [Number(column), hold]));
  } catch {
    return new Map();
  }
}
