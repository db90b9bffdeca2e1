// The panel that explains one workload: where it stands, what spoke against each pool, what it costs, what was decided.

import { byId, el } from "./dom.js";
import { kilograms, money, ranges, shortTime, time } from "./format.js";
import { read } from "./api.js";

let asked = "";

export function prepareWhy() {
  byId("why-close").addEventListener("click", () => byId("why").close());
  byId("why").addEventListener("click", (event) => {
    if (event.target === byId("why")) byId("why").close();
  });
}

export async function explain(name, currency) {
  asked = name;
  const path = `/v1/workloads/${encodeURIComponent(name)}/why`;
  byId("why-title").textContent = name;
  byId("why-data").href = path;
  byId("why-body").replaceChildren(el("p", { class: "dim" }, "Asking …"));
  if (!byId("why").open) byId("why").showModal();
  let parts;
  try {
    parts = shown(await read(path), currency);
  } catch (problem) {
    parts = [el("p", { class: "reason" }, `${problem.message} ${problem.remedy ?? ""}`)];
  }
  if (asked === name) byId("why-body").replaceChildren(...parts);
}

function shown(why, currency) {
  return [
    el("p", { class: "lead" }, why.headline || `${why.type}, tenant ${why.tenant}: ${why.phase}`),
    why.eta_s ? el("p", {}, eta(why)) : null,
    why.eta && why.eta.start.highest_s > why.now_s ? el("p", {}, `Expected to start ${ranges(why.eta.start)}`) : null,
    why.eta?.finish ? el("p", {}, `Expected to end ${ranges(why.eta.finish)}`) : null,
    why.scaling ? el("p", {}, why.scaling) : null,
    ...reasons(why.lines ?? []),
    ...home(why.placement, currency),
    ...journal(why.journal ?? []),
  ].filter((part) => part !== null);
}

function eta(why) {
  const range = why.eta_low_s && why.eta_high_s
    ? ` (9 of 10 times between ${shortTime(why.eta_low_s)} and ${shortTime(why.eta_high_s)})` : "";
  return `Expected start ${shortTime(why.eta_s)}${range}${why.eta_note ? `, ${why.eta_note}` : ""}`;
}

function reasons(lines) {
  if (!lines.length) return [];
  const rows = lines.map((line) =>
    el("tr", {}, el("td", { class: "kind" }, line.where),
      el("td", {}, line.sentence, el("div", { class: "dim small" }, line.remedy ?? "")),
      el("td", { class: "reason" }, line.reason ?? "")));
  return [el("h3", {}, "Places it looked at"), el("table", {}, el("tbody", {}, ...rows))];
}

function home(placement, currency) {
  if (!placement) return [];
  const bill = placement.bill ?? {};
  const terms = [["Where", `${placement.cluster}/${placement.pool} · ${placement.class_name} · ${placement.mode} · ${placement.capacity}`],
    ["Decided", time(placement.decided_s)]];
  for (const [name, label] of [["direct", "Price"], ["energy", "Energy"], ["carbon", "Carbon price"], ["sla", "SLA risk"],
    ["rework", "Rework"], ["migration", "Migration"], ["traffic", "Traffic"],
    ["warm_saved", "Saved, model is there"], ["data_saved", "Saved, data is there"]])
    if (bill[name]) terms.push([label, `${money(bill[name])} ${currency}`]);
  if (bill.carbon_g) terms.push(["CO₂e", `${kilograms(bill.carbon_g)} kg`]);
  return [el("h3", {}, "Its home and its bill"),
    el("dl", { class: "terms" }, ...terms.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]))];
}

function journal(entries) {
  if (!entries.length) return [];
  const rows = [...entries].reverse().slice(0, 12).map((entry) =>
    el("tr", {}, el("td", { class: "num dim" }, time(entry.at_s)), el("td", { class: "kind" }, entry.decision.kind),
      el("td", {}, told(entry.decision))));
  return [el("h3", {}, "Decisions, newest first"), el("table", {}, el("tbody", {}, ...rows))];
}

function told(decision) {
  const to = decision.placement;
  if (to) return `${to.cluster}/${to.pool} on ${to.class_name}, generation ${to.generation}`;
  if (decision.verdicts) return decision.verdicts.map((verdict) => `${verdict.where} ${verdict.reason ?? "fits"}`).join(", ");
  return decision.node ? `node ${decision.node}` : (decision.reason?.reason ?? decision.reason ?? "");
}
