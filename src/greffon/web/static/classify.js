// Classify: a label, its probability, and the words that speak for it or against it.

import { post } from "./api.js";
import { asking, empty, picker, writing } from "./desk.js";
import { bars, h } from "./dom.js";

export const id = "classify";
export const name = "Classify";
export const ability = "occlude";

const points = (share) => `${share < 0 ? "−" : "+"}${Math.abs(100 * share).toFixed(1)}`;

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Classify", "No classifier is served. Fine-tune a pretrained body on labelled texts, and serve it:", [
      "greffon finetune runs/body --train train.csv --out runs/reviews", "greffon serve runs/reviews"]);
  }
  const run = picker(state, ability);
  const text = writing("Text", "Un livre magnifique, que j'ai lu sans m'arrêter.", "A text to label");
  const region = h("div", { class: "answer" });

  const desk = asking({
    name: "Classify", busy: "Classifying, with and without each word", region,
    parts: [run.element, text.element],
    answer: async (signal, show) => {
      const asked = { run: run.chosen().name, text: text.area.value };
      show(...answer(await post("occlude", asked, signal), (label) => about(asked, label)));
    },
  });

  // Another label was chosen: what speaks for that one?
  async function about(asked, label) {
    try {
      region.replaceChildren(...answer(await post("occlude", { ...asked, label }), (other) => about(asked, other)));
      region.querySelector(".mine").focus();
    } catch (problem) {
      region.append(h("p", { class: "problem", role: "alert" }, problem.message));
    }
  }

  function answer(found, ask) {
    const labels = Object.entries(found.probabilities).sort((a, b) => b[1] - a[1]);
    const most = Math.max(...found.words.map((one) => Math.abs(one.influence)), 1e-9);
    const words = found.words.map((one) => {
      const gap = one.word.startsWith(" ") ? " " : "";
      const strength = (Math.abs(one.influence) / most) * (most > 0.005 ? 1 : 0.1);
      const word = h("span", {
        class: `shaded${one.influence < 0 && strength > 0.15 ? " against" : ""}`, "--share": strength.toFixed(3),
        "--shade": one.influence < 0 ? "var(--against)" : "var(--accent)",
        title: `${points(one.influence)} points`,
      }, one.word.slice(gap.length));
      return [gap, word];
    });
    const ranked = [...found.words].filter((one) => one.word.trim()).sort((a, b) => Math.abs(b.influence) - Math.abs(a.influence)).slice(0, 8);
    return [
      h("p", { class: "verdict" }, labels[0][0]),
      bars(labels.map(([label, share]) => ({ name: label, share, mine: label === found.label, does: (which) => `Influence of the words on ${which}` })), ask),
      found.words.length ? h("section", { class: "answer" },
        h("h2", {}, `Influence of each word on “${found.label}”`),
        h("p", { class: "text", lang: "" }, words.flat(), found.unread ? h("span", { class: "unread" }, found.unread) : null),
        h("ul", { class: "legend" },
          h("li", {}, h("span", { class: "swatch", "--shade": "var(--accent)" }), "for the label"),
          h("li", {}, h("span", { class: "swatch", "--shade": "var(--against)" }), "against the label (dotted)")),
        found.unread ? h("p", { class: "note" }, "The text is longer than the context of this run; its end was not read.") : null,
        h("details", { class: "note" }, h("summary", {}, "The most influential words as a table"),
          h("table", {},
            h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Word"), h("th", { scope: "col", class: "number" }, "Fall of the probability without it, in percentage points"))),
            h("tbody", {}, ranked.map((one) => h("tr", {}, h("td", { lang: "" }, one.word.trim()), h("td", { class: "number" }, points(one.influence))))))),
        h("p", { class: "note" }, "The text is classified again without each word in turn."),
      ) : h("p", { class: "note" }, "The text is empty: these are the probabilities without any text."),
    ];
  }

  return {
    elements: [h("h1", {}, "Classify"),
      h("p", { class: "lead" }, "The label of a text with its probability, and the influence of each word: how the probability changes when the word is left out."),
      h("div", { class: "desk" }, h("div", {}, desk.form, region))],
    enter: run.enter,
    leave: desk.stop,
  };
}
