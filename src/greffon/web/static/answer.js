// Answer: what a run for several labels, scores, pairs of texts or spans says, in the form of its task.

import { post } from "./api.js";
import { asking, empty, picker, writing } from "./desk.js";
import { bars, h } from "./dom.js";

export const id = "answer";
export const name = "Answer";
export const ability = "answer";

const COLOURS = 6;

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Answer", "No run for labels, scores, pairs or spans is served. Fine-tune a body on such a file, and serve it:", [
      "greffon finetune runs/body --train names.conll --out runs/names", "greffon serve runs/names"]);
  }
  const run = picker(state, ability, () => two());
  const text = writing("Text", "", "A text");
  const second = writing("Second text", "", "The text to compare it with");
  const region = h("div", { class: "answer" });
  const two = () => { second.element.hidden = run.chosen()?.task !== "pairs"; };
  two();

  const desk = asking({
    name: "Ask", busy: "Reading the text", region,
    parts: [run.element, text.element, second.element],
    answer: async (signal, show) => {
      const chosen = run.chosen();
      const asked = { run: chosen.name, text: text.area.value };
      const found = await post("answer", chosen.task === "pairs" ? { ...asked, second: second.area.value } : asked, signal);
      show(...shown(found, asked.text));
    },
  });
  return {
    elements: [h("h1", {}, "Answer"),
      h("p", { class: "lead" }, "Labels with their probabilities, a score, or the spans of a text, as the run has learned to give them."),
      h("div", { class: "desk" }, h("div", {}, desk.form, region))],
    enter: () => { run.enter(); two(); },
    leave: desk.stop,
  };
}

function shown(found, text) {
  if (found.spans !== null) return marked(found.spans, text);
  if (found.score !== null) return scored(found.score, found.range);
  const given = new Set(found.labels ?? [found.label]);
  const verdict = found.labels === null ? found.label : found.labels.join(", ") || "No label";
  const sorted = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
  return [h("p", { class: "verdict" }, verdict), bars(sorted.map(([label, share]) => ({ name: label, share, mine: given.has(label) })))];
}

// Where the score stands among those of the training texts.
function scored(score, range) {
  const figure = h("p", { class: "verdict" }, Number(score.toPrecision(4)).toString());
  if (range === null) return [figure];
  const [low, high] = range;
  return [figure, h("label", { class: "note" }, `Between ${low.toPrecision(3)} and ${high.toPrecision(3)}, where most training texts are `,
    h("meter", { min: low, max: high, value: Math.min(high, Math.max(low, score)) }))];
}

function marked(spans, text) {
  const signs = [...text]; // offsets count characters, not UTF-16 units
  const labels = [...new Set(spans.map((span) => span.label))].sort();
  const shade = (label) => `hsl(${(360 * labels.indexOf(label)) / Math.max(labels.length, COLOURS)} 65% 55%)`;
  const parts = [];
  let end = 0;
  for (const span of spans) {
    parts.push(signs.slice(end, span.start).join(""));
    parts.push(h("mark", { class: "shaded", "--share": "0.6", "--shade": shade(span.label), title: `${span.label}, ${(100 * span.probability).toFixed(0)} %` }, span.text));
    end = span.end;
  }
  parts.push(signs.slice(end).join(""));
  return [
    h("p", { class: "text", lang: "" }, parts),
    h("ul", { class: "legend" }, labels.map((label) => h("li", {}, h("span", { class: "swatch", "--shade": shade(label) }), label))),
    spans.length ? h("table", {},
      h("thead", {}, h("tr", {}, ["Span", "Label"].map((name) => h("th", { scope: "col" }, name)), h("th", { scope: "col", class: "number" }, "Probability"))),
      h("tbody", {}, spans.map((span) => h("tr", {}, h("td", { lang: "" }, span.text), h("td", {}, span.label), h("td", { class: "number" }, span.probability.toFixed(2)))))) :
      h("p", { class: "note" }, "No span was found."),
  ];
}
