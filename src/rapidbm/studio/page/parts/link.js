// The page's one socket: questions and answers, pictures of which only the newest is drawn, and a way back after a break.

import { read } from "./messages.js";

const CHANGES = new Set(["train", "resume", "delete"]);
const PATIENT = [300, 600, 1200, 2500, 5000]; // milliseconds between two attempts

export class Link extends EventTarget {
  #socket = null;
  #asked = new Map();
  #number = 0;
  #failed = 0;
  #timer = 0;
  #frames = new Map();
  #drawing = 0;
  opened = false;

  constructor() {
    super();
    this.#connect();
    const wake = () => {
      if (!document.hidden && !this.opened) this.#connect();
    };
    document.addEventListener("visibilitychange", () => {
      wake();
      this.tell("hidden", { on: document.hidden }); // nobody looks: no pictures are made or sent
    });
    window.addEventListener("online", wake);
  }

  /** An answer to a question; `progress` hears how far it is. A question that a break cut off is asked again, but for
      those that change something: nobody knows whether they were heard. */
  ask(ask, given = {}, { progress = null, signal = null } = {}) {
    const id = (this.#number += 1);
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { told: { ...given, id, ask }, resolve, reject, progress });
      signal?.addEventListener("abort", () => {
        if (!this.#asked.delete(id)) return;
        this.tell("cancel", { id });
        reject(new DOMException("taken back", "AbortError"));
      });
      this.#send({ ...given, id, ask });
    });
  }

  tell(what, given = {}) {
    this.#send({ ...given, do: what });
  }

  /** Calls `draw` with the newest picture of a key, once for each frame of the screen. */
  draws(key, draw) {
    this.#frames.set(key, { draw, newest: null });
    return () => {
      if (this.#frames.get(key)?.draw === draw) this.#frames.delete(key);
    };
  }

  on(event, hear) {
    const listener = (told) => hear(told.detail);
    this.addEventListener(event, listener);
    return () => this.removeEventListener(event, listener);
  }

  #send(told) {
    if (this.opened) this.#socket.send(JSON.stringify(told));
  }

  #connect() {
    clearTimeout(this.#timer);
    if (this.#socket && this.#socket.readyState < 2) return;
    const socket = (this.#socket = new WebSocket(`ws://${location.host}/socket`));
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.opened = true;
      this.#failed = 0;
      for (const { told } of this.#asked.values()) this.#send(told);
      if (document.hidden) this.tell("hidden", { on: true });
      this.#tell("open", {});
    });
    socket.addEventListener("message", (event) => this.#hear(read(event.data)));
    socket.addEventListener("close", () => {
      if (socket !== this.#socket) return;
      if (this.opened || this.#failed === 0) this.#tell("closed", {});
      this.opened = false;
      this.#failed += 1;
      for (const [id, { told, reject }] of this.#asked) {
        if (!CHANGES.has(told.ask)) continue;
        this.#asked.delete(id);
        reject(new Error("The connection broke just then; see whether the training is there."));
      }
      this.#timer = setTimeout(
        () => this.#connect(),
        PATIENT[Math.min(this.#failed, PATIENT.length) - 1],
      );
      if (this.#failed === 4) this.#tell("lost", {});
    });
  }

  #hear(told) {
    if (told.event === "answer") {
      const asked = this.#asked.get(told.id);
      this.#asked.delete(told.id);
      if (told.error !== undefined) asked?.reject(new Error(told.error));
      else asked?.resolve({ ...told.answer, arrays: told.arrays });
    } else if (told.event === "progress") {
      this.#asked.get(told.id)?.progress?.(told);
    } else if (told.event === "dreamt") {
      this.#picture("frame/dream", told);
    } else if (told.event === "frame") {
      this.#picture(`frame/${told.run}`, told);
    } else {
      this.#tell(told.event, told);
    }
  }

  #picture(key, told) {
    const slot = this.#frames.get(key);
    if (!slot) return this.tell("seen", { key });
    if (slot.newest) this.tell("seen", { key }); // it was not drawn, and never will be
    slot.newest = told;
    this.#drawing ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#drawing = 0;
    for (const [key, slot] of this.#frames) {
      if (!slot.newest) continue;
      const told = slot.newest;
      slot.newest = null;
      this.tell("seen", { key });
      slot.draw(told);
    }
  }

  #tell(event, detail) {
    this.dispatchEvent(new CustomEvent(event, { detail }));
  }
}
