// Four small time charts. Plotly is large and comes late; until then the figures above them say it all.

import { byId, el } from "./dom.js";
import { localStamp } from "./format.js";
import { read } from "./api.js";

const CHARTS = [
  { id: "chart-cost", value: (point) => point.cost_per_hour_micros / 1e6, floor: 0 },
  { id: "chart-carbon", value: (point) => point.carbon_g_per_hour / 1000, floor: 0 },
  { id: "chart-slo", value: sloOf, ceiling: 100, unit: "%" },
  { id: "chart-used", value: (point) => point.used * 100, floor: 0, ceiling: 100, whole: true, unit: "%" },
];
const MOST = 1800;
// Drawing four charts is dear, and an hour's line does not change in a second.
const EVERY_MS = 4000;
const DRAWN = 400;

function sloOf(point) {
  return point.slo_attainment === undefined || point.slo_attainment === null ? null : point.slo_attainment * 100;
}

let points = [];
let asked = 0;

// The script is large, so it is asked for only after the figures are on the page.
export function loadCharts() {
  document.head.append(el("script", { src: "/static/plotly.min.js", onload: drawCharts }));
}

export async function refreshCharts() {
  if (Date.now() - asked < EVERY_MS) return;
  asked = Date.now();
  const since = points.length ? points.at(-1).at_s + 0.001 : 0;
  const page = await read(`/v1/history?since_s=${since}`);
  if (page.items.length && points.length && page.items[0].at_s < points.at(-1).at_s) points = [];
  points = [...points, ...page.items].slice(-MOST);
  drawCharts();
}

export function drawCharts() {
  if (!window.Plotly || points.length === 0) return;
  const style = getComputedStyle(document.documentElement);
  const step = Math.ceil(points.length / DRAWN);
  const drawn = points.filter((_, index) => (points.length - 1 - index) % step === 0);
  const x = drawn.map((point) => localStamp(point.at_s));
  for (const chart of CHARTS) {
    const y = drawn.map(chart.value);
    window.Plotly.react(byId(chart.id), [trace(x, y, style)], layout(chart, y, style), {
      displayModeBar: false, responsive: true, staticPlot: false, scrollZoom: false,
    });
  }
}

function trace(x, y, style) {
  return { x, y, type: "scatter", mode: x.length > 1 ? "lines" : "markers", hovertemplate: "%{y:.4~g}<extra></extra>",
    line: { color: style.getPropertyValue("--accent").trim(), width: 1.4 }, marker: { size: 4 }, connectgaps: false };
}

function layout(chart, y, style) {
  const dim = style.getPropertyValue("--dim").trim();
  const line = style.getPropertyValue("--line").trim();
  const known = y.filter((value) => value !== null);
  const [low, high] = known.length ? [Math.min(...known), Math.max(...known)] : [0, 1];
  const axis = { fixedrange: true, color: dim, tickfont: { size: 9.5, color: dim }, gridcolor: line, zeroline: false };
  return {
    margin: { l: 40, r: 4, t: 4, b: 16 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent", showlegend: false,
    autosize: true, dragmode: false, hovermode: "x", font: { family: "inherit" },
    xaxis: { ...axis, showgrid: false, nticks: 4, tickformat: "%H:%M", hoverformat: "%a %H:%M:%S" },
    yaxis: { ...axis, nticks: 3, tickformat: "~s", ticksuffix: chart.unit ?? "", range: rangeOf(chart, low, high) },
  };
}

function rangeOf(chart, low, high) {
  if (chart.whole) return [chart.floor, chart.ceiling];
  const margin = Math.max((high - low) * 0.15, Math.abs(high) * 0.01, 0.01);
  return [Math.max(chart.floor ?? -Infinity, low - margin), Math.min(chart.ceiling ?? Infinity, high + margin)];
}
