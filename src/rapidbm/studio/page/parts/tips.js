// A question mark that explains a word, for pointer, keyboard and screen reader alike.

import { fresh, h } from "./dom.js";
import { WORDS } from "./words.js";

export function tip(word) {
  const [title, sentence] = WORDS[word];
  const id = fresh("tip");
  const button = h(
    "button",
    { type: "button", "aria-label": `What is ${title}?`, "aria-describedby": id },
    "?",
  );
  const box = h(
    "span",
    { class: "tip", onpointerenter: () => place(box), onfocusin: () => place(box) },
    button,
    h(
      "div",
      { id, role: "tooltip" },
      sentence,
      " ",
      h("a", { href: `/page/words.html#${word}`, target: "_blank" }, "More"),
    ),
  );
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") box.classList.add("shut");
  });
  return box;
}

/** To the side where there is room. */
function place(box) {
  box.classList.remove("shut");
  const middle = box.getBoundingClientRect().left;
  const wide = document.documentElement.clientWidth;
  box.dataset.side = middle < 170 ? "right" : middle > wide - 170 ? "left" : "";
}
