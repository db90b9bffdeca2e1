// The fleet map: one canvas for each pool, one block for each device, cut into the slices that are held.
// A canvas keeps two thousand devices cheap; arrow keys walk over it and Enter explains what is there.

import { el, keyed, runs } from "./dom.js";
import { devices as deviceCount, kilograms, money, number, shortTime } from "./format.js";
import { colour, isDark } from "./tenants.js";

const BLOCK = { width: 34, good: 22, least: 14, height: 17, gap: 3, nodeGap: 9 };
// Of a pool with more devices than this one looks at the pattern, not at the slices.
const MANY = 300;
const DENSE = { width: 12, good: 9, least: 6, height: 9, gap: 1, nodeGap: 4 };
const panes = new Map();
let singled = "";
let slotsOf = {};

export function singleOut(tenant) {
  singled = tenant;
  redraw();
}

export function redraw() {
  for (const pane of panes.values()) pane.draw();
}

export function showMap(root, status, pools, classes, actions) {
  slotsOf = classes;
  keyed(root, status.clusters, (cluster) => cluster.name, makeCluster, (node, cluster) => {
    headCluster(node.querySelector(".cluster-head"), cluster, status);
    keyed(node.querySelector(".pools"), cluster.pools ?? [], (pool) => pool.name, makePool, (row, pool) => {
      const key = `${cluster.name}/${pool.name}`;
      namePool(row.querySelector(".pool-name"), pool, status.currency ?? "KRW");
      if (!panes.has(key) || panes.get(key).canvas !== row.querySelector("canvas"))
        panes.set(key, new Pane(row.querySelector("canvas"), actions));
      panes.get(key).show(pool, pools.get(key) ?? { number: 0, devices: [] });
    });
  });
}

const makeCluster = () =>
  el("section", { class: "cluster" }, el("div", { class: "cluster-head" }), el("div", { class: "pools" }));

const makePool = () => el("div", { class: "pool" }, el("div", { class: "pool-name" }), el("canvas", { tabindex: "0" }));

function headCluster(node, cluster, status) {
  const carbon = cluster.carbon_g_per_kwh;
  const facts = el("div", { class: "facts" });
  for (const parts of [
    [["b", deviceCount(cluster.used_milli)], ` of ${cluster.devices ?? 0} devices`],
    [["b", money(cluster.cost_per_hour_micros)], ` ${status.currency ?? "KRW"}/h`],
    [["b", kilograms(cluster.carbon_g_per_hour)], " kg CO₂e/h"],
    [["b", carbon === undefined || carbon === null ? "unknown" : number(carbon)], " g/kWh"],
  ]) {
    const fact = el("span");
    runs(fact, parts);
    facts.append(fact);
  }
  const away = cluster.reachable === false;
  const seen = `not reachable, last seen ${shortTime(cluster.observed_s ?? 0)}`;
  node.replaceChildren(
    el("h3", {}, cluster.name),
    el("span", { class: away ? "away" : "dim" }, away ? seen : (cluster.region ?? "")),
    facts,
  );
}

function namePool(node, pool, currency) {
  const price = pool.price_micros === undefined ? "" : ` · ${money(pool.price_micros)} ${currency}/h`;
  const kind = pool.name === pool.class_name ? "" : ` ${pool.class_name}`;
  const grows = (pool.nodes_max ?? 0) > (pool.nodes ?? 0);
  const room = grows ? ` · ${pool.nodes ?? 0}/${pool.nodes_max} nodes` : "";
  node.replaceChildren(
    el("div", {}, el("b", {}, pool.name), el("i", {}, kind)),
    el("span", {}, `${pool.capacity}${price}${room}`),
  );
}

class Pane {
  constructor(canvas, actions) {
    this.canvas = canvas;
    this.actions = actions;
    this.devices = [];
    this.number = -1;
    this.block = BLOCK;
    this.boxes = [];
    this.cursor = -1;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "device map");
    canvas.addEventListener("mousemove", (event) => this.point(event));
    canvas.addEventListener("mouseleave", () => this.leave());
    canvas.addEventListener("click", (event) => this.click(event));
    canvas.addEventListener("dblclick", (event) => this.visit(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(pool, { number, devices }) {
    if (number === this.number) return;
    this.number = number;
    this.devices = devices;
    this.block = devices.length > MANY ? DENSE : BLOCK;
    // A pool without nodes has nothing to walk over.
    this.canvas.tabIndex = devices.length ? 0 : -1;
    this.canvas.setAttribute(
      "aria-label",
      `${pool.name}: ${devices.length} devices, ${deviceCount(pool.used_milli)} in use. Arrow keys walk, Enter explains.`,
    );
    this.draw();
  }

  draw() {
    const width = this.canvas.parentElement.clientWidth && this.canvas.clientWidth;
    if (!width) return;
    this.layout(width);
    const rows = this.boxes.length ? this.boxes.at(-1).y + this.block.height + 2 : this.block.height + 2;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(rows * scale);
    this.canvas.style.height = `${rows}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const ink = { free: style.getPropertyValue("--free"), bad: style.getPropertyValue("--bad"),
      accent: style.getPropertyValue("--accent"), dim: style.getPropertyValue("--dim"), dark: isDark() };
    this.boxes.forEach((box, index) => this.drawDevice(pen, box, ink, index === this.cursor));
  }

  // Devices of one node stand together and wrap as a group.
  layout(width) {
    this.size = { ...this.block, width: this.blockWidth(width) };
    this.boxes = [];
    let x = 1;
    let y = 1;
    let node = null;
    const perNode = new Map();
    for (const device of this.devices) perNode.set(device.node, (perNode.get(device.node) ?? 0) + 1);
    for (const device of this.devices) {
      if (device.node !== node) {
        const group = perNode.get(device.node) * (this.size.width + this.size.gap) - this.size.gap;
        if (node !== null) x += this.size.nodeGap - this.size.gap;
        if (x > 1 && x + group > width) [x, y] = [1, y + this.block.height + this.block.gap + 1];
        node = device.node;
      }
      if (x + this.size.width > width) [x, y] = [1, y + this.block.height + this.block.gap + 1];
      this.boxes.push({ x, y, device });
      x += this.size.width + this.size.gap;
    }
  }

  // Wide enough to see slices, in as few rows as that allows, each with as many nodes as the others.
  blockWidth(width) {
    const nodes = new Set(this.devices.map((device) => device.node)).size || 1;
    const perNode = Math.ceil(this.devices.length / nodes) || 1;
    let best = this.block.least;
    for (let rows = 1; rows <= nodes; rows += 1) {
      const inRow = Math.ceil(nodes / rows);
      const gaps = (inRow - 1) * this.block.nodeGap + inRow * (perNode - 1) * this.block.gap;
      const fitting = Math.floor((width - 2 - gaps) / (inRow * perNode));
      best = Math.max(best, Math.min(fitting, this.block.width));
      if (fitting >= this.block.good) break;
    }
    return best;
  }

  drawDevice(pen, box, ink, current) {
    const { x, y, device } = box;
    const { width, height } = this.size;
    const ready = (device.node_phase ?? "ready") === "ready";
    pen.globalAlpha = ready ? 1 : 0.45;
    pen.fillStyle = ink.free;
    pen.fillRect(x, y, width, height);
    for (const cut of cuts(device)) {
      const other = singled && cut.tenant !== singled;
      pen.globalAlpha = (other ? 0.16 : 1) * (ready ? 1 : 0.45);
      pen.fillStyle = colour(cut.tenant, ink.dark);
      const left = x + cut.from * width;
      pen.fillRect(left, y, Math.max(1.5, (cut.to - cut.from) * width - (cut.to < 0.999 ? 1 : 0)), height);
    }
    pen.globalAlpha = 1;
    if (device.healthy === false) {
      pen.strokeStyle = ink.bad;
      pen.lineWidth = 1.5;
      pen.strokeRect(x + 0.75, y + 0.75, width - 1.5, height - 1.5);
    }
    if (current) {
      pen.strokeStyle = ink.accent;
      pen.lineWidth = 2;
      pen.strokeRect(x, y, width, height);
    }
  }

  at(event) {
    const bounds = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - bounds.left, event.clientY - bounds.top];
    const { width, height } = this.size ?? this.block;
    const index = this.boxes.findIndex(
      (box) => px >= box.x - 1 && px <= box.x + width + 1 && py >= box.y - 1 && py <= box.y + height + 1,
    );
    return { index, share: index < 0 ? 0 : (px - this.boxes[index].x) / width };
  }

  point(event) {
    const { index } = this.at(event);
    this.move(index);
    if (index >= 0) this.actions.tip(describe(this.boxes[index].device), event.clientX, event.clientY);
  }

  click(event) {
    const { index, share } = this.at(event);
    if (index >= 0) this.explain(this.boxes[index].device, share);
  }

  // The life of a device is on the page about the past.
  visit(event) {
    const { index } = this.at(event);
    if (index < 0) return;
    const { cluster, id } = this.boxes[index].device;
    location.assign(`/past?cluster=${encodeURIComponent(cluster)}&device=${encodeURIComponent(id)}#device-title`);
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: this.perRow(), ArrowUp: -this.perRow() }[event.key];
    if (step !== undefined && this.boxes.length) {
      event.preventDefault();
      this.move(Math.min(this.boxes.length - 1, Math.max(0, this.cursor + step)));
      const box = this.boxes[this.cursor];
      const bounds = this.canvas.getBoundingClientRect();
      this.actions.tip(describe(box.device), bounds.left + box.x, bounds.top + box.y);
    } else if (event.key === "Enter" && this.cursor >= 0) {
      this.explain(this.boxes[this.cursor].device, 0);
    } else if (event.key === "Escape") {
      this.leave();
    }
  }

  perRow() {
    return Math.max(1, this.boxes.filter((box) => box.y === this.boxes[0]?.y).length);
  }

  explain(device, share) {
    const parts = cuts(device);
    const hit = parts.find((cut) => share >= cut.from && share <= cut.to) ?? parts[0];
    if (hit?.workload) this.actions.explain(hit.workload);
  }

  move(index) {
    if (index < 0) this.actions.tip("");
    if (index === this.cursor) return;
    this.cursor = index;
    this.draw();
  }

  leave() {
    this.move(-1);
  }
}

// Where each held slice stands on its device, from 0 to 1: by memory slot where the device is cut, else side by side.
export function cuts(device) {
  const held = device.held ?? [];
  const width = slotsOf[device.class_name]?.[device.mode] ?? 0;
  const total = held.reduce((sum, one) => sum + (one.slice.compute_milli ?? 0), 0);
  let edge = 0;
  return held.map(({ slice, workload, tenant }) => {
    let from = 0;
    let to = 1;
    if (slice.slots && width) {
      from = (slice.start ?? 0) / width;
      to = Math.min(1, from + slice.slots / width);
    } else if (slice.mode !== "exclusive") {
      const share = slice.compute_milli ? slice.compute_milli / Math.max(1000, total) : 1 / held.length;
      [from, to] = [edge, edge + share];
      edge = to;
    }
    return { from, to, workload, tenant, slice };
  });
}

function describe(device) {
  const state = device.healthy === false ? ", not healthy" : "";
  const phase = (device.node_phase ?? "ready") === "ready" ? "" : `, node ${device.node_phase}`;
  const lines = [`${device.id} · ${device.class_name} · ${device.mode}${state}${phase}`];
  for (const { slice, workload, tenant } of device.held ?? []) {
    const share = slice.compute_milli ? ` ${slice.compute_milli / 10} %` : "";
    const memory = slice.memory_mib ? ` ${number(slice.memory_mib / 1024)} GiB` : "";
    lines.push(`${workload} (${tenant}) ${slice.profile ?? "whole"}${share}${memory}`);
  }
  if (lines.length === 1) lines.push("free");
  return lines.join("\n");
}
