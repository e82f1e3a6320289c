// What went wrong, or is worth a word, at the edge of the page.

import { h } from "./dom.js";

const LONG = 12000; // milliseconds

export function remark(text) {
  const place = document.getElementById("remarks");
  const close = () => box.remove();
  const box = h(
    "div",
    { class: "remark" },
    h("p", {}, text),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: close }, "×"),
  );
  while (place.children.length >= 3) place.firstElementChild.remove();
  place.append(box);
  setTimeout(close, LONG + 40 * text.length);
}

/** For promises that nobody waits for. */
export const complain = (error) => {
  if (error.name !== "AbortError") remark(error.message);
};
