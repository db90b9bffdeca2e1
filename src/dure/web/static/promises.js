// Promises to users and what is out of the ordinary: budgets, anomalies with evidence, sizes, queues, weights, drift.

import { byId, el, keyed, setText } from "./dom.js";
import { percent, shortTime, day, span } from "./format.js";
import { read, readIfMay } from "./api.js";
import { explain } from "./why.js";
import { currency, startView } from "./view.js";
import { plot, redrawPlots } from "./plot.js";
import { showQueues } from "./lengths.js";

const COLOURS = ["--accent", "--warn", "--dim", "--bad", "--text"];

async function show(status) {
  const [slo, anomalies, changes, drift, history, weights, queues] = await Promise.all([
    read("/v1/slo"), readIfMay("/v1/anomalies", "anomalies"), readIfMay("/v1/changes?limit=100", "changes"), readIfMay("/v1/drift", "drift"),
    read(`/v1/history?since_s=${status.now_s - 2 * 86400}`), read("/v1/weights"), read("/v1/queues"),
  ]);
  showBudgets(slo.items);
  showRows("anomalies", (anomalies?.items ?? []).slice(0, 40), (one) => `${one.thing}/${one.since_s}`, (one) =>
    [one.thing, stamp(one.since_s), `${one.evidence}. ${one.until_s > one.since_s ? `Lasted ${span(one.until_s - one.since_s)}.` : ""}`]);
  showRows("changes", changes?.items ?? [], (one) => `${one.at_s}/${one.what}`, (one) =>
    [`${one.cluster ? `${one.cluster}/` : ""}${one.what}: ${one.kind === "reallocation" ? "" : `${one.before} → `}${one.after} ${one.kind}`, stamp(one.at_s), one.reason]);
  showDrift(drift?.items ?? []);
  plot("chart-queue", [
    { name: "running", colour: "--accent", points: history.items.map((one) => [one.at_s, one.running]), shape: "hv" },
    { name: "waiting", colour: "--warn", points: history.items.map((one) => [one.at_s, one.held]), shape: "hv" },
  ]);
  showWeights(weights.points ?? []);
  showQueues(queues.items, status.now_s);
}

const stamp = (at) => `${day(at)} ${shortTime(at)}`;

function showBudgets(items) {
  byId("slo-none").hidden = items.length > 0;
  keyed(byId("slo"), items, (one) => `${one.workload}/${one.promise ?? "in time"}`, (one) =>
    el("tr", {}, el("td", {}, el("button", { type: "button", class: "link", onclick: () => explain(one.workload, currency()) }, one.workload)),
      el("td", { class: "minor" }), el("td"), ...["right num", "right num"].map((kind) => el("td", { class: kind })),
      el("td", {}, el("span", { class: "meter" }, el("i"))), ...["right num", "right num", "right num minor", ""].map((kind) => el("td", { class: kind }))),
  (row, one) => {
    const { state } = one;
    setText(row.children[1], one.tenant);
    setText(row.children[2], one.promise ?? "in time");
    setText(row.children[3], state.attained === null ? "–" : `${percent(state.attained)} %`);
    setText(row.children[4], `${percent(state.target, 1)} %`);
    const left = state.left === null ? 1 : Math.max(0, state.left);
    const bar = row.children[5].firstElementChild;
    bar.title = state.left === null ? "nothing asked yet" : `${percent(state.left, 0)} % left`;
    bar.dataset.level = left <= 0 ? "over" : left < 0.25 ? "near" : "well";
    bar.firstElementChild.style.width = `${Math.max(left * 100, left <= 0 ? 100 : 2)}%`;
    state.burns.forEach((burn, index) => {
      setText(row.children[6 + index], burn.long === null ? "–" : `${burn.long.toFixed(1)}×`);
      row.children[6 + index].dataset.level = burn.firing ? burn.level : "";
    });
    setText(row.children[9], one.level || "well");
    row.children[9].dataset.level = one.level;
  });
}

function showRows(id, items, keyOf, told) {
  byId(`${id}-none`).hidden = items.length > 0;
  keyed(byId(id), items, keyOf, () => el("li", {}, el("b"), el("time", { class: "dim num" }), el("span", { class: "what" })),
    (row, one) => told(one).forEach((text, index) => setText(row.children[index], text)));
}

function showDrift(items) {
  byId("drift-none").hidden = items.length > 0;
  keyed(byId("drift"), items.slice(0, 30), (one) => `${one.what}/${one.group}`, () =>
    el("tr", {}, el("td"), el("td"), ...["right num", "right num", "right num", "dim"].map((kind) => el("td", { class: kind }))),
  (row, one) => {
    const signed = (value) => `${value >= 0 ? "+" : ""}${percent(value, 1)} %`;
    const changed = one.since_s === undefined || one.since_s === null ? "" : `since ${stamp(one.since_s)}: ${signed(one.now ?? 0)}`;
    [one.what, one.group, String(one.pairs), signed(one.bias), `${percent(one.within_20, 0)} %`, changed]
      .forEach((text, index) => setText(row.children[index], text));
  });
}

function showWeights(points) {
  const last = points.at(-1);
  const prices = Object.keys(last?.congestion ?? {}).filter((key) => !key.includes("@"))
    .sort((a, b) => Math.abs(last.congestion[b] - 1) - Math.abs(last.congestion[a] - 1)).slice(0, 3);
  const series = [["SLO", (one) => one.slo], ["locality", (one) => one.locality],
    ...prices.map((key) => [key, (one) => one.congestion[key] ?? 1])];
  plot("chart-prices", series.map(([name, value], index) =>
    ({ name, colour: COLOURS[index], points: points.map((one) => [one.at_s, value(one)]), shape: "hv" })), { floor: false });
}

startView(show, redrawPlots);
