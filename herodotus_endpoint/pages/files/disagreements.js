// What other schedulers did, held against what an observer makes of it: rates, causes, and what does not follow.

import { get, within } from "./api.js";
import { el, facts, field, form, nodeLink, podLink, section, table, withNodes } from "./dom.js";
import { bar, bars } from "./plots.js";
import { TimeRange } from "./timerange.js";
import { ago, count, full, more, number, OBSERVE, percent } from "./words.js";

const CAUSES = ["sampling", "extenders", "stale-view", "unknown-plugin", "image-counts", "batching", "unexplained"];

export async function view(params) {
  const asked = Object.fromEntries(["namespace", "profile", "cause"].map((name) => [name, (params.get(name) ?? "").trim()]));
  const time = new TimeRange("disagreements", params);
  const answer = await get(within(asked.namespace, "agreements"), { ...time.query, profile: asked.profile });
  const told = answer.disagreements.filter((one) => !asked.cause || one.cause === asked.cause);
  const body = [
    el("h1", {}, "Disagreements"),
    el("p", { class: "answer" }, headline(answer, time)),
    time.presets(),
    form("disagreements", "Filter disagreements",
      field("namespace", "Namespace", asked.namespace, null, { hint: "all", names: "namespaces" }),
      field("profile", "Scheduler", asked.profile, null, { hint: "all", names: "profiles" }),
      field("cause", "Cause", asked.cause, [["", "any"], ...CAUSES.map((cause) => [cause, cause])]),
      ...time.fields()),
  ];
  if (!answer.schedulers.length) return { title: "Disagreements", body: [...body, el("p", { class: "quiet" }, `No decisions of other schedulers were observed. To observe one: ${OBSERVE} (docs/observer.md)`)] };
  body.push(section("Schedulers", rates(answer.schedulers)));
  if (answer.causes.length) body.push(bars("By cause", answer.causes.map((one) => ({ name: one.cause, value: one.outcomes })), "outcomes"), key(answer.causes));
  body.push(section("Disagreements", told.length ? outcomes(told) : el("p", { class: "quiet" }, asked.cause ? "None with this cause." : "Nothing."), el("p", { class: "quiet" }, more(answer.disagreementsOmitted))));
  body.push(facts([["From", full(answer.since)], ["To", full(answer.until)], ["Decisions", answer.complete ? "all" : "the newest only"]]));
  return { title: "Disagreements", body };
}

function headline(answer, time) {
  const outcomes = sum(answer.schedulers, "outcomes");
  if (!outcomes) return `No decision of another scheduler was observed ${time.words}.`;
  const agree = sum(answer.schedulers, "agree") + sum(answer.schedulers, "agreeInWindow");
  const [not, unknown] = [sum(answer.schedulers, "disagree"), sum(answer.schedulers, "unknown")];
  const rest = unknown ? `, and of ${number(unknown)} nothing can be said` : "";
  return `${percent(agree / outcomes)} of ${count(outcomes, "outcome")} follow from the cluster as it was seen; ${not ? number(not) : "none"} ${not === 1 ? "does" : "do"} not${rest}.`;
}

function rates(schedulers) {
  const columns = [["Scheduler"], ["Outcomes", "number"], ["Agree", "plotted"], ["With events in flight", "plotted"], ["Disagree", "plotted"], ["Unknown", "plotted"]];
  const rows = schedulers.map((one) => [
    one.scheduler, number(one.outcomes),
    ...["agree", "agreeInWindow", "disagree", "unknown"].map((kind) => [bar(one[kind] / one.outcomes), `${number(one[kind])} (${percent(one[kind] / one.outcomes)})`]),
  ]);
  return table("Rates by scheduler", columns, rows);
}

function key(causes) {
  return el("ul", { class: "quiet" }, causes.map((one) => el("li", {}, el("b", {}, one.cause), `: ${one.text}`)));
}

function outcomes(told) {
  const columns = [["Pod"], ["Scheduler"], ["Node"], ["Cause"], ["Observed"], ["Evaluated", "long"]];
  const rows = told.map((one) => [
    podLink(one.namespace, one.pod, one.id),
    one.scheduler,
    one.node ? nodeLink(one.node) : "–",
    one.cause,
    ago(one.at),
    one.headline ? el("span", {}, withNodes(one.headline, [one.node])) : "no longer kept",
  ]);
  return table("Disagreements, newest first", columns, rows);
}

function sum(schedulers, kind) {
  return schedulers.reduce((all, one) => all + one[kind], 0);
}
