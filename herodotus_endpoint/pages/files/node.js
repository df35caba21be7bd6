// A node: how often it was considered, passed, won and lost, and what carries it. Without a name: all nodes.

import { clusterNodes, get, path } from "./api.js";
import { el, facts, field, form, link, namespaceLink, nodeLink, podLink, section, table } from "./dom.js";
import { bar, columns } from "./plots.js";
import { ago, byName, count, full, more, number, percent, signed, state, WINDOWS } from "./words.js";

const DAY = "86400";
const LISTED = 100;
const READ = 500; // nodes of a zone
const ZONE = "topology.kubernetes.io/zone";

export async function view(params) {
  const since = params.get("since") ?? DAY;
  const name = (params.get("name") ?? "").trim();
  return name ? one(name, since) : all(since, params.get("continue") ?? "", (params.get("zone") ?? "").trim());
}

/** All nodes page by page, or those of a zone, which is a label that the nodes have now. */
async function all(since, after, zone) {
  const [answer, there] = await Promise.all([
    get("nodehistories", { since, limit: zone ? READ : LISTED, continue: after }),
    zone ? clusterNodes({ labelSelector: `${ZONE}=${zone}` }) : null,
  ]);
  const members = there && new Set(there.map((node) => node.name));
  const next = answer.metadata.continue;
  const items = answer.items.filter((node) => !members || members.has(node.metadata.name)).sort((a, b) => byName(a.metadata.name, b.metadata.name));
  const said = !zone ? "" : members ? `${count(items.length, "node")} in this zone ${items.length === 1 ? "has" : "have"} a history.` : "Zones are labels of the nodes, which cannot be read here: all nodes are listed.";
  const rows = items.map((node) => [
    nodeLink(node.metadata.name, { since }),
    number(node.considered), number(node.evaluated), number(node.feasible), number(node.chosen),
    [bar(node.evaluated ? node.chosen / node.evaluated : 0), percent(node.evaluated ? node.chosen / node.evaluated : null)],
  ]);
  const heads = [["Node"], ["Considered", "number"], ["Evaluated", "number"], ["Feasible", "number"], ["Chosen", "number"], ["Chosen of evaluated", "plotted"]];
  return { title: "Nodes", body: [el("h1", {}, zone ? [el("span", { class: "kind" }, "Zone "), zone] : "Nodes"), choose("", since), said ? el("p", { class: "answer" }, said) : "",
    rows.length ? table("Nodes", heads, rows) : el("p", { class: "answer" }, "No node has a history yet."),
    next ? el("nav", { class: "pages", "aria-label": "More nodes" }, link("node", { since, continue: next, zone }, "More nodes")) : ""] };
}

function choose(name, since) {
  return form("node", "Choose a node and a time", field("name", "Node", name, null, { hint: "all", names: "nodes" }), field("since", "Time", since, WINDOWS));
}

async function one(name, since) {
  const [answer, found] = await Promise.all([get(path("nodehistories", name), { since }), clusterNodes({ fieldSelector: `metadata.name=${name}` })]);
  const zone = found?.find((node) => node.name === name)?.labels?.[ZONE];
  const { won, lost } = answer;
  return { title: `Node ${name}`, body: [
    el("h1", {}, el("span", { class: "kind" }, "Node "), name),
    el("p", { class: "answer" }, headline(answer)),
    zone ? el("p", {}, "Zone ", link("node", { zone }, zone)) : "",
    choose(name, since),
    over(answer),
    section("Wins and losses", facts([
      ["Won", `${number(won.count)}, ${number(won.contested)} against other feasible nodes, ${number(won.ties)} tied`],
      ["Ahead by", won.meanMargin === null ? null : `${number(won.meanMargin, 1)} points on average`],
      ["Lost", `${number(lost.count)}${lost.meanBehind === null ? "" : `, ${number(lost.meanBehind, 1)} points behind on average`}`],
      ["Equal share", fair(answer.share)],
    ]), carries(won, lost)),
    section("Filter results", filters(answer.filters)),
    section("Workloads placed on this node", workloads(answer)),
    section("Recent decisions", recent(answer)),
  ] };
}

function headline(answer) {
  if (!answer.considered) return "No decision considered this node in that time.";
  const share = answer.evaluated ? answer.chosen / answer.evaluated : null;
  return `Considered ${count(answer.considered, "time")}, evaluated ${number(answer.evaluated)}: feasible in ${percent(answer.eligibility.rate)} of those, and chosen ${count(answer.chosen, "time")} (${percent(share)}).`;
}

function fair(share) {
  return share.nodes ? `${number(share.placements / share.nodes, 1)} of ${count(share.placements, "placement")} if ${count(share.nodes, "node")} were alike` : null;
}

function over(answer) {
  const told = answer.overTime ?? [];
  if (told.length < 2) return "";
  const points = told.map((hour) => ({ at: full(hour.from).slice(0, 16), values: [hour.chosen, hour.feasible - hour.chosen, hour.evaluated - hour.feasible] }));
  return columns("Decisions over time", points, [["chosen", "won"], ["feasible, another node won", "lost"], ["rejected", "rejected"]]);
}

function carries(won, lost) {
  const carried = Object.entries(won.carriedBy);
  const costs = Object.entries(lost.costsMost);
  const rows = [...new Set([...carried, ...costs].map(([plugin]) => plugin))].map((plugin) => [
    plugin,
    [bar((won.carriedBy[plugin] ?? 0) / Math.max(1, won.contested)), number(won.carriedBy[plugin] ?? 0)],
    lost.costsMost[plugin] === undefined ? "–" : signed(lost.costsMost[plugin], 1),
  ]);
  return rows.length ? table("Score plugins", [["Plugin"], ["Decided wins", "plotted"], ["Points relative to the winner in losses", "number"]], rows) : "";
}

function filters(told) {
  const rows = told.map((filter) => [
    filter.plugin,
    [bar(filter.rate ?? 0), percent(filter.rate)],
    number(filter.rejected), number(filter.decisive),
    filter.reasons.map((reason) => `${reason.text} ${number(reason.count)}`).join(", "),
  ]);
  return rows.length ? table("Filters", [["Filter"], ["Pass rate", "plotted"], ["Rejected", "number"], ["First failure", "number"], ["Reasons"]], rows) : el("p", { class: "quiet" }, "No filter evaluated it.");
}

function workloads(answer) {
  const kept = new Map(answer.keepsGetting.map((row) => [row.workload, Object.entries(row.decidedBy).map(([by, n]) => `${by} ${number(n)}`).join(", ")]));
  const rows = answer.workloads.map((row) => {
    const name = row.namespace ? `${row.namespace}/${row.workload}` : row.workload;
    return [row.namespace ? [namespaceLink(row.namespace), "/", placedOf(row)] : name, number(row.count), kept.get(name) ?? ""];
  });
  if (!rows.length) return el("p", { class: "quiet" }, "None in that time.");
  return [table("Workloads", [["Workload"], ["Pods", "number"], ["Decided by"]], rows), el("p", { class: "quiet" }, more(answer.workloadsOmitted))];
}

function recent(answer) {
  const rows = answer.recent.map((decision) => [
    podLink(decision.namespace, decision.pod, decision.id, { node: answer.metadata.name }),
    state(decision.state),
    decision.result === "rejected" ? `rejected by ${decision.rejectedBy}` : decision.result === "not-evaluated" ? `not evaluated (${decision.why})` : decision.result,
    decision.points === undefined || decision.points === null ? "–" : `${number(decision.points)} ${decision.result === "lost" ? "behind" : "ahead"}${decision.decidedBy ? ` (${decision.decidedBy})` : ""}`,
    ago(decision.startedAt),
  ]);
  return rows.length ? table("Recent decisions", [["Pod"], ["Outcome"], ["This node"], ["Points"], ["Started"]], rows) : el("p", { class: "quiet" }, `None among the newest ${answer.recentOf} decisions.`);
}

/** A link to a workload's page, or to the decision about a pod without an owner. */
function placedOf({ namespace, workload }) {
  const [kind, name] = workload.split("/");
  return kind === "Pod" ? link("decision", { namespace, name }, workload) : link("workload", { namespace, workload }, workload);
}
