// Runs: curves while they train, several together; what each is, its ledger, and reports of comparisons.

import { get } from "./api.js";
import { chart, sample, STYLES } from "./chart.js";
import { count, h, percent, segments, short } from "./dom.js";

export const id = "runs";
export const name = "Runs";

const OFTEN = 2000;
const SELDOM = 15000;
const NAMES = { loss: "Loss", bits_per_byte: "Bits per byte", accuracy: "Accuracy", bleu: "BLEU", test_accuracy: "Accuracy on test", test_loss: "Loss on test" };
const called = (score) => NAMES[score] ?? score.replaceAll("_", " ");
const KINDS = { causal: "causal language model", masked: "masked language model", classify: "classifier", seq2seq: "translator" };

export function make(state) {
  const curves = new Map();
  const charted = new Set(state.runs.filter((run) => run.state !== "damaged").slice(0, STYLES.length).map((run) => run.name));
  let score = "loss";
  let axis = "steps";
  let timer = null;
  const holder = h("div", { class: "chart" });
  const controls = h("div", { class: "row" });
  const legend = h("ul", { class: "legend" });
  const list = h("ul", { class: "runs" });
  const trouble = h("div");
  const styleOf = (run) => STYLES[state.runs.findIndex((one) => one.name === run) % STYLES.length];

  async function load() {
    const wanted = state.runs.filter((run) => charted.has(run.name) && (run.state === "training" || !curves.has(run.name)));
    await Promise.all(wanted.map(async (run) => curves.set(run.name, await get(`/api/runs/${encodeURIComponent(run.name)}/curve`))));
  }

  function draw() {
    const shown = state.runs.filter((run) => charted.has(run.name) && curves.has(run.name));
    const scores = [...new Set(shown.flatMap((run) => {
      const { training, held_out } = curves.get(run.name);
      return [...Object.keys(training), ...Object.keys(held_out)];
    }))].sort((a, b) => (Object.keys(NAMES).indexOf(a) + 99) % 99 - (Object.keys(NAMES).indexOf(b) + 99) % 99);
    if (scores.length && !scores.includes(score)) score = scores[0];
    const focused = controls.contains(document.activeElement) ? document.activeElement.value : null;
    controls.replaceChildren(...(scores.length ? [
      segments("Score", scores.map((one) => [one, called(one)]), score, (one) => { score = one; draw(); }),
      segments("Against", [["steps", "steps"], ["minutes", "minutes"]], axis, (one) => { axis = one; draw(); }),
    ] : []));
    if (focused) controls.querySelector(`input[value="${CSS.escape(focused)}"]`)?.focus();
    const place = ([step, seconds, value]) => [axis === "steps" ? step : seconds / 60, value];
    const lines = shown.map((run) => {
      const { training, held_out } = curves.get(run.name);
      return { name: run.name, style: styleOf(run.name), held: (held_out[score] ?? []).map(place), trained: (training[score] ?? []).map(place) };
    }).filter((line) => line.held.length || line.trained.length);
    if (!lines.length) {
      holder.replaceChildren(h("p", { class: "note" }, charted.size ? "Nothing has been logged yet. The curve appears as soon as the training says something." : "Choose runs below to see their curves together."));
      legend.replaceChildren();
      return;
    }
    const last = lines.map((line) => `${line.name} ${short((line.held.at(-1) ?? line.trained.at(-1))[1])}`).join(", ");
    chart(holder, { lines, xName: axis === "steps" ? "steps" : "minutes of training", yName: called(score), describe: `${called(score)} against ${axis}; last values: ${last}` });
    legend.replaceChildren(...lines.map((line) => h("li", {}, sample(line.style), line.name)),
      h("li", {}, "bold: held-out texts, thin: training"));
  }

  function entries() {
    const open = new Set([...list.querySelectorAll("details[open]")].map((one) => one.dataset.key));
    const focus = list.contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const kept = new Map([...list.querySelectorAll("[data-kept]")].map((one) => [one.dataset.kept, one]));
    list.replaceChildren(
      ...state.runs.map((run) => entry(run, open, kept)),
      ...state.comparisons.map((comparison) => compared(comparison, open, kept)),
    );
    if (focus) list.querySelector(`[data-focus="${CSS.escape(focus)}"]`)?.focus();
  }

  function entry(run, open, kept) {
    const best = Object.entries(run.scores).slice(0, 3).map(([key, value]) => `${called(key).toLowerCase()} ${value === null ? "–" : key.includes("accuracy") ? percent(value) : short(value)}`).join(", ");
    const box = h("input", { type: "checkbox", checked: charted.has(run.name), disabled: run.state === "damaged", "aria-label": `Show the curve of ${run.name}`, "data-focus": `box ${run.name}`,
      onchange: async (event) => { event.target.checked ? charted.add(run.name) : charted.delete(run.name); await tick(false); } });
    const facts = run.problem ? run.problem : `${KINDS[run.objective]}, ${run.preset} · ${count(run.parameters)} parameters · step ${count(run.steps_done)} of ${count(run.steps)} · ${minutes(run.seconds)}${best ? ` · best: ${best}` : ""}`;
    return h("li", {}, h("div", { class: "entry" },
      box,
      h("div", {}, h("h3", { class: "name" }, run.name), h("p", { class: "facts" }, facts),
        run.state === "training" ? h("progress", { max: run.steps || 1, value: run.steps_done, "aria-label": `Progress of ${run.name}` }) : null),
      h("span", { class: `badge ${run.state}` }, run.state),
      run.problem ? null : folded(`ledger ${run.name}`, "Ledger: every parameter", open, kept, async (body) => {
        const ledger = await get(`/api/runs/${encodeURIComponent(run.name)}/ledger`);
        body.replaceChildren(h("div", { class: "scroll" }, h("table", {},
          h("caption", {}, `${KINDS[run.objective]} of ${run.layers} layers, width ${run.width}, ${run.heads} heads, context ${run.context}, ${count(run.vocabulary)} tokens`),
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Component"), h("th", { scope: "col" }, "Formula"), h("th", { scope: "col", class: "number" }, "Parameters"))),
          h("tbody", {}, ledger.components.map((one) => h("tr", {}, h("td", {}, one.name), h("td", {}, one.formula), h("td", { class: "number" }, count(one.count))))),
          h("tfoot", {}, h("tr", {}, h("td", { colspan: 2 }, "All"), h("td", { class: "number" }, count(ledger.total)))))));
      })));
  }

  function compared(comparison, open, kept) {
    const arms = Object.entries(comparison.arms).map(([arm, mean]) => `${arm} ${(100 * mean).toFixed(1)} %`).join(", ");
    return h("li", {}, h("div", { class: "entry" },
      h("span", {}),
      h("div", {}, h("h3", { class: "name" }, comparison.name),
        h("p", {}, comparison.verdict ?? "This comparison is not finished; its verdict and report appear once it is."),
        arms ? h("p", { class: "facts" }, `Accuracy on test: ${arms}`) : null),
      h("span", { class: `badge ${comparison.verdict ? "finished" : "stopped"}` }, "comparison"),
      comparison.verdict ? folded(`report ${comparison.name}`, "The report", open, kept, (body) => body.replaceChildren(
        h("iframe", { class: "report", sandbox: "", title: `Report of ${comparison.name}`, src: `/api/comparisons/${encodeURIComponent(comparison.name)}/report` }))) : null));
  }

  // What unfolds is fetched when it is first opened, and kept when the list is drawn anew.
  function folded(key, title, open, kept, fill) {
    if (kept.has(key)) return kept.get(key);
    const body = h("div", {}, h("p", { class: "waiting" }, "Fetching"));
    let filled = false;
    return h("details", { class: "more", "data-key": key, "data-kept": key, open: open.has(key),
      ontoggle: async (event) => {
        if (!event.target.open || filled) return;
        filled = true;
        try { await fill(body); } catch (problem) {
          filled = false;
          body.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message));
        }
      } }, h("summary", { "data-focus": key }, title), body);
  }

  async function tick(refresh = true) {
    clearTimeout(timer);
    try {
      if (refresh) await state.refresh();
      await load();
      trouble.replaceChildren();
    } catch (problem) {
      trouble.replaceChildren(h("p", { class: "problem", role: "alert" }, problem.message));
    }
    if (!holder.isConnected || holder.closest("[hidden]")) return;
    draw();
    entries();
    clearTimeout(timer);
    timer = setTimeout(tick, state.runs.some((run) => run.state === "training") ? OFTEN : SELDOM);
  }

  let drawnAt = 0;
  new ResizeObserver(() => {
    if (!curves.size || Math.abs(holder.clientWidth - drawnAt) < 2) return;
    drawnAt = holder.clientWidth;
    draw();
  }).observe(holder);

  return {
    elements: [h("h1", {}, "Runs"),
      h("p", { class: "lead" }, "Curves grow while a run trains. Choose several to see them together."),
      h("section", {}, controls, holder, legend),
      h("section", {}, trouble, list)],
    enter: () => { if (!curves.size) holder.replaceChildren(h("p", { class: "waiting" }, "Reading the logs")); tick(); },
    leave: () => clearTimeout(timer),
  };
}

const minutes = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`);
