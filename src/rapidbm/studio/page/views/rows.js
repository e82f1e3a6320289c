// Rows of a table in the words of whoever made it, and files of them.

import { h } from "../parts/dom.js";
import { cell } from "../parts/numbers.js";
import { complain } from "../parts/remarks.js";
import { download } from "../parts/save.js";

/** A table of rows: each has `cells`, and may have `head` (cells in front, under `heads`), `unusual` (a column's name)
    and `filled` (which cells were gaps). `act` is a button in each row. */
export function grid({ names, rows, label, heads = [], act = null }) {
  return h(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    h(
      "table",
      { class: "rows" },
      h("caption", { class: "unseen" }, label),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          act && h("th", { scope: "col" }, h("span", { class: "unseen" }, "What to do")),
          [...heads, ...names].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) => line(names, row, act)),
      ),
    ),
  );
}

function line(names, row, act) {
  return h(
    "tr",
    {},
    act && h("td", {}, h("button", { type: "button", class: "quiet", onclick: () => act.go(row) }, act.text)),
    (row.head ?? []).map((text) => h("td", { class: "numbers soft" }, text)),
    row.cells.map((value, i) => {
      const kinds = [
        typeof value === "number" && "numbers",
        row.filled?.[i] && "filled",
        row.unusual === names[i] && "unusual",
      ];
      return h(
        "td",
        { class: kinds.filter(Boolean).join(" ") || undefined },
        cell(value),
        row.filled?.[i] && h("span", { class: "unseen" }, " (filled)"),
        row.unusual === names[i] && h("span", { class: "unseen" }, " (unusual)"),
      );
    }),
  );
}

/** Saves what the server makes of the question; the button waits. */
export async function saveTable(button, asked) {
  const text = button.textContent;
  button.disabled = true;
  button.textContent = "Making the file …";
  try {
    const answer = await fetch(`/table?asked=${encodeURIComponent(JSON.stringify(asked))}`);
    if (!answer.ok) throw new Error((await answer.json()).error);
    download(`${asked.what}-${asked.machine}.csv`, await answer.blob());
  } catch (error) {
    complain(error);
  }
  button.disabled = false;
  button.textContent = text;
}
