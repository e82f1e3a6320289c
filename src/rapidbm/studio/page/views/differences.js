// What differs between machines A and B, as a small table.

import { h, put } from "../parts/dom.js";
import { short } from "../parts/numbers.js";

const NAMES = {
  model: "Kind",
  patterns: "Couplings",
  hidden: "Hidden units",
  negative: "Negative phase",
  sweeps: "Sweeps an update",
  particles: "Chains",
  optimizer: "Optimiser",
  batch_size: "Batch",
};
const ASIDE = new Set(["dataset"]);

/** Names of the settings in which two recipes differ. */
export const different = (a, b) =>
  Object.keys({ ...a, ...b }).filter(
    (name) => !ASIDE.has(name) && JSON.stringify(a[name]) !== JSON.stringify(b[name]),
  );

function words(name, value) {
  if (name === "patterns") return value === null ? "dense" : `RA, ${value} patterns`;
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map((one) => words("", one)).join(", ") || "none";
  return typeof value === "number" ? short(value, 3) : String(value);
}

const title = (name) => NAMES[name] ?? `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;

/** Shows the differences of two recipes in `box`; hides it where there is one machine. */
export function showDifferences(box, a, b) {
  box.hidden = !a || !b;
  if (box.hidden) return;
  const names = different(a, b);
  const cell = (name, one) => h("td", {}, words(name, one[name]));
  put(
    box,
    names.length
      ? h(
          "table",
          {},
          h("caption", {}, "What differs between A and B"),
          h(
            "thead",
            {},
            h("tr", {}, ["Setting", "A", "B"].map((text) => h("th", { scope: "col" }, text))),
          ),
          h(
            "tbody",
            {},
            names.map((name) =>
              h("tr", {}, h("th", { scope: "row" }, title(name)), cell(name, a), cell(name, b)),
            ),
          ),
        )
      : h("p", { class: "note small" }, "A and B are the same: change something in one of them."),
  );
}
