// A run or a comparison in the list: made once, brought up to date in place, so that what is open stays open.

import { get } from "./api.js";
import { count, h, percent, short } from "./dom.js";

const NAMES = { loss: "Loss", bits_per_byte: "Bits per byte", accuracy: "Accuracy", bleu: "BLEU", micro_f1: "Micro F1", span_f1: "Span F1", mae: "Mean absolute error", test_accuracy: "Accuracy on test", test_loss: "Loss on test" };
const KINDS = { causal: "causal language model", masked: "masked language model", contrastive: "contrastive body", body: "body", classify: "classifier", seq2seq: "translator" };

export const scoreName = (score) => NAMES[score] ?? score.replaceAll("_", " ");
// The usual scores first, in their usual order.
export const scoreRank = (score) => (Object.keys(NAMES).indexOf(score) + 99) % 99;

export function runEntry(first, shown, toggle) {
  const facts = h("p", { class: "facts" });
  const badge = h("span", {});
  const progress = h("progress", { "aria-label": `Progress of ${first.name}` });
  const box = h("input", { type: "checkbox", checked: shown, "aria-label": `Show the curve of ${first.name}`, onchange: () => toggle(box.checked) });
  const ledger = folded("Parameters by component", (body) => fillLedger(body, first.name));
  const update = (run) => {
    badge.className = `badge ${run.state}`;
    badge.textContent = run.state;
    box.disabled = run.state === "damaged";
    facts.textContent = run.problem ?? told(run);
    progress.hidden = run.state !== "training";
    progress.max = run.steps || 1;
    progress.value = run.steps_done;
    ledger.hidden = Boolean(run.problem);
  };
  update(first);
  const about = h("div", {}, h("header", {}, h("h3", { class: "name" }, first.name), badge), facts, progress, ledger);
  return { element: h("li", { class: "entry" }, box, about), update };
}

function told(run) {
  const scores = Object.entries(run.scores).filter(([score]) => score !== "step").slice(0, 3).map(([score, value]) =>
    `${scoreName(score).toLowerCase()} ${value === null ? "–" : score.includes("accuracy") ? percent(value) : short(value)}`);
  return [
    `${KINDS[run.objective]}, ${run.preset}`,
    `${count(run.parameters)} parameters`,
    run.steps ? `step ${count(run.steps_done)} of ${count(run.steps)}` : "not started",
    run.seconds < 90 ? `${Math.round(run.seconds)} s` : `${Math.round(run.seconds / 60)} min`,
    ...(scores.length ? [`best: ${scores.join(", ")}`] : []),
  ].join(" · ");
}

async function fillLedger(body, name) {
  const ledger = await get(`/api/runs/${encodeURIComponent(name)}/ledger`);
  const row = (one) => h("tr", {}, h("td", {}, one.name), h("td", {}, one.formula), h("td", { class: "number" }, count(one.count)));
  body.replaceChildren(h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Parameters of ${name}` }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Component"), h("th", { scope: "col" }, "Formula"), h("th", { scope: "col", class: "number" }, "Parameters"))),
    h("tbody", {}, ledger.components.map(row)),
    h("tfoot", {}, h("tr", {}, h("td", { colspan: 2 }, "All"), h("td", { class: "number" }, count(ledger.total)))))));
}

export function comparisonEntry(first) {
  const said = h("p", { class: "said" });
  const arms = h("p", { class: "facts" });
  const badge = h("span", {}, "comparison");
  const report = folded("The report", (body) => body.replaceChildren(h("iframe", {
    class: "report", sandbox: "", title: `Report of ${first.name}`, src: `/api/comparisons/${encodeURIComponent(first.name)}/report`,
  })));
  const update = (comparison) => {
    said.textContent = comparison.verdict ?? "This comparison is not finished; its verdict and report appear here when it is.";
    badge.className = `badge ${comparison.verdict ? "finished" : "stopped"}`;
    const written = (mean) => (comparison.metric === "accuracy" ? `${(100 * mean).toFixed(1)} %` : short(mean));
    const means = Object.entries(comparison.arms).map(([arm, mean]) => `${arm} ${written(mean)}`);
    arms.textContent = means.length ? `${scoreName(comparison.metric)} on test: ${means.join(", ")}` : "";
    report.hidden = !comparison.verdict;
  };
  update(first);
  const about = h("div", {}, h("header", {}, h("h3", { class: "name" }, first.name), badge), said, arms, report);
  return { element: h("li", { class: "entry" }, h("span", {}), about), update };
}

// What unfolds is fetched when it is first opened.
function folded(title, fill) {
  const body = h("div", {}, h("p", { class: "waiting" }, "Fetching"));
  let filled = false;
  return h("details", {
    class: "more",
    ontoggle: async (event) => {
      if (!event.target.open || filled) return;
      filled = true;
      try {
        await fill(body);
      } catch (problem) {
        filled = false;
        body.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message));
      }
    },
  }, h("summary", {}, title), body);
}
