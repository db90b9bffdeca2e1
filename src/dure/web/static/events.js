// Events as they happen. The browser reconnects by itself and tells the server the last one it saw.

import { byId, el } from "./dom.js";
import { time } from "./format.js";
import { read } from "./api.js";

const KEPT = 150;
// Nobody reads sixty lines a second: they are drawn together, eight times a second.
const FLUSH_MS = 120;
const FEW = 4;
let waiting = [];
let drawing = false;

export async function startEvents(onNews) {
  const past = await read("/v1/events?newest=true&limit=60");
  for (const event of past.items) add(event, false);
  const last = past.items.at(-1)?.seq ?? 0;
  const source = new EventSource(`/v1/events?after=${last}`);
  source.addEventListener("open", () => live("on", "live"));
  source.addEventListener("error", () => live("lost", source.readyState === EventSource.CLOSED ? "stopped" : "reconnecting"));
  source.addEventListener("dure", (message) => {
    waiting.push(JSON.parse(message.data));
    if (!drawing) setTimeout(() => requestAnimationFrame(flush), FLUSH_MS);
    drawing = true;
    onNews();
  });
}

function flush() {
  drawing = false;
  const fresh = waiting.slice(-KEPT);
  waiting = [];
  // Where many come at once, none of them needs to catch the eye.
  for (const event of fresh) add(event, fresh.length < FEW);
}

function add(event, fresh) {
  const list = byId("events");
  const level = event.level ?? "info";
  list.prepend(el("li", { class: fresh ? "new" : null, "data-level": level, "data-seq": event.seq },
    el("time", { datetime: new Date(event.at_s * 1000).toISOString() }, time(event.at_s)), el("span", {}, event.message)));
  while (list.children.length > KEPT) list.lastElementChild.remove();
}

function live(state, word) {
  byId("live").dataset.state = state;
  byId("live").textContent = word;
}
