// The view as it is, as one HTML file that needs nothing else: figures as they are drawn, tables, and words; no scripts.

import { h } from "./dom.js";
import { complain } from "./remarks.js";
import { download } from "./save.js";

const LEFT_OUT = "button, select, input, textarea, summary, progress, .menu, .tip, .unseen, [hidden], .drop";
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** A button that saves the view; `title()` says what it shows. */
export function snapshotButton(title) {
  const button = h(
    "button",
    {
      type: "button",
      onclick: async () => {
        button.disabled = true;
        try {
          await save(title());
        } catch (error) {
          complain(error);
        }
        button.disabled = false;
      },
    },
    "Save this view",
  );
  return button;
}

async function save(title) {
  const stage = document.getElementById("view");
  const copy = stage.cloneNode(true);
  drawCanvases(stage, copy);
  keepChoices(stage, copy);
  for (const element of copy.querySelectorAll(LEFT_OUT)) element.remove();
  for (const details of copy.querySelectorAll("details:not([open])")) details.remove();
  for (const link of copy.querySelectorAll("a")) link.replaceWith(...link.childNodes);
  copy.removeAttribute("tabindex");
  const styles = await Promise.all(
    [...document.styleSheets].map(async ({ href }) => (href ? (await fetch(href)).text() : "")),
  );
  const dark = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const theme = document.documentElement.dataset.theme ?? dark;
  copy.append(
    h("p", { class: "small soft" }, `${title}, rapidbm studio, ${new Date().toLocaleString()}`),
  );
  const head = [
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    h("title", {}, title).outerHTML, // escaped by the browser, as all of the copy is
    "<style>",
    ...styles,
    "</style>",
  ];
  const parts = [`<!doctype html>\n<html lang="en" data-theme="${theme}">\n<head>\n`, head.join("\n")];
  parts.push("\n</head>\n<body>\n", copy.outerHTML, "\n</body>\n</html>\n");
  download(`${title}.html`, new Blob(parts, { type: "text/html" }));
}

/** What is drawn on a canvas is no part of its copy. */
function drawCanvases(stage, copy) {
  const drawn = [...stage.querySelectorAll("canvas")];
  copy.querySelectorAll("canvas").forEach((canvas, i) => {
    const image = h("img", {
      src: drawn[i].toDataURL("image/png"),
      alt: drawn[i].getAttribute("aria-label") ?? "",
    });
    image.style.width = `${drawn[i].getBoundingClientRect().width}px`;
    canvas.replaceWith(image);
  });
}

/** What is chosen in a list, and what was typed, stays as words. */
function keepChoices(stage, copy) {
  const typed = [...stage.querySelectorAll("input[type=text]")];
  copy.querySelectorAll("input[type=text]").forEach((input, i) => {
    input.replaceWith(h("b", {}, typed[i].value || "–"));
  });
  const chosen = [...stage.querySelectorAll("select")];
  copy.querySelectorAll("select").forEach((select, i) => {
    select.replaceWith(h("b", {}, chosen[i].selectedOptions[0]?.textContent ?? ""));
  });
  for (const bar of copy.querySelectorAll("button.value-bar, button.held")) {
    const row = h("div", { class: bar.className, "aria-pressed": bar.getAttribute("aria-pressed") });
    row.append(...bar.childNodes);
    bar.replaceWith(row);
  }
}
