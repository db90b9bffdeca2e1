// The gateway's page: queues as live bars, what was decided, what was moved. Reads again every two seconds.
import { read } from "./api.js";
import { byId, el, keyed, setText } from "./dom.js";

const EVERY_MS = 2000;
const SHOWN = 60;
const SVG = "http://www.w3.org/2000/svg";
const GIB = 2 ** 30;

function amount(resource, value) {
  if (resource === "memory") return `${(value / GIB).toLocaleString(undefined, { maximumFractionDigits: 1 })} GiB`;
  return value.toLocaleString(undefined, { maximumFractionDigits: 1 });
}

function at(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

function rectangle(kind) {
  const node = document.createElementNS(SVG, "rect");
  node.setAttribute("class", kind);
  node.setAttribute("height", "10");
  return node;
}

function meter() {
  const drawing = document.createElementNS(SVG, "svg");
  drawing.setAttribute("viewBox", "0 0 100 10");
  drawing.setAttribute("preserveAspectRatio", "none");
  drawing.append(rectangle("held"), rectangle("used"));
  const track = el("div", { class: "track", role: "meter", "aria-valuemin": "0" });
  track.append(drawing);
  return el("div", { class: "meter" }, el("span", { class: "name" }), track, el("span", { class: "num right" }));
}

function fill(node, one) {
  const [name, track, figure] = node.children;
  const [held, used] = track.firstElementChild.children;
  const share = (value) => String(one.nominal > 0 ? Math.min(100, (100 * value) / one.nominal) : value > 0 ? 100 : 0);
  held.setAttribute("width", share(one.reserved));
  used.setAttribute("width", share(one.used));
  used.setAttribute("class", one.borrowed > 0 ? "used over" : "used");
  track.setAttribute("aria-label", `${one.resource} of ${one.flavor}`);
  track.setAttribute("aria-valuemax", String(one.nominal));
  track.setAttribute("aria-valuenow", String(one.reserved));
  setText(name, `${one.resource} · ${one.flavor}`);
  setText(figure, `${amount(one.resource, one.reserved)} of ${amount(one.resource, one.nominal)}`);
}

function queue() {
  const top = el("div", { class: "top" }, el("h3"), el("span", { class: "stopped" }), el("span", { class: "facts" }));
  return el("div", { class: "queue" }, top, el("div", { class: "meters" }));
}

function fillQueue(node, one) {
  const [title, stopped, facts] = node.firstElementChild.children;
  setText(title, one.name);
  setText(stopped, one.active ? "" : one.why_not);
  const cohort = one.cohort ? ` · cohort ${one.cohort}` : "";
  setText(facts, `${one.pending} waiting · ${one.admitted} admitted${cohort}`);
  keyed(node.lastElementChild, one.amounts, (each) => `${each.flavor}/${each.resource}`, meter, fill);
}

function entry() {
  return el("li", {}, el("span"), el("span", { class: "rule" }), el("span", { class: "why" }));
}

function fillEntry(node, one) {
  const [what, rule, why] = node.children;
  const way = one.from_queue ? `${one.from_queue} → ${one.queue}` : `${one.what} ${one.queue}`;
  setText(what, `${one.namespace}/${one.job}  ${way}`);
  setText(rule, `${one.rule} · ${at(one.at_s)}`);
  setText(why, one.because);
}

function list(id, entries) {
  const shown = entries.slice(0, SHOWN);
  keyed(byId(id), shown, (one) => `${one.at_s}/${one.namespace}/${one.job}`, entry, fillEntry);
  byId(`no-${id}`).hidden = shown.length > 0;
}

async function look() {
  const live = byId("live");
  try {
    const [seen, moves, decisions] = await Promise.all([read("/v1/queues"), read("/v1/moves"), read("/v1/decisions")]);
    keyed(byId("queues"), seen.cluster_queues, (one) => one.name, queue, fillQueue);
    byId("no-queues").hidden = seen.cluster_queues.length > 0;
    list("moves", moves);
    list("decisions", decisions);
    live.dataset.state = seen.stale_s === 0 ? "on" : "lost";
    setText(live, seen.stale_s === 0 ? "live" : seen.stale_s < 0 ? "no figures yet" : `figures ${Math.round(seen.stale_s)} s old`);
  } catch (problem) {
    live.dataset.state = "lost";
    setText(live, `gateway not reached: ${problem.message}`);
  }
  setTimeout(look, EVERY_MS);
}

byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("dure-theme", root.dataset.theme);
});
look();
