// The trainings that run: which there are, what each is called, and where they stand in the top bar.

import { h, put } from "./dom.js";

const OVER = new Set(["finished", "interrupted", "failed", "refused", "killed"]);
const NEGATIVES = { pid: "PID", cd: "CD", pcd: "PCD", exact: "exact", pt: "tempering" };

/** Those that have not ended. */
export const running = (trainings) => trainings.filter(({ status }) => !OVER.has(status));

const STAMPED = /-\d{8}-\d{6}(-\d+)?$/; // what is put behind a name that nobody chose

/** What a training is called on the page: its own name, or what it trains where nobody named it. */
export const titled = ({ run, data, machine, negative }) =>
  data && STAMPED.test(run)
    ? [data, machine, NEGATIVES[negative] ?? negative].filter(Boolean).join(", ")
    : run;

/** How far it is: "paused, 40 %". */
export function standing({ status, update, updates }) {
  const share = updates ? `${Math.floor((100 * update) / updates)} %` : "";
  return [status === "running" ? "" : status, share].filter(Boolean).join(", ") || status;
}

/** Draws the bar: a link to each training that runs. */
export function showRunning(bar, trainings, address) {
  const some = running(trainings);
  bar.hidden = !some.length;
  const focused = bar.contains(document.activeElement) ? document.activeElement.dataset.run : null;
  put(
    bar,
    h("span", { class: "label" }, some.length === 1 ? "Training" : `${some.length} trainings`),
    some.map((training) =>
      h(
        "a",
        {
          href: address(training.run),
          title: training.run,
          dataset: { run: training.run, status: training.status },
        },
        `${titled(training)}: ${standing(training)}`,
      ),
    ),
  );
  if (focused !== null)
    [...bar.querySelectorAll("a")].find((link) => link.dataset.run === focused)?.focus();
}

/** Asks what is to become of the trainings that run. Answers the runs that are to be stopped, or null if nothing
    is to be trained; those on the stage are the ones that one means at first. */
export function askAboutRunning(trainings, onStage) {
  const some = running(trainings);
  if (!some.length) return Promise.resolve([]);
  return new Promise((resolve) => {
    const several = some.length > 1;
    const ticks = some.map(({ run }) =>
      h("input", { type: "checkbox", value: run, checked: !several || onStage.includes(run) }),
    );
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const ticked = () => ticks.filter((tick) => tick.checked).map((tick) => tick.value);
    const dialog = h(
      "dialog",
      { class: "card ask", "aria-labelledby": "ask-running" },
      h(
        "h3",
        { id: "ask-running" },
        several ? `${some.length} trainings are running` : "A training is running",
      ),
      h(
        "ul",
        { class: "plain" },
        some.map((training, i) => {
          const words = `${titled(training)}: ${standing(training)}`;
          return h("li", {}, several ? h("label", { class: "check" }, ticks[i], words) : words);
        }),
      ),
      h(
        "p",
        { class: "small soft" },
        "A training that is stopped is saved and can be gone on with. One that goes on stands in the bar at the top.",
      ),
      h(
        "div",
        { class: "row" },
        h(
          "button",
          { type: "button", class: "main", onclick: () => close(ticked()) },
          several ? "Stop the ticked ones and train" : "Stop it and train",
        ),
        h(
          "button",
          { type: "button", onclick: () => close([]) },
          several ? "Let all go on in the background" : "Let it go on in the background",
        ),
        h("button", { type: "button", class: "quiet", onclick: () => close(null) }, "Cancel"),
      ),
    );
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
