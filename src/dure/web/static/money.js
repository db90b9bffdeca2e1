// Money and carbon: where they went by hour and day, what comes next, who holds what of its budget, what is wasted.

import { byId, el, keyed, setText } from "./dom.js";
import { kilograms, money, number, percent } from "./format.js";
import { read, readIfMay } from "./api.js";
import { currency, startView } from "./view.js";
import { plot, redrawPlots } from "./plot.js";

const DAY = 86400;
const GROUPS = [["used", "--accent"], ["overhead", "--dim"], ["idle", "--warn"]];
const view = { step: "hour", figure: "micros", tenant: "" };

async function show(status) {
  const now = status.now_s;
  const [day, week, waste, tenants, cost, carbon] = await Promise.all([
    read(`/v1/ledger?by=group&since_s=${now - DAY}&until_s=${now}`),
    read(`/v1/ledger?by=tenant&since_s=${now - 7 * DAY}&until_s=${now}`),
    readIfMay(`/v1/waste?since_s=${now - 7 * DAY}&until_s=${now}`, "waste"),
    read("/v1/tenants?limit=5000"), read(ahead("cost")), read(ahead("carbon")),
  ]);
  showTiles(day);
  showTenants(tenants.items, status.usage ?? [], week.items);
  showWaste(waste?.items ?? []);
  showChoice(tenants.items, waste !== null);
  showAhead("chart-ahead", "ahead-note", cost, 1e6, `${currency()}/h`);
  showAhead("chart-green", "green-note", carbon, 1e3, "kg/h");
  await showWent(now);
}

function showTiles(ledger) {
  // A tenant sees one side of the books: what its devices cost is what was paid for it.
  const own = ledger.paid_micros === 0;
  const paid = own ? ledger.used_micros + ledger.idle_micros + ledger.overhead_micros : ledger.paid_micros;
  setText(byId("paid"), money(paid));
  setText(byId("paid-unit"), currency());
  const grams = ledger.items.filter((one) => own || one.by.group === "paid").reduce((sum, one) => sum + one.carbon_g, 0);
  setText(byId("paid-note"), `${kilograms(grams)} kg CO₂e`);
  for (const name of ["used", "idle", "overhead"])
    setText(byId(`part-${name}`), paid ? percent(ledger[`${name}_micros`] / paid, 1) : "–");
  setText(byId("used-money"), `${money(ledger.used_micros)} ${currency()}`);
  setText(byId("idle-money"), `${money(ledger.idle_micros)} ${currency()}`);
  setText(byId("balance"), ledger.imbalances ? `${ledger.imbalances} hours do not balance` : own ? "" : "the books balance to the last millionth");
}

async function showWent(now) {
  const since = now - (view.step === "hour" ? 2 : 30) * DAY;
  const path = `by=${view.step},group&since_s=${Math.floor(since)}&until_s=${Math.ceil(now)}`;
  const [json, csv] = document.querySelectorAll("#went-title ~ .datas a");
  json.href = `/v1/ledger?${path}`;
  csv.href = `/v1/ledger.csv?${path}`;
  const { items } = await read(json.href);
  const unit = view.figure === "micros" ? 1e6 : 1e3;
  const at = (text) => Date.parse(text.length > 10 ? text.replace("Z", ":00Z") : `${text}T00:00:00Z`) / 1000;
  plot("chart-went", GROUPS.map(([group, colour]) => ({
    name: group, colour, kind: "bar",
    points: items.filter((one) => one.by.group === group).map((one) => [at(one.by[view.step]), one[view.figure] / unit]),
  })));
}

const whose = () => (view.tenant ? `?tenant=${encodeURIComponent(view.tenant)}` : "");
const ahead = (name) => `/v1/forecast/${name}${whose()}`;

// Of the whole fleet or of one tenant; who belongs to a tenant has nothing to choose from.
function showChoice(tenants, above) {
  const select = byId("ahead-of");
  select.hidden = !above || tenants.length === 0;
  keyed(select, [{ name: "" }, ...tenants], (one) => one.name, (one) => el("option", { value: one.name }), (node, one) => setText(node, one.name || "whole fleet"));
  for (const [panel, name] of [["ahead", "cost"], ["green", "carbon"]]) {
    const [json, csv] = document.querySelectorAll(`#${panel}-title ~ .datas a`);
    json.href = ahead(name);
    csv.href = `/v1/forecast/${name}/sheet.csv${whose()}`;
  }
}

function showAhead(id, note, found, unit, name) {
  const past = found.past.slice(-48).map(([at, value]) => [at, value === null ? null : value / unit]);
  const middle = Math.floor(found.quantiles.length / 2);
  const ahead = found.ahead.map(([at, values]) => [at, values[middle] / unit]);
  const sum = ahead.reduce((total, [, value]) => total + value, 0);
  const of = found.tenant ? `${found.tenant}: ` : "";
  setText(byId(note), `${of}${ahead.length ? `${number(sum)} ${name.split("/")[0]} expected in the next day; shaded: 8 of 10 cases` : "too little past to say anything"}`);
  plot(id, [
    { kind: "band", colour: "--accent", points: found.ahead.map(([at, values]) => [at, values[0] / unit, values.at(-1) / unit]) },
    { name: "was", colour: "--dim", points: past },
    { name: "expected", colour: "--accent", points: ahead, dash: "dot" },
  ]);
}

function showTenants(tenants, usage, ledger) {
  setText(byId("charged-head"), `Charged, month, ${currency()}`);
  keyed(byId("tenants"), tenants, (tenant) => tenant.name, () =>
    el("tr", {}, el("td"), el("td", { class: "right num" }), el("td", {}, el("span", { class: "meter" }, el("i"))),
      el("td", { class: "right num" }), el("td", { class: "right num minor" })),
  (row, tenant) => {
    const used = usage.find((one) => one.tenant === tenant.name) ?? {};
    const week = ledger.find((one) => one.by.tenant === tenant.name);
    const budget = tenant.budget?.money_micros;
    setText(row.children[0], tenant.name);
    setText(row.children[1], money(used.spent_micros));
    meter(row.children[2].firstElementChild, budget ? (used.spent_micros ?? 0) / budget : null, budget ? `of ${money(budget)} ${currency()}` : "no budget");
    setText(row.children[3], money(week?.micros));
    setText(row.children[4], `${kilograms(week?.carbon_g)} kg`);
  });
}

function meter(node, part, title) {
  node.hidden = part === null;
  if (part === null) return;
  node.title = `${(part * 100).toFixed(1)} % ${title}`;
  node.dataset.level = part >= 1 ? "over" : part > 0.85 ? "near" : "well";
  node.firstElementChild.style.width = `${Math.min(100, part * 100)}%`;
}

function showWaste(items) {
  setText(byId("waste-head"), currency());
  keyed(byId("waste"), items.slice(0, 12), (one) => `${one.cluster}/${one.pool}/${one.cause}`, () =>
    el("tr", {}, el("td"), el("td"), el("td", { class: "right num" }), el("td", { class: "right num" })),
  (row, one) => {
    row.title = one.advice;
    setText(row.children[0], `${one.cluster}/${one.pool}`);
    setText(row.children[1], one.cause);
    setText(row.children[2], money(one.micros));
    setText(row.children[3], `${percent(one.part, 1)} %`);
  });
}

const turn = startView(show, redrawPlots);
byId("ahead-of").addEventListener("change", (event) => {
  view.tenant = event.target.value;
  turn();
});
for (const button of document.querySelectorAll(".switch button"))
  button.addEventListener("click", () => {
    for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
    if (button.dataset.step) view.step = button.dataset.step;
    if (button.dataset.figure) view.figure = button.dataset.figure;
    turn();
  });
