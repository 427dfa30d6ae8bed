// The page of a labelling session: three tabs over one state. Keys work wherever nothing is being typed.

import { get, post, unique } from "../api.js";
import { h } from "../dom.js";
import { theme } from "../theme.js";
import * as judge from "./judge.js";
import * as progress from "./progress.js";
import * as texts from "./texts.js";

const TABS = [judge, texts, progress];

// Who this tab is, so that its last mark can be taken back after a reload.
const client = sessionStorage.getItem("client") ?? unique();
sessionStorage.setItem("client", client);

const state = {
  client,
  session: null,
  progress: null,
  author: () => localStorage.getItem("author") ?? state.session.author,
  // The same key is sent until an answer comes, so that nothing is written twice.
  ask: async (name, question) => {
    const answer = await post(name, question);
    if (answer.progress) state.progress = answer.progress;
    return answer;
  },
  refresh: async () => { state.progress = await get("/api/progress"); },
  open: (id) => open(TABS.find((tab) => tab.id === id)),
};

const content = document.querySelector("main");
const made = new Map();
let current = null;

function open(tab, focus) {
  current = tab;
  for (const other of TABS) {
    const mine = other === tab;
    const button = document.getElementById(`tab-${other.id}`);
    button.setAttribute("aria-selected", String(mine));
    button.setAttribute("tabindex", mine ? "0" : "-1");
    if (mine && focus) button.focus();
    document.getElementById(`panel-${other.id}`).hidden = !mine;
    if (!mine) made.get(other).leave?.();
  }
  made.get(tab).enter?.();
  document.title = `${tab.name} · Greffon`;
  if (location.hash !== `#${tab.id}`) history.replaceState(null, "", `#${tab.id}`);
}

function frame() {
  const bar = document.querySelector(".tabs");
  TABS.forEach((tab, index) => {
    bar.append(h("button", {
      id: `tab-${tab.id}`, type: "button", role: "tab", "aria-controls": `panel-${tab.id}`,
      onclick: () => open(tab),
      onkeydown: (event) => {
        const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: TABS.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        open(TABS[(to + TABS.length) % TABS.length], true);
      },
    }, tab.name));
    const panel = h("div", { id: `panel-${tab.id}`, role: "tabpanel", "aria-labelledby": `tab-${tab.id}`, hidden: true });
    made.set(tab, tab.make(state));
    panel.append(...made.get(tab).elements);
    content.append(panel);
  });
}

const typing = (target) => target.closest("input:not([type=checkbox]), textarea, select") !== null;

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.key === "Escape") {
    if (typing(event.target)) event.target.blur();
    open(judge);
    return;
  }
  if (typing(event.target)) return;
  if (event.key === "/") { event.preventDefault(); open(texts); made.get(texts).search(); return; }
  if (event.key === "l") { open(texts); return; }
  if (event.key === "p") { open(progress); return; }
  if (current !== judge) return;
  // A key that is held down judges one text, not all that follow.
  if (event.repeat ? judge.KEYS.includes(event.key) : made.get(judge).key(event.key)) event.preventDefault();
}

async function start() {
  const waiting = document.getElementById("starting");
  waiting.hidden = false;
  try {
    state.session = await get("/api/session");
    await state.refresh();
  } catch (problem) {
    waiting.hidden = true;
    const said = h("div", { class: "problem", role: "alert" }, h("p", {}, problem.message));
    said.append(h("button", { class: "plain", type: "button", onclick: () => { said.remove(); start(); } }, "Try again"));
    content.append(said);
    return;
  }
  waiting.remove();
  document.getElementById("version").textContent = ` Greffon ${state.session.version}`;
  frame();
  open(TABS.find((tab) => `#${tab.id}` === location.hash) ?? judge);
  addEventListener("hashchange", () => open(TABS.find((tab) => `#${tab.id}` === location.hash) ?? judge));
  addEventListener("keydown", keys);
}

theme();
start();
