// The lists beside the map: what waits and why, what runs, which tenants there are.

import { byId, el, keyed, setText } from "./dom.js";
import { count, money, ranges, span } from "./format.js";
import { colour, isDark, names } from "./tenants.js";

export const SHOWN = matchMedia("(max-width: 640px)").matches ? 25 : 100;

export function showWaiting(board, now, explain) {
  const { waiting } = board;
  setText(byId("waiting-count"), board.waiting_count ? String(board.waiting_count) : "");
  byId("waiting-none").hidden = board.waiting_count > 0;
  keyed(byId("waiting"), waiting.slice(0, SHOWN), (record) => record.uid, (record) => makeWaiting(record, explain),
    (row, record) => {
      const [age, reason, what] = row.querySelectorAll(".age, .reason, .what");
      const verdict = nearest(record.status.held ?? []);
      setText(age, span(now - record.status.submitted_s));
      setText(reason, verdict?.reason ?? "not looked at yet");
      const said = verdict ? `${verdict.where}: ${sentence(verdict)}` : `tenant ${record.spec.tenant}`;
      setText(what, record.eta ? `${said}; expected to start ${ranges(record.eta.start)}` : said);
    });
}

const makeWaiting = (record, explain) =>
  el("li", {}, nameButton(record.spec.name, explain), el("span", { class: "age num dim" }),
    el("span", { class: "reason" }), el("span", { class: "dim small" }, record.spec.tenant),
    el("span", { class: "what" }));

// The refusal that is nearest to a yes tells most: room that is lacking before rules that forbid.
function nearest(verdicts) {
  const order = ["Fragmented", "NoCapacity", "GangIncomplete", "QuotaExceeded", "FairShare", "TurnOfAnother", "BudgetExceeded"];
  const rank = (verdict) => (order.indexOf(verdict.reason) + order.length + 1) % (order.length + 1);
  return [...verdicts].sort((a, b) => rank(a) - rank(b))[0];
}

export function sentence(verdict) {
  const { wanted = "", found = "", detail = "" } = verdict;
  const clash = wanted && found ? `needs ${wanted}, ${found}` : wanted || found;
  return [clash, detail].filter(Boolean).join("; ") || verdict.reason || "fits";
}

export function showRunning(board, now, explain) {
  setText(byId("running-count"), board.running_count ? String(board.running_count) : "");
  keyed(byId("running"), board.running, (record) => record.uid, (record) => makeRunning(record, explain),
    (row, record) => updateRunning(row, record, now));
  const more = board.found_count - board.running.length;
  setText(byId("running-more"), more > 0 ? `and ${count(more, "more workload")}` : "");
}

function makeRunning(record, explain) {
  const cells = ["", "", "minor", "", "minor", "", "right minor", "right", "right"].map((kind) => el("td", { class: kind }));
  cells[0].append(nameButton(record.spec.name, explain));
  cells[1].append(tenantMark(record.spec.tenant));
  cells[2].textContent = record.spec.type;
  return el("tr", {}, ...cells);
}

function updateRunning(row, record, now) {
  const { spec, status } = record;
  const home = status.placement;
  const wanted = home?.replicas ?? 1;
  setText(row.children[3], home ? `${home.cluster}/${home.pool}` : "");
  setText(row.children[4], home?.class_name ?? "");
  setText(row.children[5], phaseOf(record));
  setText(row.children[6], spec.type === "serving" || wanted > 1 ? `${status.ready ?? 0}/${wanted}` : "");
  setText(row.children[7], span(now - (status.started_s ?? status.submitted_s)));
  row.children[7].title = record.eta?.finish ? `expected to end ${ranges(record.eta.finish)}` : "";
  setText(row.children[8], money(status.spent_micros));
}

export function showLegend(tenants, singled, choose) {
  keyed(byId("legend"), tenants, (name) => name,
    (name) => el("button", { type: "button", onclick: () => choose(name) }, swatch(name), name),
    (button, name) => {
      button.setAttribute("aria-pressed", String(name === singled));
      button.firstElementChild.style.background = colour(name, isDark());
    });
}

export const repaintTenants = () => {
  for (const mark of document.querySelectorAll(".swatch[data-tenant]"))
    mark.style.background = colour(mark.dataset.tenant, isDark());
};

export const tenantNames = names;

const phaseOf = (record) => record.status.phase ?? "pending";

function swatch(tenant) {
  const mark = el("span", { class: "swatch", "data-tenant": tenant });
  mark.style.background = colour(tenant, isDark());
  return mark;
}

const tenantMark = (tenant) => el("span", { class: "tenant" }, swatch(tenant), tenant);

const nameButton = (name, explain) =>
  el("button", { type: "button", class: "link", onclick: () => explain(name), "aria-haspopup": "dialog" }, name);
