// What is asked about a run: its name and a note, and whether it is to be deleted.

import { field, h } from "./dom.js";
import { size } from "./numbers.js";

/** Shows a dialog; `act` is called by its main button, and the answer is whether it was. */
function ask(title, body, text, act) {
  return new Promise((resolve) => {
    const wrong = h("p", { class: "note bad small", role: "alert", hidden: true });
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const main = h("button", { type: "submit", class: "main" }, text);
    const form = h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          main.disabled = true;
          try {
            await act();
            close(true);
          } catch (error) {
            wrong.textContent = error.message;
            wrong.hidden = main.disabled = false;
          }
        },
      },
      h("h3", { id: "ask-run" }, title),
      body,
      wrong,
      h(
        "div",
        { class: "row" },
        main,
        h("button", { type: "button", class: "quiet", onclick: () => close(false) }, "Cancel"),
      ),
    );
    const dialog = h("dialog", { class: "card ask", "aria-labelledby": "ask-run" }, form);
    dialog.addEventListener("cancel", (event) => {
      event.preventDefault();
      close(false);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Whether a run was given another name or note. */
export function askLabel(link, run) {
  const title = h("input", { type: "text", maxlength: 200, value: run.title });
  const note = h("textarea", { rows: 4, maxlength: 5000, value: run.note });
  return ask(
    "Name and note",
    [
      field("Name", title),
      field("Note", note),
      h("p", { class: "small soft" }, "The folder keeps its name: ", h("code", {}, run.name)),
    ],
    "Keep",
    () => link.ask("label", { run: run.name, title: title.value, note: note.value }),
  );
}

/** Whether a run was deleted. */
export const askToDelete = (link, run) =>
  ask(
    `Delete ${run.title}?`,
    h(
      "p",
      {},
      `Its folder, `,
      h("code", {}, run.name),
      `, with all checkpoints (${size(run.size)}) is removed from the disk. This cannot be taken back.`,
    ),
    "Delete it",
    () => link.ask("delete", { run: run.name }),
  );
