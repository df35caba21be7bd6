// Keys, and the search over pages and names. Owns: the two dialogs, which key does what. Does not own: where the names
// come from (`pickers`). Single keys can be switched off, for readers whose tools send them by themselves.

import { el, query } from "./dom.js";
import { knownNames, nodes } from "./pickers.js";
import { byName } from "./words.js";

const OFF = "herodotus-no-keys"; // for the browser
const MOST = 12; // matches shown
const SEQUENCE_MS = 1500; // between g and the letter of a page
const PAGES = [["s", "summary", "Summary"], ["p", "pending", "Pending"], ["d", "decisions", "Decisions"], ["w", "workload", "Workloads"], ["n", "node", "Nodes"],
  ["i", "whatif", "What if"], ["e", "preemptions", "Preemptions"], ["b", "balance", "Balance"], ["o", "disagreements", "Disagreements"]];
const KEYS = [["/", "filter this list, or search"], ["Ctrl K", "search pods, nodes, workloads, namespaces and pages"], ["?", "these keys"], ["Esc", "close"],
  ["↑ ↓", "move between rows of the table of nodes and plugins"], ...PAGES.map(([letter, , text]) => [`g ${letter}`, text])];
const FIXED = [...PAGES.map(([, view, text]) => ({ kind: "page", text, to: query(view) })),
  ...["drain", "cordon", "add", "capacity", "plan", "consolidate"].map((ask) => ({ kind: "page", text: `What if: ${ask}`, to: query("clusterwhatif", { ask }) }))];

/** Listen to keys and to the search button. */
export function listen(button) {
  const search = new Search();
  const help = helpDialog();
  let began = 0;
  button.addEventListener("click", () => search.open());
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      search.open();
      return;
    }
    const typing = event.target.closest("input:not([type=checkbox]), textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || localStorage.getItem(OFF)) return;
    const page = Date.now() - began < SEQUENCE_MS && PAGES.find(([letter]) => letter === event.key);
    began = event.key === "g" ? Date.now() : 0;
    if (page) location.href = query(page[1]);
    else if (event.key === "?") help.showModal();
    else if (event.key === "/") {
      event.preventDefault();
      const filter = document.querySelector("main [data-search]");
      if (filter) filter.focus();
      else search.open();
    }
  });
}

function helpDialog() {
  const off = el("input", { type: "checkbox", id: "keys-off", checked: Boolean(localStorage.getItem(OFF)), change: () => (off.checked ? localStorage.setItem(OFF, "yes") : localStorage.removeItem(OFF)) });
  const dialog = el("dialog", { "aria-labelledby": "keys-title" },
    el("h2", { id: "keys-title" }, "Keys"),
    el("dl", { class: "keys" }, KEYS.map(([key, text]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)))),
    el("p", { class: "field check" }, off, el("label", { for: "keys-off" }, "switch off keys without Ctrl")),
    el("button", { type: "button", click: () => dialog.close() }, "Close"));
  document.body.append(dialog);
  return dialog;
}

/** The search: a text field, and a list of what matches, from which arrow keys choose. */
class Search {
  constructor() {
    this.names = null;
    this.at = 0;
    this.input = el("input", { id: "search-text", placeholder: "pod, node, workload, namespace or page", role: "combobox", "aria-controls": "search-found", "aria-expanded": "true", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", input: () => this.#show(0), keydown: (event) => this.#key(event) });
    this.found = el("ul", { id: "search-found", role: "listbox", "aria-label": "Matches" });
    this.said = el("p", { class: "quiet", role: "status" });
    this.dialog = el("dialog", { class: "palette", "aria-label": "Search" }, el("label", { for: "search-text" }, "Go to"), this.input, this.said, this.found);
    document.body.append(this.dialog);
  }

  async open() {
    if (!this.dialog.open) this.dialog.showModal();
    this.input.select();
    this.#show(0);
    if (this.names) return;
    this.said.textContent = "Reading names …";
    this.names = await readNames();
    this.#show(this.at);
  }

  #show(at) {
    const wanted = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const matches = [...FIXED, ...(this.names ?? [])].filter((one) => wanted.every((word) => `${one.kind} ${one.text}`.toLowerCase().includes(word)));
    this.shown = matches.slice(0, MOST);
    this.at = Math.max(0, Math.min(at, this.shown.length - 1));
    this.said.textContent = matches.length ? `${matches.length > MOST ? `the first ${MOST} of ` : ""}${matches.length} found` : "Nothing found among pages and names of the newest decisions.";
    this.found.replaceChildren(...this.shown.map((one, i) => el("li", { role: "option", id: `found-${i}`, "aria-selected": String(i === this.at), click: () => this.#go(one) }, el("span", { class: "quiet" }, `${one.kind} `), one.text)));
    if (this.shown.length) this.input.setAttribute("aria-activedescendant", `found-${this.at}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      this.#show(this.at + step);
    } else if (event.key === "Enter" && this.shown[this.at]) {
      event.preventDefault();
      this.#go(this.shown[this.at]);
    }
  }

  #go({ to }) {
    this.dialog.close();
    location.href = to;
  }
}

/** Everything that has a name: that of nodes with a history, and of the newest decisions. */
async function readNames() {
  const [known, { nodes: named }] = await Promise.all([knownNames("").catch(() => null), nodes().catch(() => ({ nodes: [] }))]);
  const of = (kind, names, to) => [...names].sort(byName).map((text) => ({ kind, text, to: to(text) }));
  const split = (text) => text.split(/\/(.*)/);
  return [
    ...of("pod", known?.members ?? [], (text) => query("decision", { namespace: split(text)[0], name: split(text)[1] })),
    ...of("node", named, (name) => query("node", { name })),
    ...of("workload", known?.made ?? [], (text) => query("workload", { namespace: split(text)[0], workload: split(text)[1] })),
    ...of("namespace", known?.namespaces ?? [], (namespace) => query("summary", { namespace })),
  ];
}
