// Translate, with the cross-attention between both sides.

import { post } from "./api.js";
import { asking, empty, number, picker, writing } from "./desk.js";
import { choosable, h, inText, percent, segments, shade as strength } from "./dom.js";

export const id = "translate";
export const name = "Translate";
export const ability = "translate";

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Translate", "No translator with weights is served. Train one on pairs of sentences, and serve it:", [
      "greffon pretrain --objective seq2seq --source train.en --target train.fr --minutes 60 --out runs/en-fr", "greffon serve runs/en-fr"]);
  }
  const run = picker(state, ability);
  const text = writing("Sentence", "Two dogs run on the beach.", "A sentence to translate");
  const beam = number("Beam size (1: greedy)", 4, 1, 16);
  const penalty = number("Length penalty", 1, 0, 10, "any");
  const region = h("div", { class: "answer" });

  const desk = asking({
    name: "Translate", busy: "Translating", region,
    parts: [run.element, text.element,
      h("details", {}, h("summary", {}, "Search"), h("div", { class: "fields" }, beam.element, penalty.element))],
    answer: async (signal, show) => {
      const asked = { run: run.chosen().name, texts: [text.area.value], beam_size: beam.value, length_penalty: penalty.value };
      const [made] = await post("translate", asked, signal);
      const said = h("p", { class: "verdict", lang: "" }, made.translation || "(nothing)");
      const note = h("p", { class: "note" }, `Score ${made.score.toFixed(3).replace("-", "−")}: log-probability divided by length to the power of the length penalty.`);
      show(said, note, h("p", { class: "waiting" }, "Computing the attention"));
      if (!made.source.trim()) return show(said, note);
      const looked = (layer) => post("attention", { run: asked.run, text: made.source, to: made.translation, kind: "cross", layer }, signal);
      show(said, note, alignment(await looked(null), looked));
    },
  });

  return {
    elements: [h("h1", {}, "Translate"),
      h("p", { class: "lead" }, "Choose a token of either side to see its cross-attention with the other side."),
      h("div", { class: "desk" }, h("div", {}, desk.form, region))],
    enter: run.enter,
    leave: desk.stop,
  };
}

// Two lines of tokens; the weights of the chosen one are the shades of the other line.
function alignment(first, looked) {
  let found = first;
  let head = "all";
  let last = null;
  const status = h("p", { class: "note", role: "status" }, "Choose a token.");
  const { spans: source, nodes: sourceLine } = inText(found.keys, { class: "shaded", "--share": "0" });
  const { spans: target, nodes: targetLine } = inText(found.queries, { class: "shaded", "--share": "0" });
  const weight = (query, key) =>
    head === "all" ? found.weights.reduce((sum, one) => sum + one[query][key], 0) / found.heads : found.weights[head - 1][query][key];

  const shade = (line, shares) => {
    line.forEach((span, at) => span.style.setProperty("--share", strength(shares[at])));
    const most = Math.max(...shares);
    const best = shares.indexOf(most);
    status.textContent = `Strongest: “${line[best].textContent.trim()}”, ${percent(most)}.`;
  };
  const clear = (line) => line.forEach((span) => span.style.setProperty("--share", "0"));
  const fromTarget = (query) => { last = () => fromTarget(query); clear(target); shade(source, found.keys.map((_, key) => weight(query, key))); };
  const fromSource = (key) => { last = () => fromSource(key); clear(source); shade(target, found.queries.map((_, query) => weight(query, key))); };
  choosable(target, fromTarget);
  choosable(source, fromSource);

  const problem = h("div");
  const layers = segments("Layer", Array.from({ length: found.layers }, (_, at) => [at + 1, String(at + 1)]), found.layer, async (layer) => {
    try {
      found = await looked(layer);
      problem.replaceChildren();
      last?.();
    } catch (failed) {
      problem.replaceChildren(h("p", { class: "problem", role: "alert" }, failed.message));
    }
  });
  const heads = segments("Head", [["all", "mean of all"], ...Array.from({ length: found.heads }, (_, at) => [at + 1, String(at + 1)])], "all", (chosen) => {
    head = chosen;
    last?.();
  });
  return h("section", { class: "answer" },
    h("h2", {}, "Cross-attention"),
    h("div", { class: "row" }, layers, heads),
    h("div", { class: "pair answer" },
      h("div", {}, h("p", { class: "label" }, "Source"), h("p", { class: "text", lang: "" }, sourceLine)),
      h("div", {}, h("p", { class: "label" }, "Translation"), h("p", { class: "text", lang: "" }, targetLine))),
    status, problem);
}
