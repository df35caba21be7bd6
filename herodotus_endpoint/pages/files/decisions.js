// Recent decisions. Owns: the filters and what they ask. A text is looked for in what was fetched, page after page.

import { get, within } from "./api.js";
import { el, field, form, nodeLink, podLink, query, table, workloadLink } from "./dom.js";
import { TimeRange } from "./timerange.js";
import { ago, fitError, number, state, workloadOf } from "./words.js";

const PAGE = 50;
const SEARCHED = 500; // decisions fetched at once where a text is looked for
const MOST = 4; // such pages; "Older" goes on from there
const STATES = ["", "Bound", "Binding", "Unschedulable", "Failed", "Error", "DryRun"];
const FIELDS = { pod: "spec.pod", workload: "spec.pod.owner", node: "status.node", outcome: "status.state" };

export async function view(params) {
  const asked = Object.fromEntries(["namespace", ...Object.keys(FIELDS), "text", "continue"].map((name) => [name, (params.get(name) ?? "").trim()]));
  const time = new TimeRange("decisions", params, { fallback: null });
  const found = await find(asked, time);
  const rest = { ...asked, ...time.link, continue: found.next };
  const first = el("p", { class: "answer" }, said(asked, found, time));
  const pages = el("nav", { class: "pages", "aria-label": "More decisions" },
    asked.continue ? el("a", { href: query("decisions", { ...asked, ...time.link, continue: "" }) }, "Newest") : null,
    found.next ? el("a", { href: query("decisions", rest), rel: "next" }, "Older") : null);
  const rows = found.items.map(row);
  const columns = [["Pod"], ["Workload"], ["Outcome"], ["Node"], ["Feasible", "number"], ["Attempt", "number"], ["Started"], ["Message", "oneline"]];
  return { title: "Decisions", body: [el("h1", {}, "Decisions"), first, time.presets(), filters(asked, time), rows.length ? table("Decisions, newest first", columns, rows) : null, pages].filter(Boolean) };
}

function filters(asked, time) {
  return form("decisions", "Filter decisions",
    field("namespace", "Namespace", asked.namespace, null, { hint: "all", names: "namespaces" }),
    field("workload", "Owner", asked.workload, null, { hint: "ReplicaSet/web-5d9f", names: "owners" }),
    field("pod", "Pod", asked.pod, null, { names: "pods" }),
    field("node", "Node", asked.node, null, { names: "nodes" }),
    field("outcome", "Outcome", asked.outcome, STATES.map((name) => [name, name || "any"])),
    field("text", "Reason or text", asked.text, null, { hint: "Insufficient cpu" }),
    ...time.fields());
}

async function find(asked, time) {
  const selector = Object.entries(FIELDS).filter(([name]) => asked[name]).map(([name, column]) => `${column}=${asked[name]}`).join(",");
  const wanted = asked.text.toLowerCase();
  const found = { items: [], next: asked.continue, looked: 0 };
  for (let page = 0; page < (wanted ? MOST : 1); page += 1) {
    const answer = await get(within(asked.namespace, "decisions"), { ...time.query, fieldSelector: selector, limit: wanted ? SEARCHED : PAGE, continue: found.next });
    found.looked += answer.items.length;
    found.items.push(...answer.items.filter((item) => !wanted || text(item).includes(wanted)));
    found.next = answer.metadata.continue ?? "";
    if (!found.next || found.items.length >= PAGE) break;
  }
  return found;
}

function text(item) {
  const { pod } = item.spec;
  return [pod.namespace, pod.name, pod.owner?.name, item.status.node, item.status.state, item.status.message].join(" ").toLowerCase();
}

function said(asked, found, time) {
  const n = found.items.length;
  if (asked.text) return `${number(n)} of the ${number(found.looked)} decisions that were searched contain “${asked.text}”${found.next ? "; there are older ones" : ""}.`;
  const when = time.seconds || time.from || time.until ? ` ${time.words}` : "";
  if (!n) return `No stored decision${when} matches the filters.`;
  return `${asked.continue ? "Older" : "The newest"} ${number(n)} decisions${when}${found.next ? "" : ": there are no more"}.`;
}

function row(item) {
  const { pod, snapshot, key, times } = item.spec;
  const { node, message } = item.status;
  return [
    podLink(pod.namespace, pod.name, item.metadata.name),
    pod.owner ? workloadLink(pod.namespace, workloadOf(`${pod.owner.kind}/${pod.owner.name}`, item.metadata.labels)) : "–",
    state(item.status.state),
    node ? nodeLink(node) : "–",
    `${number(snapshot.feasible)} of ${number(snapshot.nodes)}`,
    number(key.attempt),
    ago(times.startedAt),
    message ? el("span", { class: "said", title: message }, fitError(message)) : "",
  ];
}
