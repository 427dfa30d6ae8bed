// What the tabs that ask a model have in common: a run to pick, a text, a button, and the states of an answer.

import { count, field, fresh, h } from "./dom.js";

// Nothing served can do this: say what would, with the commands.
export function empty(title, missing, commands) {
  return {
    empty: true,
    elements: [
      h("div", { class: "empty" },
        h("h1", {}, title),
        h("p", {}, missing),
        commands.map((command) => h("code", { class: "command" }, command)),
      ),
    ],
  };
}

const KINDS = { classify: "classifier", seq2seq: "translator" };

export function picker(state, ability, changed = () => {}) {
  const select = h("select", { onchange: () => changed(chosen()) });
  const chosen = () => state.runs.find((run) => run.name === select.value);
  const fillUp = () => {
    const names = state.able(ability).map((run) => run.name);
    if (names.join("\n") === [...select.options].map((option) => option.value).join("\n")) return;
    const before = select.value;
    select.replaceChildren(...state.able(ability).map((run) =>
      h("option", { value: run.name, selected: run.name === before },
        `${run.name} — ${KINDS[run.objective] ?? run.objective}, ${count(run.parameters)} parameters`)));
  };
  fillUp();
  return { element: field("Run", select), chosen, enter: fillUp };
}

export function writing(label, value, placeholder) {
  const area = h("textarea", { id: fresh("text"), rows: "3", maxlength: "20000", spellcheck: "false", placeholder });
  area.value = value;
  return { area, element: field(label, area) };
}

// A form whose answer may be awaited, stopped, or fail. `answer(signal, show)` fills the region.
export function asking({ name, busy, parts, region, answer }) {
  let running = null;
  const go = h("button", { class: "go", type: "submit" }, name);
  const stop = h("button", { class: "plain", type: "button", hidden: true, onclick: () => running?.abort() }, "Stop");
  const status = h("p", { class: "quiet", role: "status" });
  const form = h("form", {
    class: "ask",
    onsubmit: (event) => { event.preventDefault(); run(); },
    onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); run(); }
    },
  }, parts, h("div", { class: "row" }, go, stop, h("span", { class: "key" }, "Ctrl + Enter")), status);

  async function run() {
    running?.abort();
    const mine = (running = new AbortController());
    go.setAttribute("aria-busy", "true");
    stop.hidden = false;
    status.textContent = busy;
    region.replaceChildren(h("p", { class: "waiting" }, busy));
    try {
      const said = await answer(mine.signal, (...elements) => mine === running && region.replaceChildren(...elements));
      if (mine === running) status.textContent = said ?? "Done.";
    } catch (problem) {
      if (mine !== running) return;
      if (problem.name === "AbortError") {
        status.textContent = "Stopped.";
        region.querySelector(".waiting")?.remove();
      } else {
        status.textContent = "";
        region.querySelector(".waiting")?.remove();
        region.append(h("p", { class: "problem", role: "alert" }, problem.message));
      }
    } finally {
      if (mine === running) {
        running = null;
        go.removeAttribute("aria-busy");
        stop.hidden = true;
      }
    }
  }
  return { form, run, stop: () => running?.abort() };
}

export const number = (label, value, least, most, step = 1) => {
  const input = h("input", { type: "number", value, min: least, max: most, step, inputmode: "decimal", required: true });
  return { element: field(label, input), get value() { return Number(input.value); }, set value(next) { input.value = next; } };
};
