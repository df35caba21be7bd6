// The first page: what waits and why, what was placed last, which nodes reject most, and whether an observer agrees.
// Each part is read by itself, so that a missing right leaves out that part and says so.

import { get, isLocal, path, within } from "./api.js";
import { el, field, form, link, nodeLink, podLink, section, table } from "./dom.js";
import { fixOf, memberOf, readPending, reasonText } from "./pending.js";
import { bar } from "./plots.js";
import { TimeRange } from "./timerange.js";
import { ago, byName, count, more, number, percent } from "./words.js";

const GROUPS = 6;
const PLACED = 6;
const PRESSED = 5;
const READ = 500; // nodes

export async function view(params) {
  const namespace = (params.get("namespace") ?? "").trim();
  const time = new TimeRange("summary", params);
  const parts = await Promise.all([
    part("Pending pods by reason", () => pending(namespace)),
    part("Last placements", () => placements(namespace, time)),
    part("Nodes that reject most", () => pressure(time)),
    part("Agreement of the observer", () => agreement(namespace, time)),
  ]);
  const [waiting, placed, pressed, agreed] = parts;
  if (parts.every((one) => one.failure)) throw waiting.failure;
  if (isLocal() && waiting.failure) throw waiting.failure;
  const past = [
    el("h2", {}, `Decisions ${time.words}`), time.presets(),
    el("div", { class: "halves" }, placed.element, pressed.element),
    agreed.element,
  ];
  return { title: namespace ? `Summary of ${namespace}` : "Summary", body: [
    el("h1", {}, namespace ? [el("span", { class: "kind" }, "Namespace "), namespace] : "Summary"),
    waiting.answer ?? "",
    form("summary", isLocal() ? "Choose a namespace" : "Choose a namespace and a time", field("namespace", "Namespace", namespace, null, { hint: "all", names: "namespaces" }), ...(isLocal() ? [] : time.fields())),
    waiting.element,
    ...(isLocal() ? [el("p", { class: "quiet" }, "Last placements and which nodes reject most are known from records, which local mode has not.")] : past),
  ] };
}

/** A section, or one that says why it is missing. */
async function part(title, make) {
  try {
    const { body, answer } = await make();
    return { element: body ? section(title, body) : "", answer };
  } catch (failure) {
    return { element: section(title, el("p", { class: "missing", role: failure.code === 403 ? null : "alert" }, failure.message)), failure };
  }
}

async function pending(namespace) {
  const answer = await readPending(namespace);
  const waiting = answer.count - answer.overdue;
  const said = answer.noRecords ? "No scheduler has sent records yet: which pods are pending is not known."
    : waiting ? `${count(waiting, "pod")} ${waiting === 1 ? "is" : "are"} pending.` : "No pod is pending.";
  const late = answer.overdue ? ` ${number(answer.overdue)} ${answer.overdue === 1 ? "is" : "are"} overdue: the scheduler does not run, or the pods were deleted.` : "";
  const sign = waiting ? "✗ " : answer.noRecords ? "" : "✓ ";
  const groups = answer.groups.slice(0, GROUPS);
  const suggestions = await Promise.all(groups.map((group) => fixOf(memberOf(group.pods[0], answer))));
  const rows = groups.map((group, i) => [
    number(group.count), reasonText(group), suggestions[i],
    [group.pods.map((pod, i) => [i ? ", " : "", memberLink(memberOf(pod, answer))]), more(group.podsOmitted)],
    group.oldestAt ? ago(group.oldestAt) : "–",
  ]);
  const left = answer.groups.length - rows.length;
  const columns = [["Count", "number"], ["Reason"], ["Fix for the first"], ["Pods", "long"], ["Oldest"]];
  return {
    answer: el("p", { class: `answer ${waiting ? "bad" : "good"}` }, el("span", { "aria-hidden": "true" }, sign), said, late),
    body: rows.length ? [table("Pending pods by reason", columns, rows), left > 0 ? el("p", {}, link("pending", { namespace }, `${count(left, "more reason")}`)) : ""] : el("p", { class: "quiet" }, answer.noRecords ? "An installation needs a minute or two for its first records." : "Nothing waits."),
  };
}

function memberLink({ namespace, name, id }) {
  return podLink(namespace, name, id);
}

async function placements(namespace, time) {
  const answer = await get(within(namespace, "decisions"), { ...time.query, fieldSelector: "status.state=Bound", limit: PLACED });
  const rows = answer.items.map((item) => [
    podLink(item.spec.pod.namespace, item.spec.pod.name, item.metadata.name), nodeLink(item.status.node), ago(item.spec.times.startedAt),
  ]);
  if (!rows.length) return { body: el("p", { class: "quiet" }, `No placement is recorded ${time.words}.`) };
  return { body: [table("Last placements", [["Pod"], ["Node"], ["When"]], rows), el("p", {}, link("decisions", { namespace, ...time.link }, "All decisions"))] };
}

async function pressure(time) {
  const { items } = await get("nodehistories", { ...time.query, limit: READ });
  const rejecting = items.filter((node) => node.evaluated > node.feasible);
  rejecting.sort((a, b) => share(b) - share(a) || b.evaluated - a.evaluated || byName(a.metadata.name, b.metadata.name));
  const shown = rejecting.slice(0, PRESSED);
  const reasons = await Promise.all(shown.map((node) => get(path("nodehistories", node.metadata.name), { since: time.query.since }).then(mostly, () => "–")));
  const rows = shown.map((node, i) => [
    nodeLink(node.metadata.name), [bar(share(node)), percent(share(node)), el("span", { class: "quiet" }, ` of ${number(node.evaluated)}`)], reasons[i],
  ]);
  if (!rows.length) return { body: el("p", { class: "quiet" }, `No node rejected a pod ${time.words}.`) };
  return { body: [table("Nodes that reject most", [["Node"], ["Rejected", "plotted"], ["Mostly for"]], rows), el("p", {}, link("node", time.link, "All nodes"))] };
}

function share(node) {
  return node.evaluated ? 1 - node.feasible / node.evaluated : 0;
}

function mostly(answer) {
  const reasons = answer.filters.flatMap((filter) => filter.reasons);
  return reasons.sort((a, b) => b.count - a.count)[0]?.text ?? "–";
}

async function agreement(namespace, time) {
  const answer = await get(within(namespace, "agreements"), time.query);
  if (!answer.schedulers.length) return { body: null };
  const rows = answer.schedulers.map((one) => [
    one.scheduler, number(one.outcomes), [bar((one.agree + one.agreeInWindow) / one.outcomes), percent((one.agree + one.agreeInWindow) / one.outcomes)],
    one.disagree ? link("disagreements", { namespace, profile: one.scheduler, ...time.link }, number(one.disagree)) : "0", number(one.unknown),
  ]);
  return { body: table("Agreement of the observer", [["Scheduler"], ["Outcomes", "number"], ["Agree", "plotted"], ["Disagree", "number"], ["Unknown", "number"]], rows) };
}
