// The life of one device: a row for each workload that held a part of it, on a canvas; the newest day is shown.

import { byId, setText } from "./dom.js";
import { read } from "./api.js";
import { count, shortTime } from "./format.js";
import { colour, isDark } from "./tenants.js";

const SPAN_S = 86400;
let shown = null;

export async function showDevice(cluster, device, now) {
  const path = `/v1/clusters/${encodeURIComponent(cluster)}/devices/${encodeURIComponent(device)}/timeline`;
  byId("device-json").href = path;
  byId("device-csv").href = `${path}.csv`;
  const { items } = await read(path);
  shown = { items, now };
  const last = items.at(-1);
  setText(byId("device-note"), items.length
    ? `${count(items.length, "stretch").replace("stretchs", "stretches")} known; last held by ${last.workload} (${last.tenant || "unknown tenant"})`
    : "nobody has held it since the journal begins");
  drawDevice();
}

export function drawDevice() {
  const canvas = byId("device-line");
  const width = canvas.clientWidth;
  if (!shown || !width) return;
  const height = 74;
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  const style = getComputedStyle(document.documentElement);
  const first = Math.max(shown.now - SPAN_S, shown.items[0]?.since_s ?? shown.now - SPAN_S);
  const x = (at) => Math.max(0, Math.min(1, (at - first) / Math.max(1, shown.now - first))) * width;
  pen.fillStyle = style.getPropertyValue("--free");
  pen.fillRect(0, 4, width, 44);
  for (const one of shown.items) {
    const until = one.until_s ?? shown.now;
    if (until < first) continue;
    const tall = Math.max(3, (one.milli / 1000) * 44);
    pen.fillStyle = colour(one.tenant, isDark());
    pen.fillRect(x(one.since_s), 4 + stacked(one) * 44, Math.max(1, x(until) - x(one.since_s) - 0.5), tall);
  }
  pen.fillStyle = style.getPropertyValue("--dim");
  pen.font = "11px system-ui";
  for (let step = 0; step <= 4; step += 1) {
    const at = first + ((shown.now - first) * step) / 4;
    pen.textAlign = step === 0 ? "left" : step === 4 ? "right" : "center";
    pen.fillText(shortTime(at), (width * step) / 4, 66);
  }
}

// Those who held a part at the same time stand below each other.
function stacked(one) {
  let top = 0;
  for (const other of shown.items) {
    if (other === one) break;
    if (other.since_s <= one.since_s && (other.until_s ?? Infinity) > one.since_s) top += other.milli / 1000;
  }
  return Math.min(top, 1 - one.milli / 1000 < 0 ? 0 : top) % 1;
}
