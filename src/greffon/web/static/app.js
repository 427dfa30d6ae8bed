// The frame: tabs, and the list of runs that all tabs share.

import { get } from "./api.js";
import { h } from "./dom.js";
import * as answer from "./answer.js";
import * as attention from "./attention.js";
import * as classify from "./classify.js";
import * as fill from "./fill.js";
import * as generate from "./generate.js";
import * as runs from "./runs.js";
import { theme } from "./theme.js";
import * as translate from "./translate.js";

const TABS = [generate, fill, classify, answer, translate, attention, runs];

// The runs and comparisons that are served.
const state = {
  runs: [],
  comparisons: [],
  able: (ability) => state.runs.filter((run) => run.abilities.includes(ability)),
  refresh: async () => Object.assign(state, await get("/api/runs")),
};

const content = document.querySelector("main");
const shown = new Map();

function open(tab, focus) {
  for (const other of TABS) {
    const mine = other === tab;
    const button = document.getElementById(`tab-${other.id}`);
    button.setAttribute("aria-selected", String(mine));
    button.setAttribute("tabindex", mine ? "0" : "-1");
    if (mine && focus) button.focus();
    if (mine) button.scrollIntoView({ block: "nearest", inline: "nearest" });
    const panel = document.getElementById(`panel-${other.id}`);
    panel.hidden = !mine;
    if (!mine) shown.get(other)?.leave?.();
  }
  if (!shown.get(tab) || shown.get(tab).empty) {
    const made = tab.make(state);
    document.getElementById(`panel-${tab.id}`).replaceChildren(...made.elements);
    shown.set(tab, made);
  }
  shown.get(tab).enter?.();
  document.title = `${tab.name} · Greffon`;
  if (location.hash !== `#${tab.id}`) history.replaceState(null, "", `#${tab.id}`);
}

// A tab that can be used at once: that of the address, or the first that some run is able to serve.
const first = () =>
  TABS.find((tab) => `#${tab.id}` === location.hash) ?? TABS.find((tab) => tab.ability && state.able(tab.ability).length) ?? runs;

function frame() {
  const bar = document.querySelector(".tabs");
  TABS.forEach((tab, index) => {
    bar.append(
      h("button", {
        id: `tab-${tab.id}`, type: "button", role: "tab", "aria-controls": `panel-${tab.id}`,
        onclick: () => open(tab),
        onkeydown: (event) => {
          const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TABS.length - 1 }[event.key];
          if (to === undefined) return;
          event.preventDefault();
          open(TABS[(to + TABS.length) % TABS.length], true);
        },
      }, tab.name),
    );
    content.append(h("div", { id: `panel-${tab.id}`, role: "tabpanel", "aria-labelledby": `tab-${tab.id}`, hidden: true }));
  });
  addEventListener("hashchange", () => open(first()));
}

async function start() {
  const waiting = document.getElementById("starting");
  waiting.hidden = false;
  try {
    await state.refresh();
  } catch (problem) {
    waiting.hidden = true;
    const said = h("div", { class: "problem", role: "alert" }, h("p", {}, problem.message));
    said.append(h("button", { class: "plain", type: "button", onclick: () => { said.remove(); start(); } }, "Try again"));
    content.append(said);
    return;
  }
  waiting.remove();
  document.getElementById("version").textContent = ` · Greffon ${state.version}`;
  frame();
  open(first());
}

theme();
start();
