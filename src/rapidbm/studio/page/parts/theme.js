// Light and dark: as the system has it, or as one chose; and the colours of the page for what is drawn on canvas.

import { s } from "./dom.js";

const KEY = "rapidbm-studio-theme";
const NAMES = ["system", "light", "dark"];
const WORDS = { system: "as the system has them", light: "light", dark: "dark" };
const PATHS = {
  system: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  light:
    "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 2v2M12 20v2M4.9 4.9l1.4 1.4M17.7 17.7l1.4 1.4M2 12h2M20 12h2M4.9 19.1l1.4-1.4M17.7 6.3l1.4-1.4",
  dark: "M20 14.5A8 8 0 1 1 9.5 4a6.5 6.5 0 0 0 10.5 10.5z",
};

const painted = new Set(); // weak references: what is no longer shown is forgotten

/** `thing.repaint()` is called when the colours are others. */
export const follow = (thing) => painted.add(new WeakRef(thing));

let colours = new Map();
const probe = document.createElement("i");

/** A colour of the style sheet as [r, g, b]: `colour("up")`. */
export function colour(name) {
  if (!colours.has(name)) {
    if (!probe.isConnected) {
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(--${name})`;
    const found = getComputedStyle(probe)
      .color.match(/[\d.]+/g)
      .map(Number);
    colours.set(name, found.slice(0, 3));
  }
  return colours.get(name);
}

export const css = (name) => `rgb(${colour(name).join(" ")})`;

function changed() {
  colours = new Map();
  for (const reference of painted) {
    const thing = reference.deref();
    if (thing) thing.repaint();
    else painted.delete(reference);
  }
}

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";
  }
}

export function startTheme(button) {
  let chosen = NAMES.includes(stored()) ? stored() : "system";
  const show = () => {
    if (chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
    button.setAttribute("aria-label", `Colours: ${WORDS[chosen]}`);
    button.title = `Colours: ${WORDS[chosen]}`;
    const path = s("path", {
      d: PATHS[chosen],
      fill: "none",
      stroke: "currentColor",
      "stroke-width": 1.8,
      "stroke-linecap": "round",
    });
    button.replaceChildren(
      s("svg", { viewBox: "0 0 24 24", width: 19, height: 19, "aria-hidden": "true" }, path),
    );
    changed();
  };
  button.addEventListener("click", () => {
    chosen = NAMES[(NAMES.indexOf(chosen) + 1) % NAMES.length];
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      /* it is chosen for now */
    }
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  show();
}
