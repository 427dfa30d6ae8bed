// All texts: searched, listed by what was done with them, and changed.

import { unique } from "../api.js";
import { field, h } from "../dom.js";
import { several } from "./judge.js";

export const id = "texts";
export const name = "Texts";

const LISTS = [
  ["labelled", "Labelled"], ["doubts", "Look again: the model doubts the label"], ["conflicts", "Look again: equal texts, different labels"],
  ["twice", "Look again: judged twice, differently"], ["flagged", "Flagged as odd"], ["skipped", "Skipped"], ["all", "All texts"],
];
const DONE = { label: "", skip: "skipped", flag: "flagged as odd", "": "not judged yet" };

export function make(state) {
  const which = h("select", { onchange: () => list() }, LISTS.map(([value, words]) => h("option", { value }, words)));
  const query = h("input", { type: "search", maxlength: "200", autocomplete: "off", spellcheck: "false" });
  const found = h("ul", { class: "found" });
  const status = h("p", { class: "note", role: "status" });
  const more = h("button", { class: "plain small", type: "button", hidden: true, onclick: () => list(found.children.length) }, "More");
  const form = h("form", { class: "ask", onsubmit: (event) => { event.preventDefault(); if (query.value.trim()) which.value = "all"; list(); } },
    h("div", { class: "fields" }, field("Search", query), field("Show", which)),
    h("div", { class: "row" }, h("button", { class: "go", type: "submit" }, "Search")));

  let asked = 0;
  async function list(offset = 0) {
    const mine = ++asked;
    try {
      const answer = await state.ask("browse", { which: which.value, query: query.value, offset });
      if (mine !== asked) return;
      if (!offset) found.replaceChildren();
      found.append(...answer.texts.map(entry));
      more.hidden = !answer.more;
      status.textContent = found.children.length ? `${found.children.length} texts${answer.more ? ", and there are more" : ""}.` : "No text.";
    } catch (problem) {
      status.textContent = problem.message;
    }
  }

  function entry(one) {
    const parts = ["text", "second"].filter((name) => one[name] !== undefined).map((name) => [name, h("p", { class: "text", lang: "" }, one[name])]);
    const whole = one.clipped ? h("button", { class: "link", type: "button", onclick: async () => {
      const all = await state.ask("text", { text: one.index });
      for (const [name, part] of parts) part.textContent = all[name];
      whole.remove();
    } }, "Show the whole text") : null;
    const facts = h("p", { class: "facts" });
    const tell = (words) => { facts.textContent = words.filter(Boolean).join(" · "); };
    tell([DONE[one.kind], one.kind === "label" && !one.label ? "no label" : "", one.note, one.aside ? "kept aside" : "", one.author, one.time.slice(0, 16).replace("T", " ")]);
    async function change(label) {
      try {
        await state.ask("mark", { kind: "label", text: one.index, label, how: "list", key: unique(), client: state.client, author: state.author() });
        const words = label.replaceAll("|", ", ") || "no label";
        tell([`now ${words}`]);
        status.textContent = `Labelled: ${words}.`;
        return true;
      } catch (problem) {
        status.textContent = problem.message;
        return false;
      }
    }
    return h("li", {}, h("div", {}, parts.map(([, part]) => part), whole, facts), several(state.session) ? boxes(one, change) : choice(one, change));
  }

  function choice(one, change) {
    const select = h("select", { onchange: async () => { if (await change(select.value)) before = select.value; else select.value = before; } },
      h("option", { value: "", disabled: true, selected: one.kind !== "label" }, "no label"),
      state.session.labels.map((label) => h("option", { value: label, selected: one.kind === "label" && label === one.label }, label)));
    let before = select.value;
    return field("Label", select);
  }

  // Each box that is ticked or not is a change of its own, one after another.
  function boxes(one, change) {
    let last = Promise.resolve();
    const own = one.label.split("|");
    const all = state.session.labels.map((label) => h("input", { type: "checkbox", value: label, checked: own.includes(label), onchange: ({ target }) => {
      last = last.then(async () => {
        if (!await change(all.filter((box) => box.checked).map((box) => box.value).sort().join("|"))) target.checked = !target.checked;
      });
    } }));
    return h("fieldset", { class: "marks" }, h("legend", { class: "label" }, "Labels"), all.map((box) => h("label", { class: "check" }, box, box.value)));
  }

  return {
    elements: [h("h1", {}, "Texts"), h("p", { class: "lead" }, "Search all texts, look at what was labelled, and change it."), form, status, found, more],
    enter: () => list(),
    search: () => query.focus(),
  };
}
