// The time that a page is about: the last hours or days, or from one moment until another. Its state is the URL.
// Owns: reading it from the URL, its links and fields. Does not own: what is asked of that time.

import { el, field } from "./dom.js";
import { choice } from "./list.js";
import { full } from "./words.js";

export const DAY_S = 86400;
const PRESETS = [["3600", "1 hour"], ["21600", "6 hours"], ["86400", "24 hours"], ["604800", "7 days"], ["2592000", "30 days"]];
const IN_UTC = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?$/; // as a field has it

export class TimeRange {
  /** `fallback`: seconds before now if the URL names no time; null for all that is stored. `ends`: whether an end can be asked for. */
  constructor(view, params, { fallback = DAY_S, ends = true } = {}) {
    Object.assign(this, { view, params, fallback, ends });
    this.from = instant(params.get("from"));
    this.until = ends ? instant(params.get("until")) : null;
    this.seconds = /^\d{1,9}$/.test(params.get("since") ?? "") ? Number(params.get("since")) : fallback;
  }

  get #isAbsolute() {
    return Boolean(this.from ?? this.until);
  }

  /** The parameters of a question to the service. */
  get query() {
    const { from, until, seconds } = this;
    if (!this.#isAbsolute) return { since: seconds };
    const before = seconds && new Date(new Date(until) - seconds * 1000).toISOString();
    return { since: from ?? before, until };
  }

  /** The parameters of a link to another page about the same time. */
  get link() {
    const { params } = this;
    return this.#isAbsolute ? { from: params.get("from"), until: params.get("until") } : { since: params.get("since") };
  }

  /** The time in words, after a sentence's verb: `in the last 24 hours`. */
  get words() {
    const { from, until, seconds } = this;
    const minute = (time) => full(time).slice(0, 16);
    if (from && until) return `from ${minute(from)} until ${minute(until)} UTC`;
    if (from) return `since ${minute(from)} UTC`;
    if (until) return seconds ? `in the ${lasting(seconds)} before ${minute(until)} UTC` : `before ${minute(until)} UTC`;
    return seconds ? `in the last ${lasting(seconds).replace(/^1 /, "")}` : "in all that is stored";
  }

  /** Links to the usual times; the one that is shown is marked. */
  presets() {
    const options = [...(this.fallback ? [] : [["", "all"]]), ...PRESETS];
    const shown = new URLSearchParams(this.params);
    for (const name of ["from", "until", "continue"]) shown.delete(name);
    shown.set("since", this.#isAbsolute ? "-" : String(this.seconds ?? ""));
    return choice(this.view, shown, "since", options, "Time");
  }

  /** Two fields of a form, folded unless they say what is shown. */
  fields() {
    const value = (time) => (time ? new Date(time).toISOString().slice(0, 16) : "");
    const ends = this.ends ? field("until", "Until (UTC)", value(this.until), null, { type: "datetime-local" }) : null;
    return [
      this.params.get("since") && !this.#isAbsolute ? el("input", { type: "hidden", name: "since", value: this.params.get("since") }) : null,
      el("details", { class: "times", open: this.#isAbsolute }, el("summary", {}, this.ends ? "From … until" : "From …"),
        el("div", { class: "filters" }, field("from", "From (UTC)", value(this.from), null, { type: "datetime-local" }), ends)),
    ];
  }
}

/** The time that a text names, as the service reads it; null for none. Without an offset it is in UTC. */
function instant(text) {
  const time = new Date(IN_UTC.test(text ?? "") ? `${text}Z` : text ?? NaN);
  return Number.isNaN(time.getTime()) ? null : time.toISOString();
}

function lasting(seconds) {
  const known = PRESETS.find(([value]) => Number(value) === seconds);
  return known ? known[1] : `${seconds} seconds`;
}
