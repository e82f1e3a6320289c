// Elements from code. Text is always text: nothing here, or anywhere on the page, reads HTML from a string.

const SVG = "http://www.w3.org/2000/svg";
const PROPERTIES = new Set([
  "value",
  "checked",
  "disabled",
  "hidden",
  "open",
  "tabIndex",
  "width",
  "height",
]);

/** An element: `h("button", {class: "main", onclick: train}, "Train")`. */
export function h(tag, given = {}, ...children) {
  return dress(document.createElement(tag), given, children);
}

/** The same of a drawing. */
export function s(tag, given = {}, ...children) {
  return dress(document.createElementNS(SVG, tag), given, children);
}

function dress(element, given, children) {
  const drawn = element.namespaceURI === SVG;
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || (value === false && !PROPERTIES.has(name))) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else if (!drawn && PROPERTIES.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  fill(element, children);
  return element;
}

function fill(element, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

/** Puts these children in the place of those that are there. */
export function put(element, ...children) {
  element.replaceChildren();
  fill(element, children);
  return element;
}

let numbers = 0;

/** An id that no other element has. */
export const fresh = (word) => `${word}-${(numbers += 1)}`;

/** A labelled control: `field("Rate", input, {tip})`. */
export function field(label, control, { tip = null, output = null } = {}) {
  control.id ||= fresh("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, label, tip, output), control);
}

/** A choice of a few, as one bar of radio buttons. `change` is called with the value. */
export function choice(legend, options, chosen, change, { tip = null } = {}) {
  const name = fresh("choice");
  const bar = h(
    "div",
    { class: "choice" },
    options.map(([value, text]) =>
      h(
        "label",
        {},
        h("input", {
          type: "radio",
          name,
          value,
          checked: value === chosen,
          onchange: () => change(value),
        }),
        h("span", {}, text),
      ),
    ),
  );
  const set = h("fieldset", { class: "field" }, h("legend", {}, legend, tip), bar);
  set.choose = (value) => {
    for (const input of bar.querySelectorAll("input")) input.checked = input.value === String(value);
  };
  return set;
}

/** A select with these [value, text] options. */
export function select(options, chosen, change, given = {}) {
  const element = h(
    "select",
    { ...given, onchange: () => change(element.value) },
    options.map(([value, text]) => h("option", { value }, text)),
  );
  element.value = chosen;
  return element;
}

/** A slider whose positions stand for values by a `scale` with `to` and `from`; it shows the value. */
export function slider(
  label,
  { value, from, to, scale = linear, step = 0.001, show = String, change, tip = null, name = "" },
) {
  const output = h("output", {}, show(value));
  const [low, high] = [scale.to(from), scale.to(to)];
  const input = h("input", {
    type: "range",
    min: 0,
    max: 1,
    step,
    name,
    oninput: () => {
      set(scale.from(low + (high - low) * Number(input.value)), false);
      change(input.number);
    },
  });
  const box = field(label, input, { tip, output });
  function set(number, move = true) {
    input.number = number;
    if (move) input.value = (scale.to(number) - low) / (high - low);
    output.textContent = show(number);
    input.setAttribute("aria-valuetext", show(number));
  }
  set(value);
  box.set = set;
  box.input = input;
  return box;
}

export const linear = { to: (x) => x, from: (x) => x };
export const logarithmic = { to: Math.log, from: Math.exp };
export const whole = { to: (x) => x, from: Math.round };
export const wholeLog = { to: Math.log, from: (x) => Math.round(Math.exp(x)) };
