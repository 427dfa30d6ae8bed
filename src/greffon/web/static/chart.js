// A line chart: several runs together, told apart by colour, dash and marker, so that it also reads in grey.

import { h, short, svg } from "./dom.js";

export const STYLES = [
  { colour: "light-dark(#0a5c7a, #5cc3e8)", dash: "", marker: "circle" },
  { colour: "light-dark(#b4550f, #f0a35e)", dash: "7 3", marker: "square" },
  { colour: "light-dark(#7a3b8f, #cf9be0)", dash: "10 3 2 3", marker: "up" },
  { colour: "light-dark(#3f7a2c, #9fd488)", dash: "3 3", marker: "diamond" },
  { colour: "light-dark(#9c2f4d, #f08fa8)", dash: "14 4", marker: "down" },
  { colour: "light-dark(#4a4a46, #c9c9c4)", dash: "2 4", marker: "cross" },
];

const MARKERS = {
  circle: "M-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0-6.8 0",
  square: "M-3-3H3V3H-3Z",
  up: "M0-4L3.7 3H-3.7Z",
  diamond: "M0-4.2L4.2 0L0 4.2L-4.2 0Z",
  down: "M0 4L3.7-3H-3.7Z",
  cross: "M-3-3L3 3M-3 3L3-3",
};

export function sample(style) {
  const line = svg("path", { d: "M1 5H27", "stroke-dasharray": style.dash });
  const dot = svg("path", { d: MARKERS[style.marker], transform: "translate(14 5)" });
  for (const part of [line, dot]) part.style.stroke = style.colour;
  dot.style.fill = style.colour;
  return svg("svg", { class: "key-line", viewBox: "0 0 28 10", "aria-hidden": "true" }, line, dot);
}

// Round numbers for an axis, about `most` of them.
export function ticks(low, high, most) {
  const step = [1, 2, 2.5, 5, 10].map((base) => base * 10 ** Math.floor(Math.log10((high - low) / most))).find((size) => (high - low) / size <= most);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + 1e-9 * step; at += step) found.push(Number(at.toPrecision(12)));
  return found;
}

// The outermost values by which most of the curve is seen: the first steps of a training may tower above all others.
function extent(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[0];
  const high = sorted[Math.floor(share * (sorted.length - 1))];
  const room = (high - low || Math.abs(high) || 1) * 0.06;
  return [low - room, high + room];
}

// lines: [{name, style, held: [[x, y]…], trained: [[x, y]…]}]
export function chart(holder, { lines, xName, yName, describe, share = 0.98 }) {
  const width = Math.max(280, holder.clientWidth || 640);
  const height = Math.round(Math.min(420, Math.max(230, width * 0.46)));
  const [left, right, top, bottom] = [52, 20, 12, 40];
  const points = lines.flatMap((line) => [...line.held, ...line.trained]);
  const furthest = Math.max(...points.map(([x]) => x));
  const xs = [0, furthest > 0 ? furthest : 1];
  const ys = extent(points.map(([, y]) => y), share);
  const atX = (x) => left + ((x - xs[0]) / (xs[1] - xs[0])) * (width - left - right);
  const atY = (y) => Math.max(top, top + ((ys[1] - y) / (ys[1] - ys[0])) * (height - top - bottom));
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": describe });

  for (const y of ticks(...ys, 5)) {
    picture.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: atY(y), y2: atY(y) }));
    picture.append(svg("text", { x: left - 8, y: atY(y) + 4, "text-anchor": "end" }, short(y)));
  }
  for (const x of ticks(...xs, Math.max(3, Math.floor(width / 100)))) {
    picture.append(svg("text", { x: atX(x), y: height - bottom + 18, "text-anchor": "middle" }, short(x)));
  }
  picture.append(svg("text", { x: (left + width - right) / 2, y: height - 4, "text-anchor": "middle" }, xName));
  for (const { style, held, trained } of lines) {
    const path = (some) => some.map(([x, y], at) => `${at ? "L" : "M"}${atX(x).toFixed(1)} ${atY(y).toFixed(1)}`).join("");
    for (const [kind, some] of [["trained", trained], ["held", held]]) {
      if (!some.length) continue;
      const drawn = svg("path", { class: kind, d: path(some), "stroke-dasharray": kind === "held" ? style.dash : "" });
      drawn.style.stroke = style.colour;
      picture.append(drawn);
    }
    const every = Math.ceil(held.length / 24);
    held.forEach(([x, y], at) => {
      if (at % every && at !== held.length - 1) return;
      const dot = svg("path", { d: MARKERS[style.marker], transform: `translate(${atX(x).toFixed(1)} ${atY(y).toFixed(1)})` });
      dot.style.stroke = style.colour;
      dot.style.fill = style.colour;
      picture.append(dot);
    });
  }
  const tip = h("div", { class: "tip", hidden: true });
  const cross = svg("line", { class: "cross", y1: top, y2: height - bottom, visibility: "hidden" });
  picture.append(cross);
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x = xs[0] + ((event.clientX - box.left - left) / (width - left - right)) * (xs[1] - xs[0]);
    const near = (some) => some.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
    const shown = lines.filter((line) => line.held.length || line.trained.length).map((line) => {
      const [where, value] = near(line.held.length ? line.held : line.trained);
      return { line, where, value };
    });
    if (!shown.length) return;
    cross.setAttribute("x1", atX(Math.min(Math.max(x, xs[0]), xs[1])));
    cross.setAttribute("x2", cross.getAttribute("x1"));
    cross.setAttribute("visibility", "visible");
    tip.hidden = false;
    tip.replaceChildren(...shown.map(({ line, where, value }) => h("p", {}, sample(line.style), `${line.name}: ${short(value)} at ${short(where)}`)));
    const side = event.clientX - box.left > width / 2;
    tip.style.left = side ? "auto" : `${event.clientX - box.left + 14}px`;
    tip.style.right = side ? `${width - (event.clientX - box.left) + 14}px` : "auto";
  });
  picture.addEventListener("pointerleave", () => { tip.hidden = true; cross.setAttribute("visibility", "hidden"); });
  holder.replaceChildren(h("p", { class: "label" }, yName), picture, tip);
}
