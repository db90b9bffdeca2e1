// The past: a slider over the journal, the life of one device, and another policy beside the live one.

import { byId, el, keyed, setText } from "./dom.js";
import { day, devices as deviceCount, money, shortTime, span, time } from "./format.js";
import { read, readAll, send } from "./api.js";
import { explain } from "./why.js";
import { currency, fleetStatus, startView } from "./view.js";
import { drawDevice, showDevice } from "./device.js";

const SHOWN = 60;
const travel = { at: null, first: null, reading: false, again: false };

async function show(status) {
  if (travel.first === null) {
    travel.first = (await read(`/v1/past?at_s=${Math.floor(status.now_s)}`)).first_s;
    await Promise.all([prepareDevice(status), preparePolicies()]);
  }
  if (travel.at === null) place(1000);
  await showMoment();
  await showShadow();
}

function place(step) {
  const now = fleetStatus().now_s;
  travel.at = step >= 1000 ? null : travel.first + ((now - travel.first) * step) / 1000;
}

async function showMoment() {
  // One reading at a time, and the newest wish after it: a dragged slider asks often.
  if (travel.reading) { travel.again = true; return; }
  travel.reading = true;
  try {
    const status = fleetStatus();
    const at = Math.floor(travel.at ?? status.now_s);
    byId("past-json").href = `/v1/past?at_s=${at}`;
    byId("past-csv").href = `/v1/past.csv?at_s=${at}`;
    const was = await read(`/v1/past?at_s=${at}`);
    setText(byId("moment"), `${day(at)} ${time(at)}`);
    setText(byId("past-note"), travel.at === null ? "Now. Drag to go back to any moment since the journal begins." : `${span(status.now_s - at)} ago`);
    showPools(status, was);
    showTable("ran", was.running, (one) => one.where, at);
    showTable("waited", was.waiting, (one) => one.reason || "not looked at yet", at);
  } finally {
    travel.reading = false;
  }
  if (travel.again) { travel.again = false; await showMoment(); }
}

function showPools(status, was) {
  const used = new Map(was.pools.map((pool) => [`${pool.cluster}/${pool.pool}`, pool]));
  const pools = status.clusters.flatMap((cluster) => (cluster.pools ?? []).map((pool) => ({ ...pool, cluster: cluster.name })));
  keyed(byId("pools"), pools, (pool) => `${pool.cluster}/${pool.name}`, () =>
    el("div", {}, el("span"), el("span", { class: "meter" }, el("i")), el("span", { class: "num dim" })),
  (row, pool) => {
    const held = used.get(`${pool.cluster}/${pool.name}`);
    const part = pool.devices ? (held?.used_milli ?? 0) / 1000 / pool.devices : 0;
    setText(row.children[0], `${pool.cluster}/${pool.name}`);
    row.children[1].firstElementChild.style.width = `${Math.min(100, part * 100)}%`;
    setText(row.children[2], `${deviceCount(held?.used_milli)} devices, ${held?.workloads ?? 0} workloads`);
  });
}

function showTable(id, items, third, at) {
  setText(byId(`${id}-count`), String(items.length));
  keyed(byId(id), items.slice(0, SHOWN), (one) => one.workload, (one) =>
    el("tr", {}, el("td", {}, el("button", { type: "button", class: "link", onclick: () => explain(one.workload, currency()) }, one.workload)),
      el("td"), el("td"), el("td", { class: "right num" })),
  (row, one) => {
    setText(row.children[1], one.tenant);
    setText(row.children[2], third(one));
    setText(row.children[3], span(at - (one.since_s ?? at)));
  });
}

async function prepareDevice(status) {
  const asked = new URLSearchParams(location.search);
  const clusters = byId("cluster");
  clusters.replaceChildren(...status.clusters.map((cluster) => el("option", {}, cluster.name)));
  clusters.value = asked.get("cluster") ?? status.clusters.find((cluster) => cluster.devices)?.name ?? clusters.value;
  const fill = async () => {
    const found = await readAll(`/v1/devices?limit=5000&cluster=${encodeURIComponent(clusters.value)}`);
    byId("device").replaceChildren(...found.map((device) => el("option", {}, device.id)));
    if (asked.get("device")) byId("device").value = asked.get("device");
    await chosen();
  };
  const chosen = () => byId("device").value && showDevice(clusters.value, byId("device").value, fleetStatus().now_s);
  clusters.addEventListener("change", fill);
  byId("device").addEventListener("change", chosen);
  await fill();
}

async function preparePolicies() {
  const known = (await readAll("/v1/policies?limit=5000")).filter((policy) => policy.verb === "place").map((policy) => policy.name);
  byId("policy").replaceChildren(...[...new Set([...known, "regret", "ruin", "exact", "rolling"])].map((name) => el("option", {}, name)));
}

async function showShadow() {
  const shadow = (await read("/v1/shadows")).items[0] ?? null;
  byId("compare-off").hidden = shadow === null;
  byId("differ-head").hidden = !(shadow?.newest ?? []).length;
  const rows = shadow === null ? [] : [
    ["Placed since", `${day(shadow.since_s)} ${shortTime(shadow.since_s)}`, shadow.policy.name],
    ["Same home / elsewhere", `${shadow.same ?? 0} / ${shadow.elsewhere ?? 0}`, `would wait ${shadow.would_wait ?? 0}, would start ${shadow.would_start ?? 0}`],
    ["Money, both placed", money(shadow.live_micros), `${money(shadow.shadow_micros)} ${currency()}`],
    ["CO₂e, both placed", `${money((shadow.live_carbon_g ?? 0) * 1e3)} kg`, `${money((shadow.shadow_carbon_g ?? 0) * 1e3)} kg`],
  ];
  keyed(byId("compare"), rows, (row) => row[0], () => el("tr", {}, el("td"), el("td", { class: "num" }), el("td", { class: "num" })),
    (node, row) => row.forEach((text, index) => setText(node.children[index], text)));
  keyed(byId("differ"), [...(shadow?.newest ?? [])].reverse().slice(0, 20), (one) => `${one.at_s}/${one.workload}`, () =>
    el("tr", {}, el("td"), el("td"), el("td"), el("td", { class: "right num" })),
  (node, one) => [one.workload, one.live || "waits", one.shadow || "waits", money((one.shadow_micros ?? 0) - (one.live_micros ?? 0))]
    .forEach((text, index) => setText(node.children[index], text)));
}

const turn = startView(show, drawDevice, 4000);
byId("slider").addEventListener("input", (event) => { place(Number(event.target.value)); showMoment(); });
for (const [id, step] of [["back", -3600], ["forth", 3600]])
  byId(id).addEventListener("click", () => {
    const now = fleetStatus().now_s;
    const at = Math.max(travel.first, (travel.at ?? now) + step);
    travel.at = at >= now ? null : at;
    byId("slider").value = String(travel.at === null ? 1000 : ((travel.at - travel.first) / (now - travel.first)) * 1000);
    showMoment();
  });
byId("compare-on").addEventListener("click", () => send("PUT", `/v1/shadow/${encodeURIComponent(byId("policy").value)}`, {}).then(turn, turn));
byId("compare-off").addEventListener("click", () => send("DELETE", "/v1/shadow", {}).then(turn, turn));
