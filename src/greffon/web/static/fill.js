// Fill: words that were hidden, and what may stand there.

import { post } from "./api.js";
import { asking, empty, number, picker, writing } from "./desk.js";
import { bars, h } from "./dom.js";

export const id = "fill";
export const name = "Fill";
export const ability = "fill";

const MASK = "[MASK]";

export function make(state) {
  if (!state.able(ability).length) {
    return empty("Fill", "No masked run with weights is served. Pretrain one, and serve it:", [
      "greffon pretrain texts/ --objective masked --minutes 30 --out runs/masked", "greffon serve runs/masked"]);
  }
  const run = picker(state, ability);
  const text = writing("Text", `Ce livre est ${MASK}.`, `A text with ${MASK} in it`);
  const top = number("Candidates", 6, 1, 50);
  const region = h("div", { class: "answer" });

  const hide = () => {
    const { area } = text;
    const [from, to] = [area.selectionStart, area.selectionEnd];
    area.setRangeText(MASK, from, to, "end");
    area.focus();
  };

  const desk = asking({
    name: "Fill", busy: "Guessing", region,
    parts: [run.element, text.element,
      h("button", { class: "plain small", type: "button", onclick: hide }, `Mask the selected word`),
      h("details", {}, h("summary", {}, "Number of candidates"), h("div", { class: "fields" }, top.element))],
    answer: async (signal, show) => {
      const asked = text.area.value;
      const masks = await post("fill", { run: run.chosen().name, text: asked, top_k: top.value }, signal);
      const chosen = masks.map((mask) => mask.candidates[0].token);
      const sentence = h("p", { class: "text", lang: "" });
      const lists = h("div", { class: "slots" });
      const draw = () => {
        // The mask stands for the space before it, too; so does a token.
        const parts = asked.split(MASK).map((part, at, all) => (at < all.length - 1 ? part.replace(/ $/, "") : part));
        sentence.replaceChildren(...parts.flatMap((part, at) => {
          if (at === parts.length - 1) return [part];
          const gap = chosen[at].startsWith(" ") ? " " : "";
          return [part, gap, h("mark", { class: "slot" }, chosen[at].slice(gap.length))];
        }));
        lists.replaceChildren(...masks.map((mask, at) => h("div", {},
          h("h3", {}, masks.length > 1 ? `Word ${at + 1}` : "Candidates"),
          bars(mask.candidates.map((one) => ({ name: one.token, share: one.probability, mine: one.token === chosen[at] })),
            (token) => { chosen[at] = token; draw(); lists.children[at].querySelector(".mine").focus(); }))));
      };
      draw();
      show(sentence, lists, h("p", { class: "note" }, "Each mask is predicted independently of the others. ␣ marks a token that begins a new word."));
    },
  });

  return {
    elements: [h("h1", {}, "Fill"),
      h("p", { class: "lead" }, "The model predicts each masked token from the text on both sides. Choose a candidate to insert it."),
      h("div", { class: "desk" }, h("div", {}, desk.form, region))],
    enter: run.enter,
    leave: desk.stop,
  };
}
