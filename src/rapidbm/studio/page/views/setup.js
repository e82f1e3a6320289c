// What is trained: data, one machine or two, and how. What is not chosen is filled in by the library's presets.

import { h, put, s } from "../parts/dom.js";
import { count } from "../parts/numbers.js";
import { complain, remark } from "../parts/remarks.js";
import { upload } from "../parts/upload.js";
import { Tiles } from "../draw/tiles.js";
import { Choices } from "./choices.js";
import { showDifferences } from "./differences.js";
import { FileTypes } from "./types.js";
import { TrainWords } from "./words.js";

// Where the usual settings of the library are for a larger computer, or for one training alone.
const LIGHT = {
  bars4: { replicas: 12 },
  bas6: { replicas: 6, hidden: [300], patterns: 16, epochs: 60 },
  bas12: { replicas: 2 },
  mnist: {
    hidden: [400],
    patterns: 100,
    particles: 100,
    sweeps: 2,
    batch_size: 200,
    epochs: 10,
    replicas: 1,
  },
  "mnist-labelled": {
    hidden: [400],
    patterns: 100,
    particles: 100,
    sweeps: 2,
    batch_size: 200,
    epochs: 10,
    replicas: 1,
  },
};
const TITLES = {
  bars4: "bars 4×4",
  bas6: "BAS 6×6",
  bas12: "BAS 12×12",
  digits: "digits",
  "digits-labelled": "digits, label",
  mnist: "MNIST",
};
const PAIRS = {
  "RAPID against CD": {
    b: { patterns: null, negative: "cd", sweeps: 10, optimizer: "adam", rate: 0.001 },
  },
  "RA against dense": {
    a: {
      negative: "pcd",
      particles: 200,
      sweeps: 2,
      optimizer: "adam",
      rate: 0.003,
      scale: 0.1,
      biases: true,
      projection: "none",
      decay: 1,
    },
    b: {
      patterns: null,
      negative: "pcd",
      particles: 200,
      sweeps: 2,
      optimizer: "adam",
      rate: 0.003,
      biases: true,
      decay: 1,
      scale: null,
    },
  },
};

/** What stands for a table where others have images. */
const tableIcon = () =>
  s(
    "svg",
    { viewBox: "0 0 48 48", width: 44, height: 44, "aria-hidden": "true", class: "table-icon" },
    s("path", { d: "M5 9h38v30H5zM5 18h38M5 28h38M18 9v30M31 9v30" }),
  );

export class Setup {
  #loaded = false;

  constructor(studio, train) {
    this.studio = studio;
    this.link = studio.link;
    this.train = train;
    this.dataset = "bars4";
    this.absent = []; // data sets that would have to be downloaded
    this.sides = { a: new Choices("a", this.link, () => this.#changed()), b: null };
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Data sets" });
    this.about = h("p", { class: "small soft" });
    this.button = h(
      "button",
      { type: "button", class: "main wide", onclick: () => this.#start() },
      "Train",
    );
    this.machines = h("div", {});
    this.types = new FileTypes(this.link, () => this.#typesChanged());
    this.words = new TrainWords(this.link, () => this.#asked().map(({ asked }) => asked));
    this.finding = h("p", { class: "small", role: "status" });
    this.found = h("ul", { class: "small soft" });
    this.stopFinding = h("button", { type: "button", class: "quiet" }, "Cancel");
    this.search = h(
      "div",
      { hidden: true },
      h("div", { class: "row" }, this.finding, h("span", { class: "push" }), this.stopFinding),
      h("progress", { "aria-label": "Settings are compared" }),
      h("details", {}, h("summary", {}, "What is compared"), this.found),
    );
    this.second = h(
      "button",
      { type: "button", onclick: () => this.#second(this.sides.b ? null : this.sides.a.chosen) },
      "Add a second machine",
    );
    this.box = h(
      "section",
      { class: "play-side", "aria-label": "What to train" },
      h(
        "div",
        { class: "card" },
        h("h2", {}, "Play"),
        h("h3", {}, "Data"),
        this.chips,
        this.#drop(),
        this.about,
      ),
      this.types.box,
      (this.differences = h("div", { class: "card differences", hidden: true })),
      this.machines,
      h(
        "div",
        { class: "card train" },
        (this.several = h(
          "div",
          { class: "row tight" },
          this.second,
          Object.entries(PAIRS).map(([text, pair]) =>
            h("button", { type: "button", class: "quiet", onclick: () => this.#pair(pair) }, text),
          ),
        )),
        this.button,
        this.search,
      ),
      h("div", { class: "card" }, this.words.box),
    );
    this.#showMachines();
    this.choose("bars4");
  }

  async load() {
    this.button.disabled = Boolean(this.studio.hello.read_only);
    if (this.studio.hello.read_only) this.button.textContent = "This studio only shows";
    if (this.#loaded) return;
    this.#loaded = true;
    const { datasets, uploads, absent } = await this.link.ask("datasets");
    this.absent = absent;
    put(
      this.chips,
      [...datasets, ...uploads].map((name) => this.#chip(name)),
    );
    await this.#describe(this.dataset);
  }

  #chip(name, described = null) {
    const tiles = new Tiles({ label: "", columns: 2, tallest: () => 48 });
    tiles.canvas.setAttribute("aria-hidden", "true");
    tiles.canvas.removeAttribute("role");
    const title = TITLES[name] ?? name.replace(/^upload:/, "");
    const chip = h(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": "false",
        title,
        dataset: { name },
        onclick: () => this.choose(name),
      },
      h("span", { class: "chip-image" }, tiles.box),
      h("span", {}, title),
    );
    const show = ({ shape, arrays, named }) =>
      named
        ? put(chip.firstElementChild, tableIcon())
        : tiles.show(arrays.images.values, Math.min(4, arrays.images.shape[0]), shape);
    if (described) show(described);
    else if (!this.absent.includes(name))
      this.link
        .ask("data", { dataset: name })
        .then(show)
        .catch(() => {});
    return chip;
  }

  choose(name) {
    this.dataset = name;
    for (const side of Object.values(this.sides)) side?.begin(name, this.#usual());
    if (!this.studio.hello) return undefined;
    this.types.show(name).catch(complain);
    return this.#describe(name);
  }

  /** What is usual for the data, and what their columns were said to be. */
  #usual() {
    return { ...LIGHT[this.dataset], columns: this.types.named(this.dataset) };
  }

  #typesChanged() {
    for (const side of Object.values(this.sides)) side?.begin(this.dataset, this.#usual());
    this.#describe(this.dataset).catch(complain);
  }

  /** Marks the data that are chosen, and says what they are. */
  async #describe(name) {
    for (const chip of this.chips.children)
      chip.setAttribute("aria-pressed", String(chip.dataset.name === name));
    if (this.absent?.includes(name)) {
      this.about.textContent = "MNIST is not on this computer yet: a training downloads it once, 11 MB.";
      return;
    }
    try {
      const columns = this.types.named(name);
      const told = await this.link.ask("data", { dataset: name, columns });
      if (this.dataset !== name || columns !== this.types.named(name)) return;
      const { train, test, shape, labels, table } = told;
      this.about.textContent = `${count(train, table ? "row" : "image")} to train, ${test.toLocaleString("en")} to test; ${table ? count(told.columns, "column") : `${shape[0]}×${shape[1]} pixels`}${labels ? `; ${labels} labels` : ""}`;
    } catch (error) {
      this.about.textContent = error.message;
    }
  }

  // -- a file -----------------------------------------------------------------------------------

  #drop() {
    const input = h("input", {
      type: "file",
      id: "drop-file",
      accept: ".npy,.npz,.h5,.hdf5,.csv,.tsv,.txt,.data",
      onchange: () =>
        input.files[0] &&
        this.#upload(input.files[0]).finally(() => {
          input.value = "";
        }),
    });
    const box = h(
      "div",
      { class: "drop" },
      "Drop a file with a table or images here, or ",
      input,
      h("label", { for: "drop-file" }, "choose one"),
      ".",
    );
    box.addEventListener("dragover", (event) => {
      event.preventDefault();
      box.classList.add("over");
    });
    box.addEventListener("dragleave", () => box.classList.remove("over"));
    box.addEventListener("drop", (event) => {
      event.preventDefault();
      box.classList.remove("over");
      if (event.dataTransfer.files[0]) this.#upload(event.dataTransfer.files[0]);
    });
    return box;
  }

  async #upload(file) {
    this.about.textContent = `Reading ${file.name} …`;
    try {
      const told = await upload(file);
      const described = await this.link.ask("data", { dataset: told.dataset });
      this.chips.append(this.#chip(told.dataset, described));
      await this.choose(told.dataset);
    } catch (error) {
      this.about.textContent = "";
      remark(error.message);
    }
  }

  // -- machines ---------------------------------------------------------------------------------

  #showMachines() {
    put(
      this.machines,
      Object.values(this.sides).map((side) => side?.box),
    );
    this.second.textContent = this.sides.b ? "Only one machine" : "Add a second machine";
    for (const side of Object.values(this.sides)) side?.alone(!this.sides.b);
  }

  #second(chosen) {
    this.sides.b = chosen ? new Choices("b", this.link, () => this.#changed()) : null;
    this.#showMachines();
    this.sides.b?.begin(this.dataset, this.#usual(), chosen);
    this.#changed();
  }

  #pair({ a = {}, b }) {
    this.sides.a.begin(this.dataset, this.#usual(), a);
    this.#second(b);
  }

  #changed() {
    const sides = Object.values(this.sides).filter(Boolean);
    this.button.disabled = Boolean(this.studio.hello?.read_only) || sides.some((side) => side.wrong);
    this.button.textContent = sides.length > 1 ? "Train both" : "Train";
    this.words.changed();
    this.several.hidden = this.sides.a.simple && !this.sides.b; // nothing to compare where nothing is chosen
    showDifferences(this.differences, this.sides.a.recipe, this.sides.b?.recipe);
  }

  async #start() {
    this.button.disabled = true;
    this.button.textContent = "Checking …";
    try {
      await this.train(this.#asked(), this.#follow());
    } catch (error) {
      complain(error);
    }
    this.search.hidden = true;
    this.#changed();
  }

  /** What each machine asks for. */
  #asked() {
    return Object.values(this.sides)
      .filter(Boolean)
      .map((side) => ({
        side: side.side,
        asked: { dataset: this.dataset, chosen: side.asked, preset: side.preset },
      }));
  }

  /** Shows what is compared before a training begins, and lets one take it back. */
  #follow() {
    const wish = new AbortController();
    put(this.found);
    this.stopFinding.onclick = () => wish.abort();
    const progress = ({ line }) => {
      this.search.hidden = false;
      this.finding.textContent = "Finding good settings …";
      this.button.textContent = "Finding settings …";
      this.found.append(h("li", {}, line.replace(/^auto: /, "")));
    };
    return { progress, signal: wish.signal };
  }
}
