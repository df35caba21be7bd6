// Reading a page again while it is open. Owns: when, its visible state, and what the reader keeps when the page is
// drawn anew: focus, opened details, scrolling. Does not own: what is read and drawn.
// A page is drawn anew only if an answer changed, and not while the reader types, chooses or selects text.

import { fingerprint } from "./api.js";
import { el, keepFocus } from "./dom.js";
import { ago, duration } from "./words.js";

const EVERY_S = 10;
const SHARE = 20; // times as long as the last reading took is waited at least, so that costly pages are read seldom
const MOST_S = 120; // between tries while there is no answer
const PAUSED = "herodotus-paused"; // for the tab, over all pages

export class Live {
  /** `read` makes a page, `place` shows it. `probe`, if any, asks less than `read` does and sees every change. */
  constructor(main, { read, place, probe }) {
    Object.assign(this, { main, read, place, probe });
    this.waits = EVERY_S;
    this.shownAt = Date.now();
    this.known = "";
    this.failure = "";
    this.held = false;
    this.text = el("span", { "aria-live": "polite", class: "livestate" });
    this.age = el("span", { class: "quiet" });
    this.button = el("button", { type: "button", click: () => this.#toggle() });
    this.box = document.getElementById("live");
    this.box.append(this.text, this.age, this.button);
  }

  /** Show the page for the first time. */
  async first() {
    const page = await this.read();
    this.known = fingerprint();
    this.place(page);
    if (this.probe) this.known = fingerprint(await this.probe());
  }

  /** Begin to read the page again. What lasts no longer than a question, such as a form, is not. */
  start(lasts) {
    this.box.hidden = !lasts;
    if (!lasts) return;
    setInterval(() => this.#tick(), 1000);
    this.next = Date.now() + EVERY_S * 1000;
    this.#say();
  }

  get paused() {
    return sessionStorage.getItem(PAUSED) === "yes";
  }

  #toggle() {
    sessionStorage.setItem(PAUSED, this.paused ? "" : "yes");
    this.next = Date.now();
    this.#say();
    if (!this.paused) this.#tick();
  }

  async #tick() {
    for (const time of this.main.querySelectorAll("time")) time.firstChild.nodeValue = ago(time.dateTime).textContent;
    this.#say();
    if (this.paused || this.busy || document.hidden || Date.now() < this.next) return;
    this.busy = true;
    const began = performance.now();
    try {
      await this.#refresh();
      this.failure = "";
      this.waits = Math.max(EVERY_S, ((performance.now() - began) / 1000) * SHARE);
    } catch (failure) {
      this.failure = failure.message;
      this.waits = Math.min(MOST_S, this.waits * 2);
    }
    this.next = Date.now() + this.waits * 1000;
    this.busy = false;
    this.#say();
  }

  async #refresh() {
    this.held = this.#isHeld();
    if (this.held) return;
    let page = null;
    fingerprint();
    if (!this.probe) page = await this.read();
    const now = this.probe ? fingerprint(await this.probe()) : fingerprint();
    if (now !== this.known) this.#redraw(page ?? await this.read());
    this.known = now;
    this.shownAt = Date.now();
  }

  /** Show the new page, and put back what the reader had. */
  #redraw(page) {
    const { main } = this;
    const opened = new Map([...main.querySelectorAll("details")].map((one) => [label(one), one.open]));
    const scrolled = new Map([...main.querySelectorAll("[role=region]")].map((one) => [one.ariaLabel, [one.scrollTop, one.scrollLeft]]));
    const at = [scrollX, scrollY];
    keepFocus(main, () => {
      this.place(page);
      for (const one of main.querySelectorAll("details")) one.open = opened.get(label(one)) ?? one.open;
      for (const one of main.querySelectorAll("[role=region]")) [one.scrollTop, one.scrollLeft] = scrolled.get(one.ariaLabel) ?? [0, 0];
    });
    scrollTo(...at);
  }

  /** Whether drawing anew would take something from the reader's hands. */
  #isHeld() {
    const edited = [...this.main.querySelectorAll("form input, form textarea")].some((input) => input.type !== "hidden" && input.value !== input.defaultValue);
    const typing = document.activeElement?.matches("main input:not([type=checkbox]), main select, main textarea");
    const selection = getSelection();
    return edited || typing || (!selection.isCollapsed && this.main.contains(selection.anchorNode));
  }

  #say() {
    const old = `${duration(Math.max(1, Math.round((Date.now() - this.shownAt) / 1000)))} ago`;
    const state = this.paused ? "Paused" : this.failure ? "No answer" : this.held ? "Held" : "Live";
    const words = { Paused: "Paused", Live: "Live", Held: "Held while you type or select", "No answer": `No answer, trying again: ${this.failure}` }[state];
    if (this.text.textContent !== words) this.text.textContent = words;
    this.text.dataset.state = state;
    this.age.textContent = `read ${old}`;
    const verb = this.paused ? "Resume" : "Pause";
    if (this.button.textContent !== verb) this.button.textContent = verb;
  }
}

function label(details) {
  return details.querySelector("summary")?.textContent.replace(/[\d,]+/g, "");
}
