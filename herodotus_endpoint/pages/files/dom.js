// Elements. Owns: making them, links between views, tables and forms. Texts become text nodes, never markup.

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

/** A link to a view. */
export function link(view, params, ...children) {
  return el("a", { href: query(view, params) }, ...children);
}

/** The relative URL of a view; what is empty is left out. */
export function query(view, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  return `?${new URLSearchParams([["view", view], ...given])}`;
}

/** A table that scrolls by itself where it is wider than the page. `columns`: [heading, class]. */
export function table(caption, columns, rows) {
  const head = el("tr", {}, columns.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, i) => el("td", { class: columns[i][1] }, cell))));
  return el("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), el("tbody", {}, body)));
}

/** A form that is a link with fields: sending it is going there. `fields`: elements made by `field`. */
export function form(view, label, ...fields) {
  return el("form", { method: "get", class: "filters", role: "search", "aria-label": label },
    el("input", { type: "hidden", name: "view", value: view }), fields, el("button", {}, "Show"));
}

/** A labelled text field, or a choice where there are `options`. */
export function field(name, label, value, options = null, hint = "") {
  const id = `field-${name}`;
  const input = options
    ? el("select", { id, name }, options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)))
    : el("input", { id, name, value, placeholder: hint || null, autocomplete: "off", spellcheck: "false" });
  return el("div", { class: "field" }, el("label", { for: id }, label), input);
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
