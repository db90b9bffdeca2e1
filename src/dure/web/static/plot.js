// Time charts with Plotly, which is large and therefore asked for only when there is something to draw.

import { byId, el } from "./dom.js";
import { localStamp } from "./format.js";

const wanted = new Map();
let asked = false;

// `series`: [{ name, colour, points: [[seconds, value]], kind: "bar" | "line" | "band", low, high }]
// `paint` is called for a colour that is none of the page's own; `dots` marks every point.
export function plot(id, series, options = {}) {
  wanted.set(id, { series, options });
  if (window.Plotly) draw(id);
  else if (!asked) {
    asked = true;
    document.head.append(el("script", { src: "/static/plotly.min.js", onload: redrawPlots }));
  }
}

export function redrawPlots() {
  if (window.Plotly) for (const id of wanted.keys()) draw(id);
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw(id) {
  const { series, options } = wanted.get(id);
  const traces = series.flatMap((one) => (one.kind === "band" ? band(one) : [trace(one)]));
  window.Plotly.react(byId(id), traces, layout(options), { displayModeBar: false, responsive: true });
}

function trace(one) {
  const x = one.points.map(([at]) => localStamp(at));
  const y = one.points.map(([, value]) => value);
  const colour = one.paint ? one.paint() : ink(one.colour);
  if (one.kind === "bar") return { x, y, name: one.name, type: "bar", marker: { color: colour }, hovertemplate: "%{y:.4~s}" };
  return { x, y, name: one.name, type: "scatter", mode: one.dots ? "lines+markers" : "lines", connectgaps: false, hovertemplate: "%{y:.4~s}",
    marker: { size: 4, color: colour }, line: { color: colour, width: 1.4, dash: one.dash ?? "solid", shape: one.shape ?? "linear" } };
}

function band(one) {
  const x = one.points.map(([at]) => localStamp(at));
  const edge = { x, type: "scatter", mode: "lines", line: { width: 0 }, showlegend: false, hoverinfo: "skip" };
  return [{ ...edge, y: one.points.map(([, low]) => low) },
    { ...edge, y: one.points.map(([, , high]) => high), fill: "tonexty", fillcolor: faint(ink(one.colour)) }];
}

// Plotly knows no color-mix: `#4cb8aa` at a fifth of its strength.
function faint(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => Number.parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${red}, ${green}, ${blue}, 0.2)`;
}

function layout(options) {
  const [dim, line] = [ink("--dim"), ink("--line")];
  const axis = { fixedrange: true, color: dim, tickfont: { size: 10, color: dim }, gridcolor: line, zeroline: false };
  return {
    margin: { l: 46, r: 6, t: 6, b: 34 }, paper_bgcolor: "transparent", plot_bgcolor: "transparent", autosize: true, dragmode: false,
    barmode: "stack", bargap: 0.08, hovermode: "x unified", font: { family: "inherit" }, showlegend: options.legend ?? true,
    hoverlabel: { bgcolor: ink("--panel"), bordercolor: line, font: { color: ink("--text"), size: 11 } },
    legend: { orientation: "h", y: 1.12, x: 0, font: { size: 10.5, color: dim } },
    xaxis: { ...axis, showgrid: false, nticks: window.innerWidth < 640 ? 5 : 7, tickangle: 0, type: "date" },
    yaxis: { ...axis, nticks: 4, tickformat: options.ticks ?? "~s", rangemode: options.floor === false ? "normal" : "tozero" },
  };
}
