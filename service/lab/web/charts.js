"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const COLOURS = ["#2563eb", "#94a3b8", "#f59e0b", "#059669", "#db2777", "#7c3aed", "#0891b2", "#65a30d"];
const charts = [];

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  for (const child of children) made.append(child);
  return made;
}
const number = (value, digits = 4) => value === null || value === undefined ? "–"
  : Math.abs(value) >= 1e9 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2)
  : value.toLocaleString("en", { maximumSignificantDigits: digits });
const compact = value => Math.abs(value) >= 1e5 ? Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 }).format(value) : number(value);
const whole = value => value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
const percent = value => value === null || !isFinite(value) ? "–" : (100 * value).toFixed(1) + " %";
const colour = k => COLOURS[k % COLOURS.length];
const themed = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function card(title, about, wide = false) {
  const made = element("section", { class: wide ? "card wide" : "card" }, element("h2", {}, title));
  if (about) made.append(element("p", { class: "soft small" }, about));
  document.getElementById("cards").append(made);
  return made;
}

function chart(parent, x, series, options = {}) {
  const place = element("div", { class: "chart" });
  parent.append(place);
  const axis = extra => ({ stroke: () => themed("--soft"), grid: { stroke: () => themed("--grid"), width: 1 },
    ticks: { stroke: () => themed("--grid") }, ...extra });
  const made = new uPlot({
    width: place.clientWidth || 500, height: options.height || 260,
    scales: { x: { time: Boolean(options.time), ...(options.x || {}) }, y: options.y || {} },
    axes: [axis({ label: options.xLabel, labelSize: 20, values: options.time ? undefined : (u, ticks) => ticks.map(v => number(v)) }),
           axis({ size: 62, values: (u, ticks) => ticks.map(v => options.percent ? percent(v) : compact(v)) })],
    series: [{ label: options.xLabel || "x", value: (u, v) => options.time ? (v === null ? "–" : new Date(1000 * v).toISOString().slice(0, 16).replace("T", " ")) : number(v, 6) },
      ...series.map(each => ({ label: each.label, stroke: each.colour, width: each.width || 1.6, dash: each.dash,
        points: { show: Boolean(each.points), size: 6 }, paths: each.points === "only" ? () => null : undefined,
        spanGaps: true, value: (u, v) => options.percent ? percent(v) : number(v) }))],
    hooks: { draw: [u => marks(u, options.marks || [])] },
  }, [x, ...series.map(each => each.values)], place);
  charts.push([made, place]);
  return made;
}

function marks(u, events) {
  for (const each of events) {
    const at = u.valToPos(each.event, "x", true);
    u.ctx.save();
    u.ctx.strokeStyle = each.kind === "drift" ? "#dc2626" : "#f59e0b";
    u.ctx.globalAlpha = each.kind === "drift" ? 0.8 : 0.45;
    u.ctx.setLineDash([4, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(at, u.bbox.top);
    u.ctx.lineTo(at, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  }
}

function table(parent, head, rows) {
  const body = element("tbody");
  for (const row of rows) {
    body.append(element("tr", {}, ...row.map(cell => cell instanceof Node ? (cell.tagName === "TD" ? cell : element("td", {}, cell)) : element("td", {}, String(cell)))));
  }
  parent.append(element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head.map(name => element("th", {}, name)))), body)));
}

function bars(parent, head, rows) {
  const most = Math.max(...rows.map(row => row.value), 1e-300);
  table(parent, head, rows.map(row => [row.name, element("td", { class: "barcell" },
    element("div", { class: "bar", style: `width:${100 * row.value / most}%` })), row.text]));
}

function tile(name, value, about = "") {
  document.getElementById("tiles").append(element("div", { class: "tile" }, element("span", { class: "soft small" }, name), element("b", {}, value), element("span", { class: "soft small" }, about)));
}

function theme(next) {
  document.documentElement.dataset.theme = next;
  document.getElementById("theme").textContent = next === "dark" ? "Light" : "Dark";
  for (const [made] of charts) made.redraw(false, true);
}
theme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.getElementById("theme").onclick = () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
addEventListener("resize", () => { for (const [made, place] of charts) made.setSize({ width: place.clientWidth, height: made.height }); });
