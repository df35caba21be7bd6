// Which view the URL names. Owns: that choice, the title, failures. Does not own: any view.
// The whole state of a page is its URL: a link shows another reader the same.

import * as balance from "./balance.js";
import * as decision from "./decision.js";
import * as decisions from "./decisions.js";
import * as disagreements from "./disagreements.js";
import { el } from "./dom.js";
import * as node from "./node.js";
import * as pending from "./pending.js";

const VIEWS = { decisions, decision, pending, node, balance, disagreements };
const UNDER = { decision: "decisions" };

async function show() {
  const params = new URLSearchParams(location.search);
  const name = VIEWS[params.get("view")] ? params.get("view") : "decisions";
  mark(UNDER[name] ?? name);
  const main = document.getElementById("main");
  try {
    const { title, body } = await VIEWS[name].view(params);
    document.title = `${title} · Herodotus`;
    main.replaceChildren(...body);
  } catch (failure) {
    document.title = "Herodotus";
    main.replaceChildren(el("h1", {}, "No answer"), failed(failure));
  }
  main.dataset.ready = name;
  performance.mark("shown");
}

function mark(name) {
  for (const link of document.querySelectorAll("nav a")) {
    if (new URLSearchParams(link.search).get("view") === name) link.setAttribute("aria-current", "page");
  }
}

function failed(failure) {
  const hints = (failure.similar ?? []).map((name) => el("li", {}, name));
  return el("div", { role: "alert", class: "failure" },
    el("p", {}, failure.message),
    hints.length ? [el("p", {}, "Similar:"), el("ul", {}, hints)] : null);
}

show();
