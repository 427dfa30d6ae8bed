// One text at a time: a digit labels it, or of several labels marks one, and Enter saves them; Backspace takes the last
// mark back. The next text appears once the label is on the disk.

import { unique } from "../api.js";
import { count, field, h, percent } from "../dom.js";

export const id = "label";
export const name = "Label";

const DIGITS = "1234567890";
export const KEYS = [...DIGITS, "Backspace", "Enter", "s", "f", "t"];

export function standing(progress) {
  const parts = [
    [count(progress.labels), " labels"], [count(progress.aside), " kept aside"],
    progress.score ? [percent(progress.score.value), ` ${measured(progress).short} (${range(progress.score.interval)})`] : ["", `${measured(progress).name}: not yet known`],
  ];
  return parts.map(([number, what]) => h("span", {}, h("b", {}, number), what));
}
export const measured = ({ metric }) =>
  metric === "accuracy" ? { name: "accuracy", short: "right" } : { name: "micro F1", short: "micro F1" };
export const several = (session) => session.task === "multilabel";
export const range = ([low, high]) => `${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)} %`;

export function make(state) {
  const labels = state.session.labels;
  let question = null; // the text that is shown
  let sending = null; // a request that was not answered yet
  let again = false;

  const counts = h("p", { class: "standing" });
  const aside = h("p", { class: "note aside" }, state.session.kept_aside);
  const text = h("p", { class: "text", lang: "" });
  const second = h("p", { class: "text", lang: "" });
  const pair = state.session.task === "pairs";
  const both = pair ? [h("p", { class: "label" }, "First text"), text, h("p", { class: "label" }, "Second text"), second] : text;
  const card = h("article", { class: "card", tabindex: "-1", "aria-label": pair ? "Pair of texts to label" : "Text to label" },
    h("div", { "aria-live": "polite", "aria-atomic": "true" }, both));
  const status = h("p", { class: "last", role: "status" });
  const region = h("div", {});
  const many = labels.length > DIGITS.length;

  const multiple = several(state.session);
  const boxes = multiple ? labels.map((_, at) => h("input", { type: "checkbox", "aria-keyshortcuts": DIGITS[at] ?? null })) : [];
  const inside = (label, at) => [at < DIGITS.length ? h("kbd", { "aria-hidden": "true" }, DIGITS[at]) : null, h("span", {}, label)];
  const choices = labels.map((label, at) => h("li", {}, multiple
    ? h("label", { class: "choice" }, boxes[at], inside(label, at))
    : h("button", { class: "choice", type: "button", "aria-keyshortcuts": DIGITS[at] ?? null, onclick: () => mark("label", label) }, inside(label, at))));
  const choose = (at) => { if (multiple) boxes[at].click(); else mark("label", labels[at]); };
  const save = () => mark("label", labels.filter((_, at) => boxes[at].checked).sort().join("|"));
  const list = h("ul", { class: "choices", "aria-label": "Labels" }, choices);
  const filter = h("input", { type: "search", autocomplete: "off", oninput: () => narrow(), onkeydown: (event) => {
    if (event.key !== "Enter" || event.repeat) return;
    const first = choices.findIndex((choice) => !choice.hidden);
    if (first < 0) return;
    const typed = filter.value.trim() !== "";
    filter.value = "";
    narrow();
    if (multiple && typed) { choose(first); return; }
    filter.blur();
    if (multiple) save(); else choose(first);
  } });
  const narrow = () => {
    const wanted = filter.value.trim().toLowerCase();
    choices.forEach((choice, at) => { choice.hidden = !labels[at].toLowerCase().includes(wanted); });
  };

  const does = (key, shown, words, what) =>
    h("button", { class: "plain small", type: "button", "aria-keyshortcuts": key, onclick: what }, words, " ", h("kbd", { "aria-hidden": "true" }, shown));
  const blind = h("input", { type: "checkbox", onchange: () => { again = blind.checked; next(); } });
  const author = h("input", { type: "text", maxlength: "100", autocomplete: "off", onchange: () => localStorage.setItem("author", author.value.trim()) });
  author.value = state.author();

  const desk = h("div", { class: "judge" }, card, many ? field(multiple ? "Find a label: type, then Enter (t comes here; an empty field saves)" : "Find a label: type, then Enter (Enter comes here)", filter) : null, list,
    h("div", { class: "does" },
      multiple ? h("button", { class: "go", type: "button", "aria-keyshortcuts": "Enter", onclick: save }, "Save ", h("kbd", { "aria-hidden": "true" }, "⏎")) : null,
      does("Backspace", "⌫", "Take back", undo), does("s", "s", "Skip", () => mark("skip")), does("f", "f", "Odd", () => mark("flag"))),
    status, region,
    h("details", { class: "note" }, h("summary", {}, "Keys, your name, second judgements"),
      h("p", {}, h("kbd", {}, "1"), multiple ? [" … marks a label, or takes it away · ", h("kbd", {}, "⏎"), " saves, also without a label · "] : " … labels · ", h("kbd", {}, "⌫"), " takes the last mark back · ", h("kbd", {}, "s"), " skips · ", h("kbd", {}, "f"),
        " flags a text as odd · ", h("kbd", {}, "/"), " searches · ", h("kbd", {}, "l"), " lists · ", h("kbd", {}, "p"), " shows progress · ", h("kbd", {}, "Esc"), " comes back here"),
      field("Your name, written beside your labels", author),
      h("p", { class: "note" }, h("label", { class: "check" }, blind, "Judge labelled texts a second time, without seeing the first label"))));

  function show(answer) {
    question = answer.question;
    boxes.forEach((box) => { box.checked = false; });
    counts.replaceChildren(...standing(state.progress));
    if (question) {
      text.textContent = question.text;
      second.textContent = question.second ?? "";
      card.scrollTop = 0;
      if (!desk.contains(document.activeElement) || document.activeElement.matches("button, [type=checkbox]")) card.focus({ preventScroll: true });
    } else {
      second.textContent = "";
      text.textContent = again ? "Every labelled text has a second judgement." : "No text is left: all are labelled, skipped or flagged.";
    }
    list.hidden = !question;
  }

  // Send until it is answered; meanwhile no key does anything, and nothing is lost.
  async function send(name, asked, said) {
    if (sending) return;
    sending = { name, asked, said };
    desk.setAttribute("aria-busy", "true");
    region.replaceChildren();
    try {
      const answer = await state.ask(name, asked);
      sending = null;
      show(answer);
      status.textContent = answer.note ? `${answer.note.charAt(0).toUpperCase()}${answer.note.slice(1)}.` : said;
    } catch (problem) {
      sending = null;
      status.textContent = "";
      region.replaceChildren(h("div", { class: "problem", role: "alert" }, h("p", {}, problem.message),
        h("button", { class: "plain", type: "button", onclick: () => send(name, asked, said) }, "Try again")));
    } finally {
      desk.removeAttribute("aria-busy");
    }
  }

  const key = () => unique();
  const who = () => ({ client: state.client, author: state.author() });
  function mark(kind, label = "") {
    if (!question) return;
    const said = { label: `Labelled ${label.replaceAll("|", ", ") || "with none"}.`, skip: "Skipped.", flag: "Flagged as odd." }[kind];
    send("mark", { kind, text: question.index, label, key: key(), how: again ? "again" : "asked", ...who() }, said);
  }
  function undo() { send("undo", { client: state.client, key: key() }, "Taken back."); }
  function next() { return send("next", { again, ...who() }, ""); }

  return {
    elements: [h("h1", { class: "quiet" }, "Label"), counts, aside, desk],
    enter: () => { if (question === null) next(); else counts.replaceChildren(...standing(state.progress)); },
    key: (pressed) => {
      const at = DIGITS.indexOf(pressed);
      if (at >= 0 && at < labels.length) choose(at);
      else if (pressed === "Backspace") undo();
      else if (pressed === "s") mark("skip");
      else if (pressed === "f") mark("flag");
      else if (pressed === "Enter" && document.activeElement.matches("button, summary")) return false;
      else if (pressed === "Enter" && multiple) save();
      else if (many && pressed === (multiple ? "t" : "Enter")) filter.focus();
      else return false;
      return true;
    },
  };
}
