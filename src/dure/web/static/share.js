// One shared device: who ran when on which part of it, squads, bubbles, and the tenants' weights over time.

import { byId, el, keyed, setText } from "./dom.js";
import { read, send } from "./api.js";
import { isDark } from "./tenants.js";
import { locate, paint, paintWeights } from "./timeline.js";

const EVERY_MS = 1000;
const WINDOW_MS = 120;
const MOST_TENANTS = 14;
const HUES = [208, 28, 140, 312, 48, 186, 268, 348, 96, 232];
const state = { chosen: "", status: null, timeline: null, busy: false };

export function prepareShare(tip) {
  byId("share-device").addEventListener("change", (event) => {
    state.chosen = event.target.value;
    refreshShare();
  });
  byId("share-policy").addEventListener("change", (event) => choosePolicy(event.target.value));
  const canvas = byId("share-timeline");
  canvas.addEventListener("mousemove", (event) => {
    const span = state.timeline && locate(canvas, state.timeline, WINDOW_MS, event.offsetX, event.offsetY);
    tip(span ? describe(span) : "", event.clientX, event.clientY);
  });
  canvas.addEventListener("mouseleave", () => tip(""));
  new ResizeObserver(drawShare).observe(canvas.parentElement);
  setInterval(refreshShare, EVERY_MS);
  refreshShare();
}

async function refreshShare() {
  if (state.busy || document.hidden) return;
  state.busy = true;
  try {
    const view = await read(`/v1/share/view?window=${WINDOW_MS}&device=${encodeURIComponent(state.chosen)}`);
    byId("share").hidden = !view.status;
    if (!view.devices.includes(state.chosen)) state.chosen = view.status?.device ?? "";
    // While this was on its way another device may have been chosen: that one comes with the next answer.
    if (!view.status || view.status.device !== state.chosen) return;
    [state.status, state.timeline] = [view.status, view.timeline];
    show(view.devices);
  } catch {
    // The page says elsewhere that Dure does not answer.
  } finally {
    state.busy = false;
  }
}

async function choosePolicy(policy) {
  try {
    state.status = await send("PUT", `/v1/share/policy?device=${encodeURIComponent(state.status.device)}`, { policy });
  } catch (problem) {
    setText(byId("share-note"), problem.message);
  }
  refreshShare();
}

function show(devices) {
  const { status } = state;
  keyed(byId("share-device"), devices, (name) => name, (name) => el("option", { value: name }), setText);
  byId("share-device").value = status.device;
  byId("share-policy").value = status.automatic ? "auto" : status.policy;
  byId("share-data").href = `/v1/share/view?window=1000&device=${encodeURIComponent(status.device)}`;
  const busy = used();
  setText(byId("share-note"), `policy ${status.policy}${status.automatic ? ", chosen by the goals" : ""} · last ${WINDOW_MS} ms of `
    + `the device's own time · ${percent(busy.busy)} of SM time in use, ${percent(busy.bubble)} idle though there was work`);
  byId("share-timeline").setAttribute("aria-label",
    `${status.device}: ${status.tenants.length} tenants, policy ${status.policy}, ${percent(busy.busy)} of SM time in use`);
  keyed(byId("share-tenants"), status.tenants.slice(0, MOST_TENANTS), (tenant) => tenant.name, makeRow, fillRow);
  drawShare();
}

function makeRow() {
  const cell = () => el("td", { class: "num right" });
  return el("tr", {}, el("td", {}, el("span", { class: "tenant" }, el("span", { class: "swatch" }), el("span"))),
    el("td", { class: "minor dim" }), cell(), cell(), cell(), cell());
}

function fillRow(row, tenant) {
  const [name, model, waiting, weight, target, kept] = row.children;
  const [swatch, text] = name.firstElementChild.children;
  swatch.style.background = colourOf(tenant.name);
  setText(text, tenant.name);
  setText(model, tenant.model);
  setText(waiting, String(tenant.waiting));
  setText(weight, tenant.weight.toFixed(2));
  setText(target, tenant.target_ms < 1e6 ? `${tenant.target_ms.toFixed(0)} ms` : "–");
  setText(kept, tenant.attained === null ? "–" : percent(tenant.attained));
}

export function drawShare() {
  if (!state.timeline || byId("share").hidden) return;
  paint(byId("share-timeline"), state.timeline, WINDOW_MS, colourOf);
  paintWeights(byId("share-weights"), state.timeline.weights, colourOf);
}

function colourOf(name) {
  const place = state.status.tenants.findIndex((tenant) => tenant.name === name);
  const hue = HUES[(place < 0 ? HUES.length - 1 : place) % HUES.length];
  return isDark() ? `hsl(${hue} 52% 58%)` : `hsl(${hue} 56% 50%)`;
}

// Parts of the window's SM time.
function used() {
  const { spans, bubbles, now_ms: now } = state.timeline;
  const room = Math.min(WINDOW_MS, now) || 1;
  const inside = (one) => (one.end_ms - Math.max(one.start_ms, now - room)) * one.share;
  const sum = (list) => list.reduce((total, one) => total + Math.max(0, inside(one)), 0);
  return { busy: sum(spans) / room, bubble: sum(bubbles) / room };
}

function describe(span) {
  return `${span.tenant}\nsquad ${span.squad}, request ${span.request}, segments ${span.first} to ${span.last}\n`
    + `${percent(span.share)} of the SMs for ${(span.end_ms - span.start_ms).toFixed(2)} ms`;
}

const percent = (part) => `${(100 * part).toFixed(part > 0.995 || part < 0.0005 ? 0 : 1)} %`;
