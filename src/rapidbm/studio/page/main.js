// The page: a socket, five views of which one is open, and a tour.

import { Link } from "./parts/link.js";
import { put } from "./parts/dom.js";
import { remark } from "./parts/remarks.js";
import { startTheme } from "./parts/theme.js";
import { showRunning } from "./parts/trainings.js";
import { Tour } from "./views/tour.js";

const VIEWS = {
  dream: () => import("./views/dream.js"),
  play: () => import("./views/play.js"),
  table: () => import("./views/table.js"),
  look: () => import("./views/look.js"),
  compare: () => import("./views/compare.js"),
};

const link = new Link();
const stage = document.getElementById("view");
const studio = {
  link,
  hello: null,
  trainings: [], // of all pages, as they were last heard of
  go: (view, given = {}) => {
    location.hash = address(view, given);
  },
  /** Writes into the address what is on the stage, without opening the view again. */
  here: (view, given = {}) => history.replaceState(null, "", address(view, given)),
};
let open = null;
let turn = 0;

function address(view, given) {
  const query = new URLSearchParams(
    Object.entries(given).filter(([, value]) => value !== undefined && value !== null),
  );
  return `#/${view}${query.size ? `?${query}` : ""}`;
}

async function show() {
  const [, view = "dream", query = ""] = location.hash.match(/^#\/(\w+)\??(.*)$/) ?? [];
  const name = view in VIEWS ? view : "dream";
  const mine = (turn += 1);
  for (const anchor of document.querySelectorAll("[data-view]")) {
    if (anchor.dataset.view === name) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
  const module = await VIEWS[name]();
  if (mine !== turn) return;
  open?.close();
  put(stage);
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · rapidbm studio`;
  open = module.open(stage, studio, Object.fromEntries(new URLSearchParams(query)));
  window.dispatchEvent(new CustomEvent("view", { detail: name }));
}

function heard(trainings) {
  studio.trainings = trainings;
  showRunning(document.getElementById("running"), trainings, (run) => address("play", { run }));
}

function linked(state, text) {
  document.getElementById("link").dataset.state = state;
  document.getElementById("link-text").textContent = text;
}

link.on("open", async () => {
  linked("open", "connected");
  studio.hello = await link.ask("hello");
  heard(studio.hello.trainings);
  document.body.classList.toggle("read-only", studio.hello.read_only);
  window.dispatchEvent(new CustomEvent("hello"));
  open?.reopen?.();
});
link.on("closed", () => linked("closed", "reconnecting"));
link.on("lost", () =>
  remark(
    "The studio does not answer. Trainings are in their folders; this page goes on when it is back. If it was started anew, open the address that it printed.",
  ),
);
link.on("trainings", ({ trainings }) => heard(trainings));
link.on("remark", ({ text }) => remark(text));
window.addEventListener("hashchange", show);
startTheme(document.getElementById("theme"));
new Tour(document.getElementById("tour"), document.getElementById("tour-open"), studio);
show();
