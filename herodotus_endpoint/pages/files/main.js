// Which view the URL names. Owns: that choice, the title, failures. Does not own: any view, when it is read again (`live`).
// The whole state of a page is its URL: a link shows another reader the same.

import * as balance from "./balance.js";
import * as clusterwhatif from "./clusterwhatif.js";
import * as decision from "./decision.js";
import * as decisions from "./decisions.js";
import * as disagreements from "./disagreements.js";
import { isLocal } from "./api.js";
import { commandOf } from "./answer.js";
import { offerLink } from "./copylink.js";
import { el, field, form, link } from "./dom.js";
import { listen } from "./keys.js";
import { Live } from "./live.js";
import * as node from "./node.js";
import * as pending from "./pending.js";
import { offer } from "./pickers.js";
import * as preemptions from "./preemptions.js";
import * as summary from "./summary.js";
import * as whatif from "./whatif.js";
import { OBSERVE } from "./words.js";
import * as workload from "./workload.js";

const VIEWS = { summary, decisions, decision, pending, node, workload, balance, whatif, clusterwhatif, preemptions, disagreements };
const UNDER = { decision: "decisions", clusterwhatif: "whatif" };
const HEADINGS = { 0: "No answer", 401: "Not signed in", 403: "No right to see this", 404: "Not found", 503: "No answer" };
const NO_HISTORY = 501; // of local mode
const TITLES = { decisions: "Decisions", preemptions: "Preemptions", balance: "Balance", disagreements: "Disagreements" };
const HINTS = {
  0: "Is it running?  kubectl -n herodotus get pods",
  401: "Open the page with your credentials: kubectl herodotus ui",
  403: "Your role does not allow it. Rights may exist in a single namespace:",
  503: "Is it running?  kubectl -n herodotus get pods",
};

const main = document.getElementById("main");
const params = new URLSearchParams(location.search);
const name = VIEWS[params.get("view")] ? params.get("view") : "summary";
const chosen = VIEWS[name];

let lasting = {}; // parameters in which a link that lasts differs from the page's own

function place({ title, body, lasting: differing = {} }) {
  document.title = `${title} · Herodotus`;
  lasting = differing;
  main.replaceChildren(...(isLocal() ? [source()] : []), ...body);
}

/** What the answers of local mode are made of, on each of its pages. */
function source() {
  return el("p", { class: "quiet" }, "Local mode: the cluster as it is now, evaluated on this machine. Nothing is recorded.");
}

function fail(failure) {
  if (failure.code === NO_HISTORY) {
    const title = TITLES[name] ?? "No past decisions";
    place({ title, body: [el("h1", {}, title), el("p", { class: "answer" }, "This page is made of past decisions. Local mode has none."),
      el("p", {}, "To record what the cluster's scheduler decides from now on, with a read-only observer:"), commandOf("record decisions", OBSERVE),
      el("p", {}, "What local mode answers: ", [["pending", "Pending"], ["node", "Nodes"], ["workload", "Workloads"], ["whatif", "What if"]].map(([view, text], i) => [i ? ", " : "", link(view, {}, text)]), ".")] });
    return;
  }
  const title = HEADINGS[failure.code] ?? "No answer";
  place({ title, body: [el("h1", {}, title), ...failed(failure)] });
}

function mark() {
  for (const item of document.querySelectorAll("nav a")) {
    if (new URLSearchParams(item.search).get("view") !== (UNDER[name] ?? name)) continue;
    item.setAttribute("aria-current", "page");
    item.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function failed(failure) {
  const at = params.has("name") ? "name" : "pod";
  const hints = failure.similar.map((other) => el("li", {}, link(name, { ...Object.fromEntries(params), view: null, [at]: other }, other)));
  return [
    el("div", { role: "alert", class: "failure" },
      el("p", {}, failure.message),
      HINTS[failure.code] ? el("p", {}, HINTS[failure.code]) : null,
      hints.length ? [el("p", {}, "Similar:"), el("ul", {}, hints)] : null),
    failure.code === 403 ? form(name, "Choose a namespace", field("namespace", "Namespace", params.get("namespace") ?? "")) : null,
    failure.code === 404 && params.get("namespace") ? el("p", {}, link("decisions", { namespace: params.get("namespace") }, `Decisions of ${params.get("namespace")}`)) : null,
    el("p", {}, link("summary", {}, "Summary")),
  ].flat().filter(Boolean);
}

mark();
offer(main, params);
listen(document.getElementById("search"));
offerLink(document.getElementById("link"), () => lasting);
const live = new Live(main, { read: () => chosen.view(params), place, probe: chosen.probe && (() => chosen.probe(params)) });
let isOver = false; // nothing more will come: the page is not read again
live.first().catch((failure) => {
  isOver = failure.code === NO_HISTORY;
  fail(failure);
}).finally(() => {
  main.dataset.ready = name;
  performance.mark("shown");
  live.start(chosen.live !== false && !isOver);
});
