// Attention: choose a token, and see the weights of each head.

import { post } from "./api.js";
import { asking, empty, picker, writing } from "./desk.js";
import { choosable, field, h, inText, percent, segments, shade as strength, short } from "./dom.js";

export const id = "attention";
export const name = "Attention";
export const ability = "attention";

const KINDS = { source: "self-attention of the source", target: "self-attention of the translation", cross: "cross-attention, translation to source" };

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Attention", "No run with weights is served. Any kind will do:", [
      "greffon pretrain texts/ --minutes 30 --out runs/body", "greffon serve runs/body"]);
  }
  const kinds = h("select", {}, Object.entries(KINDS).map(([value, text]) => h("option", { value, selected: value === "cross" }, text)));
  const kindField = field("Kind of attention", kinds);
  const translates = (chosen) => { kindField.hidden = chosen?.objective !== "seq2seq"; };
  const run = picker(state, ability, translates);
  const text = writing("Text", "Le chat qui dort sur le livre ne lit pas.", "A sentence");
  const region = h("div", { class: "answer" });
  translates(run.chosen());

  const desk = asking({
    name: "Show attention", busy: "Computing the attention", region,
    parts: [run.element, text.element, kindField],
    answer: async (signal, show) => {
      const asked = { run: run.chosen().name, text: text.area.value, kind: kindField.hidden ? null : kinds.value };
      const layer = (number) => post("attention", { ...asked, layer: number }, signal);
      show(explorer(await layer(1), layer));
    },
  });

  return {
    elements: [h("h1", {}, "Attention"),
      h("p", { class: "lead" }, "Choose a token with the mouse, a finger or the arrow keys. Each line below is one head; the darker a token, the more weight the chosen token gives it."),
      h("div", {}, desk.form, region)],
    enter: run.enter,
    leave: desk.stop,
  };
}

function explorer(first, ask) {
  let found = first;
  let direction = "from";
  let current = Math.min(1, found.queries.length - 1);
  const whole = h("section", {});
  const strip = h("p", { class: "text", lang: "" });
  const heads = h("div", { class: "heads" });
  const status = h("p", { class: "quiet", role: "status" });
  const problem = h("div");
  let lines = [];

  const names = () => (direction === "from" ? found.queries : found.keys);
  const others = () => (direction === "from" ? found.keys : found.queries);
  const weight = (head, at) => found.weights[head][direction === "from" ? current : at][direction === "from" ? at : current];

  function shade() {
    lines.forEach((line, head) => line.forEach((span, at) => {
      span.style.setProperty("--share", strength(weight(head, at)));
      span.title = percent(weight(head, at));
    }));
    if (found.kind !== "cross") lines.forEach((line) => line.forEach((span, at) => span.classList.toggle("pinned", at === current)));
    const said = lines.map((line, head) => {
      const shares = line.map((_, at) => weight(head, at));
      const best = shares.indexOf(Math.max(...shares));
      return `head ${head + 1}: ${others()[best].trim()}, ${percent(shares[best])}`;
    });
    status.textContent = `“${names()[current].trim()}”. Strongest in ${said.join("; ")}.`;
  }

  function draw() {
    const { spans, nodes } = inText(names());
    strip.replaceChildren(...nodes);
    current = Math.min(current, spans.length - 1);
    const choose = choosable(spans, (at) => { current = at; shade(); });
    const made = Array.from({ length: found.heads }, () => inText(others(), { class: "shaded" }));
    lines = made.map(({ spans: line }) => line);
    heads.replaceChildren(...lines.map((line, head) => h("div", { class: "head" },
      h("h3", {}, `Head ${head + 1}`),
      h("p", { class: "habit" }, habit(found.habits[head])),
      h("p", { class: "text", lang: "" }, made[head].nodes))));
    choose(current);
  }

  const layers = segments("Layer", Array.from({ length: found.layers }, (_, at) => [at + 1, String(at + 1)]), found.layer, async (number) => {
    try {
      found = await ask(number);
      problem.replaceChildren();
      draw();
    } catch (failed) {
      problem.replaceChildren(h("p", { class: "problem", role: "alert" }, failed.message));
    }
  });
  const ways = segments("Show", [["from", "what it attends to"], ["to", "what attends to it"]], "from", (way) => { direction = way; draw(); });
  whole.append(h("div", { class: "row" }, layers, ways), h("div", { class: "answer" }, strip), status, problem, heads);
  draw();
  return whole;
}

function habit({ distance, entropy, previous, first, itself }) {
  const parts = [];
  if (distance !== null) parts.push(`mean distance ${short(distance)} tokens`);
  parts.push(`spread over ${short(2 ** entropy)} tokens`);
  if (previous !== null) parts.push(`previous token ${percent(previous)}`, `itself ${percent(itself)}`);
  parts.push(`first token ${percent(first)}`);
  return parts.join(" · ");
}
