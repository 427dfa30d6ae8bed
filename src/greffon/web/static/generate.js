// Generate: a prompt continued token by token, with the most probable tokens at each place.

import { lines } from "./api.js";
import { asking, empty, number, picker, writing } from "./desk.js";
import { bars, choosable, gap, gapless, h, percent, visible } from "./dom.js";

export const id = "generate";
export const name = "Generate";
export const ability = "generate";

const lead = "The model continues your text, one token at a time. Choose a token to see the most probable tokens at its place, and to continue with one of them instead.";

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Generate", "No causal run with weights is served. Pretrain one on your own text, and serve it:", [
      "greffon pretrain texts/ --minutes 30 --out runs/body", "greffon serve runs/body"]);
  }
  const run = picker(state, ability);
  const prompt = writing("Prompt", "Bonjour les", "The beginning of a text");
  const tokens = number("Maximum of new tokens", 40, 1, 400);
  const temperature = number("Temperature", 0.8, 0, 100, "any");
  const share = number("Top-p", 0.95, 0.01, 1, "any");
  const top = number("Top-k (0: all)", 0, 0, 1000000);
  const seed = number("Seed", 0, 0, Number.MAX_SAFE_INTEGER);
  const region = h("div", { class: "answer" });
  const aside = h("aside", { class: "aside", "aria-label": "Most probable tokens", "aria-live": "polite" });
  let forced = null;

  const desk = asking({
    name: "Generate", busy: "Generating", region,
    parts: [run.element, prompt.element,
      h("details", {}, h("summary", {}, "Sampling"),
        h("div", { class: "fields" }, tokens.element, temperature.element, share.element, top.element, seed.element))],
    answer: async (signal, show) => {
      const start = forced ?? prompt.area.value;
      forced = null;
      const question = { run: run.chosen().name, prompt: start, max_new_tokens: tokens.value, temperature: temperature.value,
        top_k: top.value, top_p: share.value, seed: seed.value, alternatives: 6 };
      const written = [];
      const caret = h("span", { class: "caret" });
      const text = h("p", { class: "text", lang: "" }, h("span", { class: "given" }, start), caret);
      aside.replaceChildren(h("p", { class: "note" }, "Choose a generated token with the mouse, a finger or the arrow keys."));
      let begun = false;
      try {
        for await (const line of lines("generate/stream", question, signal)) {
          if (!begun) show(text, h("p", { class: "note" }, "Underlined: a token at least four times less probable than the most probable one."));
          begun = true;
          if (!line.written) continue;
          written.push(line.written);
          const { text: piece, probability, alternatives, end } = line.written;
          const rare = probability < alternatives[0].probability / 4;
          // A piece of a character adds no text yet, but it was a token, too.
          const sign = end ? " ∎" : piece || "·";
          caret.before(gap(sign), h("span", { class: `${piece ? "" : "special"}${rare ? " rare" : ""}` }, gapless(sign)));
        }
      } finally {
        caret.remove();
        const places = [...text.querySelectorAll("span:not(.given)")];
        if (begun) choosable(places, (at) => tell(start, written, at), (at) => `${places[at].textContent.trim() || "space"}, ${percent(written[at].probability)}`);
      }
      return `Done: ${written.length} tokens.`;
    },
  });

  function tell(start, written, at) {
    const { token, probability, alternatives, end } = written[at];
    const before = start + written.slice(0, at).map((one) => one.text).join("");
    const pick = (other) => { forced = before + other; desk.run(); };
    const choices = alternatives.map((one) => ({
      name: one.token, share: one.probability, mine: one.token === token,
      does: (other) => `Continue with “${other.trim() || other}” instead, ${percent(one.probability)}`,
    }));
    aside.replaceChildren(h("div", { class: "card" },
      h("p", { class: "word" }, end ? "The end of the text" : visible(token)),
      h("p", { class: "note" }, `Probability ${percent(probability)}, before temperature, top-k and top-p. Choose another token to continue with it.`),
      bars(choices, pick)));
  }

  return {
    elements: [h("h1", {}, "Generate"), h("p", { class: "lead" }, lead),
      h("div", { class: "desk" }, h("div", {}, desk.form, region), aside)],
    enter: run.enter,
    leave: desk.stop,
  };
}
