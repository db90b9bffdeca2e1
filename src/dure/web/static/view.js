// What every view beside the map shares: the bar, the theme, problems in words, one reading after the other.

import { byId, setText } from "./dom.js";
import { day, time } from "./format.js";
import { read } from "./api.js";
import { prepareWhy } from "./why.js";

let status = null;
export const currency = () => status?.currency ?? "KRW";
export const fleetStatus = () => status;

// `show` reads and shows; `redraw` is called when the colours change. Read again every `everyMs` while in sight.
export function startView(show, redraw, everyMs = 5000) {
  let busy = false;
  async function turn() {
    if (busy || document.hidden) return;
    busy = true;
    try {
      status = await read("/v1/status");
      showBar();
      await show(status);
      byId("problem").hidden = true;
      mark("on", "live");
    } catch (problem) {
      byId("problem").hidden = false;
      setText(byId("problem"), [problem.message, problem.remedy].filter(Boolean).join(" "));
      mark("lost", "no answer");
    } finally {
      busy = false;
    }
  }
  if (byId("why")) prepareWhy();
  byId("theme").addEventListener("click", () => {
    const root = document.documentElement;
    root.dataset.theme = getComputedStyle(root).colorScheme === "dark" ? "light" : "dark";
    localStorage.setItem("dure-theme", root.dataset.theme);
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  document.addEventListener("visibilitychange", turn);
  setInterval(turn, everyMs);
  turn();
  return turn;
}

function showBar() {
  setText(byId("fleet-name"), status.name);
  byId("demo").hidden = !status.demo;
  setText(byId("clock"), `${day(status.now_s)} ${time(status.now_s)}${(status.speed ?? 1) === 1 ? "" : ` ×${status.speed}`}`);
}

function mark(state, word) {
  byId("live").dataset.state = state;
  setText(byId("live"), word);
}
