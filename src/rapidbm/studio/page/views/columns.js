// Columns of a table as bars, one column a card. A bar is a button that holds its value; a mark on it shows where it
// would be if nothing were held.

import { h, put } from "../parts/dom.js";
import { cell, share } from "../parts/numbers.js";

export class ColumnBars {
  #bars = []; // of each column: its buttons

  constructor(change) {
    this.change = change;
    this.box = h("div", { class: "columns" });
  }

  show(columns, marginal, held) {
    const focused = this.#focused();
    this.columns = columns;
    this.#bars = columns.map(() => []);
    put(
      this.box,
      columns.map((column, number) => this.#card(column, marginal[number], number)),
    );
    this.mark(held);
    if (focused) this.#bars[focused[0]]?.[focused[1]]?.focus();
  }

  /** Which bars are held, before the answer is there. */
  mark(held) {
    this.held = held;
    this.#bars.forEach((buttons, number) => {
      for (const button of buttons)
        button.setAttribute("aria-pressed", String(holds(held.get(number), button.hold)));
    });
  }

  #focused() {
    for (const [number, buttons] of this.#bars.entries()) {
      const at = buttons.indexOf(document.activeElement);
      if (at >= 0) return [number, at];
    }
    return null;
  }

  #card(column, usual, number) {
    const before = new Map((usual?.bars ?? []).map(({ text, share: value }) => [text, value]));
    const most = Math.max(...column.bars.map((bar) => bar.share), ...before.values(), 0.01);
    const mean = column.mean && `mean ${cell(column.mean[0])}; nine in ten from ${cell(column.mean[1])} to ${cell(column.mean[2])}`;
    return h(
      "section",
      { class: "card column", "aria-label": column.name },
      h("h4", { title: column.line }, column.name),
      column.bars.length
        ? h(
            "ul",
            { class: "plain" },
            column.bars.map((bar) => h("li", {}, this.#bar(number, bar, before.get(bar.text), most))),
          )
        : h("p", { class: "small soft" }, column.line),
      column.rest > 0.0005 && h("p", { class: "small soft" }, `all others ${share(column.rest)}`),
      mean && h("p", { class: "small soft numbers" }, mean),
    );
  }

  #bar(number, bar, usual, most) {
    const fill = h("span", { class: "bar-fill", "aria-hidden": "true" });
    fill.style.width = `${(100 * bar.share) / most}%`;
    const mark = usual !== undefined && h("span", { class: "bar-mark", "aria-hidden": "true" });
    if (mark) mark.style.left = `${(100 * usual) / most}%`;
    const button = h(
      "button",
      {
        type: "button",
        class: "value-bar",
        "aria-pressed": "false",
        title: usual === undefined ? undefined : `${share(usual)} if nothing is held`,
        onclick: () => this.change(number, this.#toggled(number, button)),
      },
      h("span", { class: "bar-text" }, bar.text),
      h("span", { class: "bar-track" }, fill, mark),
      h("span", { class: "bar-share numbers" }, share(bar.share)),
    );
    button.hold = bar.hold;
    this.#bars[number].push(button);
    return button;
  }

  /** What a column is held at after a click: words come and go one by one, ranges grow to the one that was clicked. */
  #toggled(number, { hold }) {
    const now = this.held.get(number);
    if (!now) return hold;
    const on = holds(now, hold);
    if (hold.values && now.values) {
      const values = on
        ? now.values.filter((value) => value !== hold.values[0])
        : [...now.values, hold.values[0]];
      return values.length ? { values } : null;
    }
    if (on) return null;
    if (hold.values || now.values) return hold;
    return { low: Math.min(now.low, hold.low), high: Math.max(now.high, hold.high) };
  }
}

function holds(held, bar) {
  if (!held) return false;
  if (bar.values) return Boolean(held.values?.includes(bar.values[0]));
  return held.low !== undefined && held.low <= bar.low && bar.high <= held.high;
}

/** "Gentoo or Adelie", "5000 to 5499". */
export const heldWords = ({ values, low, high }) =>
  values ? values.map(String).join(" or ") : `${cell(low)} to ${cell(high)}`;
