// Runs: learning curves, facts and parameters of each run, and reports of comparisons.

import { get } from "./api.js";
import { chart, sample, STYLES } from "./chart.js";
import { h, segments, short } from "./dom.js";
import { comparisonEntry, runEntry, scoreName, scoreRank } from "./entries.js";

export const id = "runs";
export const name = "Runs";

const OFTEN = 2000;
const SELDOM = 15000;

export function make(state) {
  const curves = new Map();
  const styles = new Map(state.runs.map((run, at) => [run.name, STYLES[at % STYLES.length]]));
  const charted = new Set(state.runs.filter((run) => run.state !== "damaged").slice(0, STYLES.length).map((run) => run.name));
  const holder = h("div", { class: "chart" });
  const controls = h("div", { class: "row" });
  const legend = h("ul", { class: "legend" });
  const trouble = h("div");
  let score = "loss";
  let axis = "steps";
  let offered = "";
  let timer = null;

  // What is served is settled when the server starts, so entries are made once.
  const toggle = (run) => (shown) => {
    shown ? charted.add(run.name) : charted.delete(run.name);
    tick(false);
  };
  const runs = state.runs.map((run) => runEntry(run, charted.has(run.name), toggle(run)));
  const comparisons = state.comparisons.map((comparison) => comparisonEntry(comparison));
  const list = h("ul", { class: "runs" }, [...runs, ...comparisons].map((entry) => entry.element));

  async function load() {
    const wanted = state.runs.filter((run) => charted.has(run.name) && (run.state === "training" || curves.get(run.name)?.state !== run.state));
    await Promise.all(wanted.map(async (run) => {
      const curve = await get(`/api/runs/${encodeURIComponent(run.name)}/curve`);
      curves.set(run.name, { ...curve, state: run.state });
    }));
  }

  function offer(scores) {
    if (scores.join() === offered) return;
    offered = scores.join();
    if (!scores.includes(score)) score = scores[0];
    controls.replaceChildren(...(scores.length ? [
      segments("Score", scores.map((one) => [one, scoreName(one)]), score, (one) => { score = one; draw(); }),
      segments("Against", [["steps", "steps"], ["minutes", "minutes"]], axis, (one) => { axis = one; draw(); }),
    ] : []));
  }

  function draw() {
    const shown = state.runs.filter((run) => charted.has(run.name) && curves.has(run.name));
    const all = shown.flatMap((run) => [...Object.keys(curves.get(run.name).training), ...Object.keys(curves.get(run.name).valid)]);
    offer([...new Set(all)].sort((a, b) => scoreRank(a) - scoreRank(b)));
    const place = ([step, seconds, value]) => [axis === "steps" ? step : seconds / 60, value];
    const lines = shown.map((run) => {
      const { training, valid: heldOut } = curves.get(run.name);
      return { name: run.name, style: styles.get(run.name), held: (heldOut[score] ?? []).map(place), trained: (training[score] ?? []).map(place) };
    }).filter((line) => line.held.length || line.trained.length);
    if (!lines.length) {
      legend.replaceChildren();
      holder.replaceChildren(h("p", { class: "note" }, charted.size
        ? "Nothing has been logged yet. The curve appears with the first logged step."
        : "Choose runs below to see their curves together."));
      return;
    }
    const last = lines.map((line) => `${line.name} ${short((line.held.at(-1) ?? line.trained.at(-1))[1])}`).join(", ");
    chart(holder, {
      lines, xName: axis === "steps" ? "steps" : "minutes of training", yName: scoreName(score),
      describe: `${scoreName(score)} against ${axis}; last values: ${last}`,
    });
    legend.replaceChildren(...lines.map((line) => h("li", {}, sample(line.style), line.name)), h("li", {}, "bold: validation, thin: training"));
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
    if (holder.closest("[hidden]")) return;
    state.runs.forEach((run, at) => runs[at]?.update(run));
    state.comparisons.forEach((comparison, at) => comparisons[at]?.update(comparison));
    draw();
    clearTimeout(timer);
    timer = setTimeout(tick, state.runs.some((run) => run.state === "training") ? OFTEN : SELDOM);
  }

  let width = 0;
  new ResizeObserver(() => {
    if (!curves.size || Math.abs(holder.clientWidth - width) < 2) return;
    width = holder.clientWidth;
    draw();
  }).observe(holder);

  return {
    elements: [h("h1", {}, "Runs"),
      h("p", { class: "lead" }, "Learning curves, updated during training. Choose several runs to compare them."),
      h("section", { "aria-label": "Curves" }, controls, holder, legend),
      h("section", { "aria-label": "Runs and comparisons" }, trouble, list)],
    enter: () => {
      if (!curves.size) holder.replaceChildren(h("p", { class: "waiting" }, "Reading the logs"));
      tick();
    },
    leave: () => clearTimeout(timer),
  };
}
