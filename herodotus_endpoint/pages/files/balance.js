// Why pods spread over nodes as they do; with weights, who would have won.

import { get } from "./api.js";
import { el, facts, field, form, nodeLink, podLink, query, section, table } from "./dom.js";
import { bar, bars, columns } from "./plots.js";
import { TimeRange } from "./timerange.js";
import { byName, count, full, more, number, percent } from "./words.js";

export async function view(params) {
  const time = new TimeRange("balance", params);
  const asked = { ...time.query, weights: (params.get("weights") ?? "").replaceAll(" ", ""), profile: (params.get("profile") ?? "").trim() };
  const answer = await get("balances", asked);
  const weighed = answer.weights !== null;
  const body = [
    el("h1", {}, "Balance"),
    el("p", { class: "answer" }, answer.headline),
    time.presets(),
    form("balance", "Choose a time and weights", ...time.fields(), field("profile", "Profile", asked.profile, null, { hint: "all", names: "profiles" }), field("weights", "Other weights", asked.weights, null, { hint: "NodeResourcesFit=5,ImageLocality=0" })),
  ];
  if (!answer.decisions) return { title: "Balance", body };
  const rows = answer.nodes.filter((node) => node.won || node.wouldWin).sort((a, b) => b.won - a.won || byName(a.node, b.node)).map((node) => ({ name: node.node, value: node.won, mark: weighed ? node.wouldWin : node.expected, to: query("node", { name: node.node, ...time.link }) }));
  body.push(
    bars("Nodes that won pods", rows, "won", weighed ? "with the other weights" : "expected if all feasible nodes scored the same"),
    over(answer),
    section("Deciding plugins", decided(answer)),
    el("details", {}, el("summary", {}, `Each node: ${count(answer.nodes.length, "node")}${more(answer.nodesOmitted)}`), table("Nodes", nodeColumns(weighed), answer.nodes.map((node) => told(node, time, weighed)))),
  );
  if (weighed) body.push(section("Pods that would move", moves(answer)));
  body.push(facts([["Sample", `${number(answer.decisions)} placed pods${answer.complete ? "" : ", the newest only"}`], ["From", full(answer.since)], ["To", full(answer.to)]]));
  return { title: "Balance", body };
}

function over(answer) {
  const told = answer.overTime ?? [];
  if (told.length < 2) return "";
  const points = told.map((span) => ({ at: full(span.from), values: [span.most, span.placed - span.most] }));
  return columns("Placements over time", points, [["the node with the most", "won"], ["the other nodes", "lost"]]);
}

function decided(answer) {
  const rows = answer.plugins.map((plugin) => [
    plugin.plugin, `× ${plugin.weight}`, [bar(plugin.decided / answer.decisions), number(plugin.decided)], number(plugin.movesWithout),
  ]);
  rows.push(...Object.entries(answer.otherReasons).map(([by, n]) => [by, "", [bar(n / answer.decisions), number(n)], "–"]));
  return table("Deciding plugins", [["Plugin"], ["Weight", "number"], ["Decided", "plotted"], ["Changed winner", "number"]], rows);
}

function nodeColumns(weighed) {
  return [["Node"], ["Feasible", "number"], ["Expected", "number"], ["Won", "number"], ["Share", "number"], ...(weighed ? [["Would win", "number"]] : []), ["Decided by"]];
}

function told(node, time, weighed) {
  const by = Object.entries(node.decidedBy).map(([plugin, n]) => `${plugin} ${number(n)}`).join(", ");
  return [nodeLink(node.node, time.link), number(node.fit), number(node.expected, 1), number(node.won), percent(node.share), ...(weighed ? [number(node.wouldWin, 1)] : []), by];
}

function moves(answer) {
  if (!answer.moves.length) return el("p", { class: "quiet" }, "None.");
  const rows = answer.moves.map((move) => [podLink(move.namespace, move.pod, move.id), nodeLink(move.from), move.to ? nodeLink(move.to) : `drawn among ${number(move.drawnAmong)}`]);
  return [table("Moves", [["Pod"], ["From"], ["To"]], rows), el("p", { class: "quiet" }, more(answer.movesOmitted))];
}
