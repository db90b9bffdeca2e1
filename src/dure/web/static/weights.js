// The weights that placement learns: the three of now in a table, how they went in a chart.

import { byId, el, keyed, setText } from "./dom.js";
import { localStamp, number } from "./format.js";
import { read } from "./api.js";

// A window lasts an hour of the fleet's clock; asking more often than this would only repeat it.
const EVERY_MS = 5000;
const MOST_PRICES = 4;
const COLOURS = ["--accent", "--dim"];
let history = null;
let asked = 0;

export async function refreshWeights() {
  if (Date.now() - asked < EVERY_MS) return;
  asked = Date.now();
  history = await read("/v1/weights");
  showWeights();
}

function showWeights() {
  const points = history.points ?? [];
  byId("weights").hidden = points.length === 0;
  if (!points.length) return;
  const last = points.at(-1);
  setText(byId("weights-note"), `${history.method ?? "rule"}, 1 is neutral; moved after every hour, ${points.length} so far`);
  const rows = [
    { name: "SLO", value: last.slo, seen: last.missed ?? null, what: "missed" },
    { name: "Locality", value: last.locality, seen: last.reused ?? null, what: "reused" },
    ...farthest(last).map((key) => ({ name: key, value: last.congestion[key], seen: last.use?.[key] ?? null, what: "in use" })),
  ];
  keyed(byId("weights-now"), rows, (row) => row.name, () =>
    el("tr", {}, el("td", { class: "kind" }), el("td", { class: "num right" }), el("td", { class: "dim right" })),
  (node, row) => {
    setText(node.children[0], row.name);
    setText(node.children[1], row.value.toFixed(2));
    setText(node.children[2], row.seen === null ? "" : `${number(row.seen * 100)} % ${row.what}`);
  });
  drawWeights();
}

// Of many congestion prices those that are farthest from neutral.
function farthest(point) {
  const prices = point.congestion ?? {};
  return Object.keys(prices).sort((a, b) => Math.abs(Math.log(prices[b])) - Math.abs(Math.log(prices[a])) || a.localeCompare(b))
    .slice(0, MOST_PRICES);
}

export function drawWeights() {
  const points = history?.points ?? [];
  if (!window.Plotly || points.length === 0) return;
  const style = getComputedStyle(document.documentElement);
  const x = points.map((point) => localStamp(point.at_s));
  const shown = [["SLO", (point) => point.slo], ["locality", (point) => point.locality],
    ...farthest(points.at(-1)).map((key) => [key, (point) => point.congestion?.[key] ?? null])];
  const traces = shown.map(([name, value], index) => ({
    x, y: points.map(value), name, type: "scatter", mode: points.length > 1 ? "lines" : "markers",
    hovertemplate: "%{y:.2f}<extra>%{fullData.name}</extra>",
    line: { width: index < 2 ? 1.8 : 1, dash: index < 2 ? "solid" : "dot",
      ...(index < COLOURS.length ? { color: style.getPropertyValue(COLOURS[index]).trim() } : {}) },
  }));
  window.Plotly.react(byId("chart-weights"), traces, layout(style), { displayModeBar: false, responsive: true });
}

function layout(style) {
  const dim = style.getPropertyValue("--dim").trim();
  const axis = { fixedrange: true, color: dim, tickfont: { size: 9.5, color: dim }, zeroline: false,
    gridcolor: style.getPropertyValue("--line").trim() };
  return {
    margin: { l: 30, r: 4, t: 4, b: 16 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent", showlegend: false,
    autosize: true, dragmode: false, hovermode: "x", font: { family: "inherit" },
    xaxis: { ...axis, showgrid: false, nticks: 4, tickformat: "%H:%M" },
    yaxis: { ...axis, nticks: 4, tickformat: ".2~f" },
  };
}
