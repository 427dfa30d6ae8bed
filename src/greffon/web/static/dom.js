// Building elements: h("p", {class: "note"}, "text", child). Text is always text, never markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  set(element, properties);
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, properties = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  set(element, properties);
  element.append(...children);
  return element;
}

function set(element, properties) {
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) element.style.setProperty(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
}

let counted = 0;
export const fresh = (what) => `${what}-${++counted}`;

export const percent = (share) =>
  share >= 0.0995 ? `${(100 * share).toFixed(0)} %` : share >= 0.001 ? `${(100 * share).toFixed(1)} %` : "< 0.1 %";
export const count = (number) => number.toLocaleString("en");
export const short = (number) =>
  Math.abs(number) >= 1000 ? count(Math.round(number)) : String(Number(number.toPrecision(3)));

// A token as a person can see it: its own space is part of it, and a new line has a sign.
export function visible(token) {
  const name = token.replaceAll("\n", "↵").replaceAll("\t", "⇥");
  return name.startsWith(" ") ? h("span", { class: "name space" }, name.slice(1)) : h("span", { class: "name" }, name);
}

// Tokens as they stand in a text: a space before a token is not part of what is marked.
export function inText(tokens, properties = {}) {
  const spans = tokens.map((token) => {
    const kind = isText(token) ? "" : " special";
    return h("span", { ...properties, class: `${properties.class ?? ""}${kind}` }, gapless(token));
  });
  return { spans, nodes: spans.flatMap((span, at) => [gap(tokens[at]), span]) };
}
export const gapless = (token) => (token.length > 1 && token.startsWith(" ") ? token.slice(1) : token);
export const gap = (token) => (gapless(token) === token ? "" : " ");

// Not the roles of a tokenizer ("</s>"), nor pieces of a character ("\xc3"), which are no text by themselves.
export const isText = (token) => !/^(<\/?s>|<pad>|\[(CLS|SEP|MASK)\])$|\\x[0-9a-f]{2}/.test(token);

// How strongly a weight is shown: small ones should still be seen.
export const shade = (weight) => (weight ** 0.6).toFixed(3);

export function field(label, input) {
  input.id ||= fresh("field");
  return h("div", {}, h("label", { for: input.id }, label), input);
}

// A choice of few: radio buttons that look like one control.
export function segments(label, options, chosen, pick) {
  const name = fresh("choice");
  const choices = options.map(([value, text]) =>
    h("label", {}, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => pick(value) }), h("span", {}, text)),
  );
  return h("fieldset", {}, h("legend", { class: "label" }, label), h("div", { class: "segments" }, choices));
}

// Tokens in a line, of which one is chosen: by mouse, finger, or arrow keys. Returns a function that chooses.
export function choosable(elements, choose, label) {
  let current = -1;
  const at = (index, focus) => {
    if (index < 0 || index >= elements.length) return;
    elements[current]?.classList.remove("chosen");
    elements[current]?.setAttribute("tabindex", "-1");
    elements[current]?.setAttribute("aria-pressed", "false");
    current = index;
    elements[index].classList.add("chosen");
    elements[index].setAttribute("tabindex", "0");
    elements[index].setAttribute("aria-pressed", "true");
    if (focus) elements[index].focus();
    choose(index);
  };
  elements.forEach((element, index) => {
    element.classList.add("token");
    element.setAttribute("role", "button");
    element.setAttribute("tabindex", index ? "-1" : "0");
    element.setAttribute("aria-pressed", "false");
    if (label) element.setAttribute("aria-label", label(index));
    element.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && at(index));
    element.addEventListener("click", () => at(index, true));
    element.addEventListener("focus", () => current !== index && at(index));
    element.addEventListener("keydown", (event) => {
      const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: elements.length - 1 }[event.key];
      if (to === undefined && event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      at(to ?? index, true);
    });
  });
  return at;
}

export function bars(items, pick) {
  return h("ul", { class: "bars" }, items.map(({ name, share, mine, does }) => {
    const inside = [visible(name), h("span", { class: "share" }, percent(share))];
    const what = { class: mine ? "bar mine" : "bar", "--share": share.toFixed(4) };
    const bar = pick && isText(name)
      ? h("button", { ...what, type: "button", "aria-pressed": String(mine), "aria-label": does?.(name) ?? null, onclick: () => pick(name) }, inside)
      : h("div", what, inside);
    return h("li", {}, bar);
  }));
}
