// The state that a pod is in now, as the plugin says it: `kubectl herodotus ui` gives its document to these pages.
// Owns: the place of its parts. Does not own: states, causes and remedies, which are those of the document's `live`.

import { livePod, servesLive } from "./api.js";
import { commandOf, stateIsReadBy } from "./answer.js";
import { el, fillLater, table } from "./dom.js";
import { ago, count } from "./words.js";

/** The answer of `kubectl herodotus ui` about a pod as it is now; null where it does not serve these pages. */
export function askLive(namespace, name) {
  return servesLive() ? livePod(namespace, name) : null;
}

/** The state with its causes, fixes and timeline, of the answer `live`; without one the command that reads it. */
export function liveState(namespace, name, what, live) {
  const fallback = stateIsReadBy(`pod ${name}`, namespace, what);
  if (!live) return fallback;
  const place = el("div", { class: "livestate-of-pod", "aria-live": "polite" }, el("p", { class: "quiet" }, "Reading the state of the pod …"));
  const fill = (answer) => fillLater(place, answer, ({ live: known }) => (known?.state ? show(known, () => fill(livePod(namespace, name))) : fallback),
    (failure) => el("p", { class: "quiet" }, `The state of the pod was not read: ${failure.message}.`));
  return fill(live);
}

/** Whether the state says no more than the decision does, of which it has the event: then the decision's words stand alone. */
function isOfDecision({ code, causes }) {
  return code === "pod-waits-for-node" && causes.every((cause) => cause.code === "no-node-found");
}

function show({ state: known, at }, read) {
  const state = isOfDecision(known) ? { ...known, headline: "The pod still waits for a node.", causes: [] } : known;
  const good = state.actor === null;
  const remedies = state.causes.flatMap((cause) => cause.remedies);
  const timeline = (state.timeline ?? []).map((one) => [ago(one.at), one.source, one.text]);
  return [
    el("section", { class: "panel", "aria-label": "State now" },
      el("p", { class: `answer ${good ? "good" : "bad"}` }, el("span", { "aria-hidden": "true" }, good ? "✓ " : "✗ "), state.headline),
      state.actor ? el("p", {}, "Who has to act: ", el("b", {}, state.actor)) : null,
      state.causes.length ? el("ul", { "aria-label": "Causes" }, state.causes.map((cause) => el("li", {}, cause.text, el("span", { class: "quiet" }, ` ${cause.code}, from ${cause.source}`), cause.inspect ? [" · ", el("code", {}, cause.inspect)] : null))) : null,
      remedies.map((one, i) => [
        el("p", {}, el("b", { class: "label" }, i ? "or" : "FIX"), one.text, one.checked ? "" : " (not checked)"),
        one.command ? commandOf(one.text, one.command) : null,
      ]),
      state.unread.length ? el("p", { class: "missing" }, `Not read, so a cause may be missing: ${state.unread.join(", ")}.`) : null,
      el("p", { class: "quiet" }, "Read from the API server ", ago(at), " ", el("button", { type: "button", click: read }, "Read again"))),
    timeline.length ? el("details", {}, el("summary", {}, `Timeline: ${count(timeline.length, "event")}`), table("Timeline, oldest first", [["When"], ["Source"], ["What", "long"]], timeline)) : "",
  ].filter(Boolean);
}
