// The tenants' queues over time: how many wait, how long those who got in had waited, how many got in.

import { byId, setText } from "./dom.js";
import { span } from "./format.js";
import { colour, isDark, learn } from "./tenants.js";
import { plot } from "./plot.js";

// More lines than this cannot be told apart; the others are in the data.
const MOST = 8;

export function showQueues(items, now) {
  const queues = grouped(items);
  learn(queues.keys());
  const busy = [...queues].map(([tenant, points]) => ({ tenant, points, weight: weightOf(points) }))
    .filter((one) => one.weight > 0).sort((a, b) => b.weight - a.weight || (a.tenant < b.tenant ? -1 : 1));
  const shown = busy.slice(0, MOST);
  byId("queues-none").hidden = shown.length > 0;
  setText(byId("queues-note"), shown.length ? told(shown, busy.length) : "");
  draw("chart-length", shown, (one) => one.waiting ?? 0, now);
  draw("chart-waited", shown, (one) => (one.waited_s === undefined || one.waited_s === null ? null : one.waited_s / 60), undefined, "~g");
  // The step under way is not over: one who got in a moment after it began would be a hundred an hour.
  const over = shown.map((one) => ({ ...one, points: one.points.length > 1 ? one.points.slice(0, -1) : one.points }));
  draw("chart-admitted", over, (one) => one.admitted_per_hour ?? 0, shown[0]?.points.at(-1).at_s);
}

function grouped(items) {
  const found = new Map();
  for (const one of items) {
    if (!found.has(one.tenant)) found.set(one.tenant, []);
    found.get(one.tenant).push(one);
  }
  return found;
}

const weightOf = (points) => points.reduce((sum, one) => sum + (one.waiting ?? 0) + (one.admitted ?? 0), 0);

function told(shown, all) {
  const last = shown.map(({ tenant, points }) => ({ tenant, now: points.at(-1) })).filter(({ now }) => now.waiting);
  const longest = last.sort((a, b) => b.now.oldest_s - a.now.oldest_s)[0];
  const now = longest ? `Longest waits ${longest.tenant}: ${longest.now.waiting} in its queue, the oldest for ${span(longest.now.oldest_s)}.` : "Nobody waits now.";
  return all > shown.length ? `${now} The ${shown.length} busiest of ${all} queues.` : now;
}

// With `until` a step holds its value to the end; without, a gap is a step in which nobody got in, so points have to show too.
function draw(id, shown, value, until, ticks) {
  plot(id, shown.map(({ tenant, points }) => {
    const drawn = points.map((one) => [one.at_s, value(one)]);
    if (until !== undefined) drawn.push([until, drawn.at(-1)[1]]);
    return { name: tenant, paint: () => colour(tenant, isDark()), points: drawn, shape: until ? "hv" : "linear", dots: !until };
  }), { ticks });
}
