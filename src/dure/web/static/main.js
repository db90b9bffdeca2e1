// The page as a whole: reads the fleet every two seconds and after news, hands it to the parts.

import { byId, el, keyed, setText } from "./dom.js";
import { count, day, devices as deviceCount, kilograms, money, number, percent, time } from "./format.js";
import { read, readAll } from "./api.js";
import { redraw, showMap, singleOut } from "./map.js";
import { takeMap } from "./rows.js";
import { drawCharts, loadCharts, refreshCharts } from "./charts.js";
import { SHOWN, repaintTenants, showLegend, showRunning, showWaiting, tenantNames } from "./lists.js";
import { explain, prepareWhy } from "./why.js";
import { startEvents } from "./events.js";
import { drawShare, prepareShare } from "./share.js";
import { drawWeights, refreshWeights } from "./weights.js";
import { learn } from "./tenants.js";

const EVERY_MS = 2000;
const state = { status: null, board: null, map: { number: 0, pools: new Map() }, classes: {}, singled: "", busy: false };

async function refresh() {
  if (state.busy || document.hidden) return;
  state.busy = true;
  try {
    const [status, board, fresh] = await Promise.all([
      read("/v1/status"), read(`/v1/board?limit=${SHOWN}&find=${encodeURIComponent(byId("find").value)}`),
      read(`/v1/map?since=${state.map.number}`),
    ]);
    Object.assign(state, { status, board });
    takeMap(state.map, fresh);
    show();
    await refreshCharts();
    await refreshWeights();
  } catch (problem) {
    say("trouble", "Dure does not answer", [{ sentence: problem.message }]);
  } finally {
    state.busy = false;
  }
}

function show() {
  const { status } = state;
  const { totals } = status;
  const troubles = status.troubles ?? [];
  say(troubles.length ? "trouble" : "well", troubles.length ? `${count(troubles.length, "thing")} to look at` : "All is well", troubles);
  setText(byId("fleet-name"), status.name);
  byId("demo").hidden = !status.demo;
  setText(byId("clock"), `${day(status.now_s)} ${time(status.now_s)}${(status.speed ?? 1) === 1 ? "" : ` ×${status.speed}`}`);
  showFigures(status, totals);
  learn([...state.board.tenants, ...tenantNames()]);
  showMap(byId("clusters"), status, state.map.pools, state.classes, { tip, explain: ask });
  showLists();
}

function showFigures(status, totals) {
  const currency = status.currency ?? "KRW";
  setText(byId("cost"), money(totals.cost_per_hour_micros));
  setText(byId("cost-unit"), `${currency}/h`);
  const saved = totals.saved_per_hour_micros;
  setText(byId("cost-note"), saved === undefined || saved === null
    ? (totals.spent_micros ? `${money(totals.spent_micros)} ${currency} spent so far` : "")
    : `saves ${money(saved)} ${currency}/h against ${totals.saved_against}`);
  setText(byId("carbon"), kilograms(totals.carbon_g_per_hour));
  setText(byId("carbon-note"), totals.power_w ? `${number(totals.power_w / 1000)} kW` : "");
  const slo = totals.slo_attainment;
  setText(byId("slo"), slo === undefined || slo === null ? "–" : percent(slo));
  setText(byId("slo-note"), slo === undefined || slo === null ? "no requests measured" : "of requests within their promise");
  setText(byId("used"), deviceCount(totals.used_milli));
  setText(byId("used-unit"), `of ${totals.devices ?? 0}`);
  setText(byId("used-note"), `${totals.running ?? 0} running, ${totals.starting ?? 0} starting, ${(totals.held ?? 0) + (totals.pending ?? 0)} waiting`);
  setText(byId("spent-head"), `Spent, ${currency}`);
}

function showLists() {
  showLegend(tenantNames(), state.singled, choose);
  showWaiting(state.board, state.status.now_s, ask);
  showRunning(state.board, state.status.now_s, ask);
}

function say(kind, word, troubles) {
  byId("verdict").dataset.state = kind;
  setText(byId("verdict-word"), word);
  keyed(byId("troubles"), troubles, (trouble) => trouble.sentence, () => el("li"),
    (item, trouble) => setText(item, [trouble.sentence, trouble.remedy].filter(Boolean).join(" · ")));
}

function choose(tenant) {
  state.singled = state.singled === tenant ? "" : tenant;
  singleOut(state.singled);
  showLegend(tenantNames(), state.singled, choose);
}

const ask = (name) => explain(name, state.status?.currency ?? "KRW");

function tip(text, x = 0, y = 0) {
  const node = byId("tip");
  node.hidden = !text;
  if (!text) return;
  setText(node, text);
  node.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - node.offsetWidth - 8))}px`;
  node.style.top = `${Math.max(4, Math.min(y + 18, window.innerHeight - node.offsetHeight - 8))}px`;
}

function repaint() {
  redraw();
  repaintTenants();
  drawCharts();
  drawWeights();
  drawShare();
}

function switchTheme() {
  const root = document.documentElement;
  const dark = getComputedStyle(root).colorScheme === "dark";
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("dure-theme", root.dataset.theme);
  repaint();
}

async function readClasses() {
  for (const profile of await readAll("/v1/classes?limit=5000"))
    state.classes[profile.name] = { mig: profile.mig?.slots, vnpu: profile.vnpu?.slots };
}

let soon = 0;
function refreshSoon() {
  if (soon) return;
  soon = setTimeout(() => {
    soon = 0;
    refresh();
  }, 700);
}

prepareWhy();
byId("theme").addEventListener("click", switchTheme);
byId("find").addEventListener("input", refreshSoon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
document.addEventListener("visibilitychange", refresh);
// Slices are drawn right once the classes are known; the figures need not wait for them.
readClasses().then(redraw, (problem) => say("trouble", "Dure does not answer", [{ sentence: problem.message }]));
await refresh();
loadCharts();
setInterval(refresh, EVERY_MS);
prepareShare(tip);
startEvents(refreshSoon);
