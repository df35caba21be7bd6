// Elements. Owns: making them, links between views, tables and forms. Texts become text nodes, never markup.

import { nameOf } from "./api.js";

/** An element; `properties` are attributes (absent where null or false), functions are listeners of that event. */
export function el(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/**
 * Fill a part of a page when its answer comes, and say until then that it is busy: `draw` makes its elements of the answer,
 * `explain` those of a failure. Either returns nothing where the part has nothing to show. Returns the part.
 */
export function fillLater(part, answer, draw, explain) {
  part.setAttribute("aria-busy", "true");
  answer.then(draw).catch(explain).then((content) => {
    keepFocus(part, () => part.replaceChildren(...[content ?? []].flat(Infinity)));
    part.removeAttribute("aria-busy");
  });
  return part;
}

/** Draw a part anew by `redraw`; the focus stays on what is there again: the same ID, or the same kind and words. */
export function keepFocus(part, redraw) {
  const had = document.activeElement;
  const words = (one) => one.ariaLabel ?? one.textContent;
  const isFocused = part.contains(had);
  redraw();
  if (!isFocused) return;
  const alike = [...part.querySelectorAll(had.id ? `#${CSS.escape(had.id)}` : had.localName)];
  alike.find((one) => had.id || words(one) === words(had))?.focus({ preventScroll: true });
}

/** A link to a view. */
export function link(view, params, ...children) {
  return el("a", { href: query(view, params) }, ...children);
}

/** The relative URL of a view; what is empty is left out. */
export function query(view, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `?${new URLSearchParams([["view", view], ...given])}`;
}

/** A link to a node's page. */
export function nodeLink(name, params = {}) {
  return link("node", { name, ...params }, name);
}

/** A pod with its namespace, each a link; `id` is that of a decision, by default the pod's newest. */
export function podLink(namespace, pod, id = pod, params = {}) {
  return el("span", { class: "pod" }, namespaceLink(namespace), "/", el("wbr"), link("decision", { namespace, name: nameOf(pod, id), ...params }, pod));
}

/** A link to the summary of a namespace. */
export function namespaceLink(namespace) {
  return link("summary", { namespace }, namespace);
}

/** A link to a workload's page, `Deployment/web`; for a kind that has no such page just its name. */
export function workloadLink(namespace, workload) {
  return /^\w+\/./.test(workload ?? "") ? link("workload", { namespace, workload }, workload) : workload ?? "–";
}

/** A text in which each known name is a link to that node. */
export function withNodes(text, names) {
  const known = names instanceof Set ? names : new Set(names);
  return (text ?? "").split(/([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)/).map((word) => (known.has(word) ? nodeLink(word) : word));
}

/** A text whose long words, such as names of plugins, may be broken before a capital letter. */
function breakable(text) {
  return text.split(/(?<=[a-z]{4})(?=[A-Z][a-z])/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));
}

/**
 * A table that scrolls by itself where it is wider than the page, and is a list of cards on a narrow screen. A column is
 * its heading, its kind, and, where it can be sorted, `{sorted, click}`.
 */
export function table(caption, columns, rows) {
  const head = el("tr", { role: "row" }, columns.map(([text, kind, order]) => el("th", { scope: "col", role: "columnheader", class: kind, "aria-sort": order?.sorted }, order ? el("button", { type: "button", click: order.click }, text) : text)));
  const body = rows.map((cells) => el("tr", { role: "row" }, cells.map((cell, i) => el("td", { role: "cell", class: columns[i][1], "data-label": columns[i][0], "data-none": cell === "–" }, el("div", {}, typeof cell === "string" ? breakable(cell) : cell)))));
  const sortable = columns.some(([, , order]) => order);
  return el("div", { class: `wide${columns.length > 2 ? " cards" : ""}${sortable ? " sortable" : ""}`, tabindex: "0", role: "region", "aria-label": caption },
    el("table", { role: "table" }, el("caption", { class: "unseen" }, caption), el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, body)));
}

/** A form that is a link with fields: sending it is going there. `fields`: elements made by `field`. */
export function form(view, label, ...fields) {
  return el("form", { method: "get", class: "filters", role: "search", "aria-label": label },
    el("input", { type: "hidden", name: "view", value: view }), fields, el("button", {}, "Show"));
}

/** A labelled text field, or a choice where there are `options`. `names`: the kind of names that it offers (`pickers`). */
export function field(name, label, value, options = null, { hint = "", names = "", ...rest } = {}) {
  const id = `field-${name}`;
  const list = names ? el("datalist", { id: `names-${name}` }) : null;
  const input = options
    ? el("select", { id, name }, options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)))
    : el("input", { id, name, value, placeholder: hint || null, autocomplete: "off", spellcheck: "false", list: list?.id, "data-names": names || null, ...rest });
  return el("div", { class: "field" }, el("label", { for: id }, label), input, list);
}

/** Facts as pairs; those without a value are left out. */
export function facts(pairs) {
  const told = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, told.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}

/** A section with its heading. */
export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), ...children);
}
