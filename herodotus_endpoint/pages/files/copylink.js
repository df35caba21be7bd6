// The button that copies a link to this page which others can open, and which lasts longer than `kubectl herodotus ui`.
// Owns: which address that is. Does not own: the state of a page, which is its URL.

import { get, isLocal, pagesAddress } from "./api.js";
import { el } from "./dom.js";

const SHOWN_MS = 2500;

/** Fill the place of the button. `lasting()` returns the parameters in which the link differs from the page's own. */
export function offerLink(place, lasting) {
  const told = el("span", { class: "unseen", "aria-live": "polite" });
  const button = el("button", { type: "button", click: () => copy() }, "Copy link");
  const field = el("input", { readonly: true, "aria-label": "Link to this page", hidden: true });
  place.replaceChildren(button, field, told);

  async function copy() {
    if (isLocal()) return say("No link lasts", "In local mode no link lasts: these pages end with their command.");
    const link = await address(lasting());
    const done = navigator.clipboard ? await navigator.clipboard.writeText(link).then(() => true, () => false) : false;
    field.value = link;
    if (done) return say("Copied", "The link is copied.");
    field.hidden = false; // browsers refuse the clipboard to pages without TLS that are not on this machine
    field.select();
    return say("Press Ctrl+C", "The link is selected.");
  }

  function say(text, words) {
    button.textContent = text;
    button.title = words;
    told.textContent = words;
    setTimeout(() => { button.textContent = "Copy link"; }, SHOWN_MS);
  }
}

/** The address that the service was given, that of the API server's proxy, or the one of this page. */
async function address(values) {
  const known = pagesAddress() || (await get("serviceversions").catch(() => ({}))).pages;
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(values)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const url = new URL(known || location.href);
  url.search = params;
  return url.href;
}
