// Five steps that teach by doing: what β is, what holding is, RA, PID, and the spin glass.

import { h, put } from "../parts/dom.js";

const KEY = "rapidbm-studio-tour";
const STEPS = [
  {
    view: "dream",
    title: "1. A machine that dreams",
    text: "These are 64 chains of a Boltzmann machine that was trained on handwritten digits. Each unit is drawn given all others, with probability set by β, the inverse temperature. Move β down: the digits melt into noise, a paramagnet. Move it up: they freeze.",
    task: "Move β below 0.3.",
    act: "Heat it for me",
    done: "input[name=beta]",
    reached: (input) => input.number < 0.3,
    help: (input) => move(input, 0.2),
  },
  {
    view: "dream",
    title: "2. It completes what you hold",
    text: "Put β back to 1 and draw a stroke on the board at “Hold pixels”. Held pixels are orange. All other units go on being drawn, so that the machine dreams what fits: conditional sampling, and nothing else.",
    task: "Hold some pixels.",
    act: "Hold some for me",
    check: () => document.querySelector(".easel")?.dataset.held > 0,
    help: () => {
      move(document.querySelector("input[name=beta]"), 1);
      click("Hold the upper half");
    },
  },
  {
    view: "play",
    title: "3. Regularized Axons",
    text: "A machine of 16 and 1000 units has 16,000 couplings. RA builds them all from K = 8 patterns, J = ξᵀξ/√K, and trains the patterns. Each pattern is then a valley that one knows by name. Train on bars: the patterns turn into bars.",
    task: "Press Train and watch the patterns.",
    act: "Train for me",
    check: () =>
      [...document.querySelectorAll(".panel .badge")].some((badge) =>
        /running|finished/.test(badge.textContent),
      ),
    help: () => click("Train"),
  },
  {
    view: "play",
    title: "4. Patterns in place of Monte Carlo",
    text: "The gradient needs averages over the model, usually by chains that take long to forget. PID takes the patterns themselves: no chain at all. Press “RAPID against CD” and train both on the same data: A learns from its patterns, B from ten sweeps of chains. If the training of before still runs, you are asked whether to stop it.",
    task: "Train two machines side by side.",
    act: "Train both for me",
    check: () => document.querySelectorAll(".panel").length > 1,
    help: () => {
      click("RAPID against CD");
      click("Train both");
    },
  },
  {
    view: "look",
    title: "5. What a spin glass is",
    text: "With few patterns the landscape has a few deep valleys, and descent finds them again and again. Choose “A spin glass” above: dense random couplings. Nearly every descent ends in a valley of its own, none of them meant, and chains never meet. That is what RA keeps away.",
    task: "Look at the spin glass.",
    act: "Show it to me",
    check: () => location.hash.includes("specimen%3Aglass") || location.hash.includes("specimen:glass"),
    help: (input, studio) => studio.go("look", { machine: "specimen:glass" }),
  },
];

export class Tour {
  #step = -1;
  #timer = 0;

  constructor(box, button, studio) {
    Object.assign(this, { box, button, studio });
    button.addEventListener("click", () => this.start());
    if (!seen()) this.#invite();
  }

  #invite() {
    put(
      this.box,
      h("h2", {}, "New here?"),
      h("p", {}, "Five steps, by doing."),
      h(
        "div",
        { class: "row tight" },
        h("button", { type: "button", class: "main", onclick: () => this.start() }, "Show me"),
        h("button", { type: "button", class: "quiet", onclick: () => this.end() }, "No, thanks"),
      ),
    );
    this.box.classList.add("invites");
    this.box.hidden = false;
  }

  start() {
    this.#go(0);
  }

  end() {
    clearInterval(this.#timer);
    this.#step = -1;
    this.box.hidden = true;
    try {
      localStorage.setItem(KEY, "seen");
    } catch {
      /* it is offered again */
    }
    this.button.focus();
  }

  #go(number) {
    clearInterval(this.#timer);
    this.box.classList.remove("invites");
    if (number >= STEPS.length) return this.end();
    this.#step = number;
    const step = STEPS[number];
    if (!location.hash.startsWith(`#/${step.view}`) || step.view === "look")
      this.studio.go(step.view, step.view === "look" ? { machine: "specimen:retrieval" } : {});
    const done = h("p", { class: "tour-task", role: "status" }, step.task);
    const next = h(
      "button",
      { type: "button", class: "main", onclick: () => this.#go(number + 1) },
      number + 1 < STEPS.length ? "Next" : "Done",
    );
    const title = h("h2", { tabindex: -1 }, step.title);
    put(
      this.box,
      title,
      h("p", {}, step.text),
      done,
      h(
        "div",
        { class: "row" },
        h(
          "button",
          {
            type: "button",
            onclick: () => step.help(document.querySelector(step.done ?? "body"), this.studio),
          },
          step.act,
        ),
        h("span", { class: "push" }),
        number > 0 &&
          h("button", { type: "button", class: "quiet", onclick: () => this.#go(number - 1) }, "Back"),
        next,
        h("button", { type: "button", class: "quiet", onclick: () => this.end() }, "End"),
      ),
      h(
        "div",
        { class: "steps", "aria-hidden": "true" },
        STEPS.map((_, i) => h("i", { class: i === number ? "now" : i < number ? "past" : "" })),
      ),
    );
    this.box.hidden = false;
    title.focus({ preventScroll: true });
    this.#timer = setInterval(() => {
      const reached = step.check
        ? step.check()
        : [document.querySelector(step.done)].filter(Boolean).some(step.reached);
      if (!reached) return;
      done.textContent = `Done: ${step.task.toLowerCase()}`.replace(/\.$/, ". Well seen.");
      done.classList.add("done");
      clearInterval(this.#timer);
    }, 250);
    return undefined;
  }
}

function seen() {
  try {
    return localStorage.getItem(KEY) === "seen";
  } catch {
    return true;
  }
}

/** Moves a slider as a hand would. */
function move(input, number) {
  if (!input) return;
  const [low, high] = [Math.log(0.05), Math.log(8)];
  input.value = (Math.log(number) - low) / (high - low);
  input.dispatchEvent(new Event("input", { bubbles: true }));
}

/** Presses a button of the view, as soon as it is there and can be pressed. */
function click(text, patience = 100) {
  const button = [...document.querySelectorAll("main button")].find(
    (one) => one.textContent === text && !one.disabled,
  );
  if (button) button.click();
  else if (patience) setTimeout(() => click(text, patience - 1), 100);
}
