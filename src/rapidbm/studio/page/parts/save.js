// Any view as a picture, and its numbers as a table.

import { h, s } from "./dom.js";
import { complain } from "./remarks.js";

const STYLED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "opacity",
  "fill-opacity",
  "font-size",
  "font-family",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
];

/** A menu that saves a figure: `picture` is its svg or canvas, `table` answers {columns, rows} when asked. */
export function saveMenu(name, picture, table) {
  const menu = h("details", { class: "menu" }, h("summary", { "aria-label": `Save ${name}` }, "Save"));
  const kinds = {
    SVG: () => saveSvg(name, picture()),
    PNG: () => savePng(name, picture()),
    CSV: () => saveCsv(name, table()),
    JSON: () => saveJson(name, table()),
  };
  menu.append(
    h(
      "div",
      {},
      Object.entries(kinds).map(([kind, save]) =>
        h(
          "button",
          {
            type: "button",
            onclick: async () => {
              menu.open = false;
              try {
                await save();
              } catch (error) {
                complain(error);
              }
            },
          },
          kind,
        ),
      ),
    ),
  );
  menu.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      menu.open = false;
      menu.firstElementChild.focus();
    }
  });
  menu.addEventListener("focusout", (event) => {
    if (!menu.contains(event.relatedTarget)) menu.open = false;
  });
  return menu;
}

export function download(name, blob) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name.replace(/[^\w.-]+/g, "-") });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function saveCsv(name, { columns, rows }) {
  const cell = (x) =>
    x === null || x === undefined
      ? ""
      : /[",\n]/.test(String(x))
        ? `"${String(x).replaceAll('"', '""')}"`
        : String(x);
  const text = [columns, ...rows].map((row) => row.map(cell).join(",")).join("\n");
  download(`${name}.csv`, new Blob([text, "\n"], { type: "text/csv" }));
}

function saveJson(name, { columns, rows }) {
  const records = rows.map((row) => Object.fromEntries(columns.map((column, i) => [column, row[i]])));
  download(
    `${name}.json`,
    new Blob([JSON.stringify({ name, records }, null, 1), "\n"], { type: "application/json" }),
  );
}

async function saveSvg(name, picture) {
  download(`${name}.svg`, new Blob([await drawn(picture)], { type: "image/svg+xml" }));
}

async function savePng(name, picture) {
  if (picture instanceof HTMLCanvasElement)
    return picture.toBlob((blob) => download(`${name}.png`, blob));
  const image = new Image();
  image.src = URL.createObjectURL(new Blob([await drawn(picture)], { type: "image/svg+xml" }));
  await image.decode();
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  return canvas.toBlob((blob) => download(`${name}.png`, blob));
}

/** The text of an SVG that needs no style sheet; a canvas becomes an image in one. */
async function drawn(picture) {
  if (picture instanceof HTMLCanvasElement) {
    const { width, height } = picture;
    const svg = s(
      "svg",
      { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` },
      s("image", { href: picture.toDataURL("image/png"), width, height }),
    );
    return new XMLSerializer().serializeToString(svg);
  }
  const copy = picture.cloneNode(true);
  const from = [picture, ...picture.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(from[i]);
    for (const name of STYLED) element.setAttribute(name, style.getPropertyValue(name));
    element.removeAttribute("class");
  });
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  copy.prepend(
    s("rect", {
      width,
      height,
      fill:
        getComputedStyle(document.documentElement).getPropertyValue("--paper") &&
        getComputedStyle(picture.closest(".card") ?? document.body).backgroundColor,
    }),
  );
  return new XMLSerializer().serializeToString(copy);
}
