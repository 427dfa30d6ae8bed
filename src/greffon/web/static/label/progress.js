// Where the labelling stands: the honest accuracy, the curve so far, and what more labels would bring.

import { STYLES, chart, sample } from "../chart.js";
import { bars, count, h } from "../dom.js";
import { measured, range } from "./judge.js";

export const id = "progress";
export const name = "Progress";

const points = (share) => `${(100 * share).toFixed(1)} %`;

export function make(state) {
  const region = h("div", {});
  let timer = null;
  let shown = "";

  async function refresh() {
    try {
      await state.refresh();
      const now = JSON.stringify(state.progress);
      if (now !== shown) draw(state.progress);
      shown = now;
    } catch (problem) {
      region.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message));
      shown = "";
    }
  }

  function draw(found) {
    const holder = h("div", { class: "chart" });
    region.replaceChildren(
      found.problem ? h("p", { class: "problem", role: "alert" }, `The labels are safe, but the numbers below are not up to date: ${found.problem}`) : "",
      h("section", {}, said(found).map((words) => h("p", { class: "narrow" }, words))),
      found.curve.length ? h("section", {}, h("h2", {}, `${title(found)} on the texts kept aside`), holder, legend(found), table(found)) : "",
      h("section", {}, h("h2", {}, "Labels so far"), h("div", { class: "narrow" }, bars(shares(found)))),
      h("section", {}, h("h2", {}, "Take them along"),
        h("p", { class: "narrow" }, h("a", { href: "/labels.csv", download: "labels.csv" }, "labels.csv"), " to train on, ",
          h("a", { href: "/aside.csv", download: "aside.csv" }, "aside.csv"), " to judge with. Both are also in ", h("code", {}, state.session.path), ":"),
        state.session.commands.map((command) => h("code", { class: "command" }, command))));
    if (found.curve.length) requestAnimationFrame(() => picture(holder, found));
  }

  const shares = (found) => {
    const total = Object.values(found.by_label).reduce((sum, number) => sum + number, 0);
    return Object.entries(found.by_label).map(([label, number]) => ({ name: `${label}: ${count(number)}`, share: total ? number / total : 0 }));
  };

  const title = (found) => measured(found).name.replace(/^./, (letter) => letter.toUpperCase());

  function said(found) {
    const words = [`${count(found.labels)} labels to train on, ${count(found.aside)} kept aside, ${count(found.skipped)} skipped, ${count(found.flagged)} flagged; ${count(state.session.texts)} texts in all.`];
    if (found.score) {
      words.push(found.metric === "accuracy"
        ? `The body is right about ${points(found.score.value)} of the ${count(found.score.n)} texts kept aside that it was tried on (95 % interval ${range(found.score.interval)}); TF-IDF with the same labels about ${points(found.tfidf.value)} (${range(found.tfidf.interval)}).`
        : `The body has a micro F1 of ${points(found.score.value)} on the ${count(found.score.n)} texts kept aside that it was tried on (95 % interval ${range(found.score.interval)}); TF-IDF with the same labels ${points(found.tfidf.value)} (${range(found.tfidf.interval)}).`);
    } else {
      words.push(`The ${measured(found).name} is not known yet: it needs two different labels, and some texts kept aside.`);
    }
    if (found.forecast) words.push(expected(found.forecast));
    else if (found.score) words.push("A forecast needs 10 texts kept aside.");
    if (found.agreement.n) {
      const kappa = found.agreement.kappa === null ? "" : `, Cohen’s kappa ${found.agreement.kappa.toFixed(2)}`;
      words.push(`${count(found.agreement.agreed)} of ${count(found.agreement.n)} second judgements agree with the first${kappa}.`);
    }
    if (found.doubts || found.conflicts) words.push(`To look at again, under Texts: ${count(found.doubts)} labels that the model doubts, ${count(found.conflicts)} equal texts with different labels.`);
    return words;
  }

  function expected(forecast) {
    const at = forecast.labels.findIndex((labels) => labels >= 2 * forecast.labels[0]);
    const twice = `With twice the labels, about ${points(forecast.value[at])} is to be expected (${range([forecast.low[at], forecast.high[at]])})`;
    if (forecast.aim === null) return `${twice}.`;
    const upTo = forecast.more_high === null ? "or more than can be foreseen" : `to ${count(forecast.more_high)}`;
    const aim = `${(100 * forecast.aim).toFixed(0)} %`;
    if (forecast.more_low === null) return `${twice}; ${aim} is out of reach with labels alone, as far as can be foreseen.`;
    const about = forecast.more === null ? "" : `about ${count(forecast.more)} more labels, `;
    return `${twice}; ${aim} would take ${about}${count(forecast.more_low)} ${upTo}.`;
  }

  function lines(found) {
    const made = [{ name: "so far", style: STYLES[0], held: found.curve.map((one) => [one.labels, 100 * one.value]), trained: [] }];
    if (found.tfidf) made.push({ name: "TF-IDF", style: STYLES[5], held: [[found.tfidf.labels, 100 * found.tfidf.value]], trained: [] });
    if (found.forecast) {
      const near = found.forecast.labels.map((labels, at) => [labels, at]).filter(([labels]) => labels <= 4 * found.forecast.labels[0]);
      const part = (values) => near.map(([labels, at]) => [labels, 100 * values[at]]);
      made.push({ name: "expected", style: STYLES[1], held: part(found.forecast.value), trained: part(found.forecast.low) });
      made.push({ name: "at best", style: STYLES[1], held: [], trained: part(found.forecast.high) });
    }
    return made;
  }

  function picture(holder, found) {
    const last = found.score;
    const describe = `${title(found)} against labels; ${points(last.value)} with ${last.labels} labels`;
    chart(holder, { lines: lines(found), xName: "labels", yName: `${measured(found).short} (%)`, describe, share: 1 });
  }

  const legend = (found) => h("ul", { class: "legend" },
    h("li", {}, sample(STYLES[0]), "the body, with the first 10, 14, 20, … labels"),
    found.tfidf ? h("li", {}, sample(STYLES[5]), "TF-IDF with all of them") : "",
    found.forecast ? h("li", {}, sample(STYLES[1]), "expected, and its 95 % band (thin)") : "");

  const table = (found) => h("details", { class: "note" }, h("summary", {}, "The curve as a table"),
    h("table", {},
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Labels"), h("th", { scope: "col", class: "number" }, title(found)), h("th", { scope: "col", class: "number" }, "95 % interval"))),
      h("tbody", {}, found.curve.map((one) => h("tr", {}, h("td", {}, count(one.labels)), h("td", { class: "number" }, points(one.value)), h("td", { class: "number" }, range(one.interval)))))));

  return {
    elements: [h("h1", {}, "Progress"), region],
    enter: () => { refresh(); timer = setInterval(refresh, 2000); },
    leave: () => clearInterval(timer),
  };
}
