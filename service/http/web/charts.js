// Charts of the page and of reports: uPlot for long series, SVG and boxes for the others.
// A plain script without imports, so that a report can have it inline; it defines `kaboostCharts`.
"use strict";
const kaboostCharts = (() => {
  const NS = "http://www.w3.org/2000/svg";
  const MARKS = { drift: "drift", "level shift": "level", restart: "restart", checkpoint: "checkpoint",
    rollback: "rollback", promotion: "promotion", fallback: "fallback", recovery: "recovery" };
  const PREDICTORS = [["model", "model", []], ["prior", "prior", [4, 4]], ["last_label", "last label", [8, 3]]];
  const COLOURS = { model: "--model", prior: "--prior", last_label: "--last" };
  const whole = new Intl.NumberFormat("en");

  function h(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS(NS, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  // Four significant digits, and thousands apart; an en dash where there is nothing.
  function number(value, digits = 4) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (Number.isInteger(value)) return whole.format(value);
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-4 ? value.toExponential(2) : whole.format(Number(value.toPrecision(digits)));
  }
  const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)} %`);

  function duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    const [size, unit] = [[86400, "days"], [3600, "hours"], [60, "min"]].find(([size]) => seconds >= 2 * size) ?? [1, "s"];
    return `${number(Number((seconds / size).toFixed(1)))} ${unit}`;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const range = (values) => [Math.min(...values), Math.max(...values)];

  // Ends of an axis that leave out the few largest values, such as the first losses of a stream.
  function extent(columns) {
    const values = columns.flat().filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
    if (!values.length) return [0, 1];
    const low = values[0], high = values[Math.floor(0.985 * (values.length - 1))];
    const margin = 0.08 * (high - low || Math.abs(high) || 1);
    return [low >= 0 && low < margin * 4 ? 0 : low - margin, high + margin];
  }

  // Where annotations are on the axis of time: between the points around their events.
  function placeOf(history, event, byTime) {
    if (!byTime) return event;
    const next = history.event.findIndex((value) => value >= event);
    if (next < 0) return history.time.at(-1);
    if (next === 0) return history.time[0];
    const [a, b] = [history.event[next - 1], history.event[next]];
    return history.time[next - 1] + ((event - a) / (b - a || 1)) * (history.time[next] - history.time[next - 1]);
  }

  // Loss of the model and both baselines. `history` is that of GET /model/history; returns { update }.
  function lossChart(container, options = {}) {
    const height = () => (container.clientWidth < 500 ? 220 : 300);
    let plot = null, shown = null;
    const choose = { byTime: false, kind: "recent_loss", marks: true, ...options };

    function drawMarks(u) {
      if (!choose.marks || !shown) return;
      const { ctx } = u, { left, top, width, height } = u.bbox;
      ctx.save();
      ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
      ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
      ctx.textAlign = "left";
      ctx.textBaseline = "alphabetic";
      for (const { kind, event } of shown.annotations ?? []) {
        const name = MARKS[kind] ?? "checkpoint";
        const x = u.valToPos(placeOf(shown, event, choose.byTime), "x", true);
        ctx.strokeStyle = ctx.fillStyle = colour({ drift: "--bad", level: "--bad", restart: "--warning", checkpoint: "--line" }[name] ?? "--good");
        ctx.lineWidth = devicePixelRatio * (name === "checkpoint" ? 1 : 1.5);
        ctx.setLineDash(name === "checkpoint" ? [2, 4] : [6, 3]);
        ctx.beginPath(); ctx.moveTo(x, top); ctx.lineTo(x, top + height); ctx.stroke();
        if (name !== "checkpoint") ctx.fillText(kind, x + 4, top + 12 * devicePixelRatio);
      }
      ctx.restore();
    }

    function build(data) {
      plot?.destroy();
      container.replaceChildren();
      const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--grid"), width: 1 }, ticks: { stroke: colour("--grid"), width: 1 }, font: "12px system-ui, sans-serif" };
      const series = PREDICTORS.filter(([name]) => shown[choose.kind][name]);
      plot = new uPlot({
        width: container.clientWidth || 600, height: height(),
        scales: { x: { time: choose.byTime }, y: { range: () => extent(plotted()) } },
        axes: [{ ...axis, ...(choose.byTime ? {} : { values: (_, ticks) => ticks.map((tick) => number(tick)) }) },
          { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => number(tick)) }],
        series: [{ label: choose.byTime ? "time" : "events", ...(choose.byTime ? {} : { value: (_, value) => number(value) }) },
          ...series.map(([name, label, dash]) => ({ label, dash, stroke: colour(COLOURS[name]), width: name === "model" ? 2.2 : 1.4,
            points: { show: false }, value: (_, value) => number(value) }))],
        hooks: { draw: [drawMarks] },
        cursor: { points: { size: 7 } },
      }, data, container);
      container.querySelector("canvas").setAttribute("aria-hidden", "true");
    }

    const plotted = () => PREDICTORS.map(([name]) => shown[choose.kind][name]).filter(Boolean);
    const data = () => [choose.byTime ? shown.time : shown.event, ...plotted()];

    function update(history, changes = {}) {
      const rebuild = Object.keys(changes).length > 0 || !plot;
      Object.assign(choose, changes);
      shown = history ?? shown;
      if (!shown || shown.event.length < 2) {
        container.replaceChildren(h("p", { class: "empty" }, "The curve begins after 50 events."));
        container.classList.add("none");
        plot = null;
        return;
      }
      container.classList.remove("none");
      if (rebuild) build(data());
      else plot.setData(data());
      const last = Object.fromEntries(PREDICTORS.map(([name]) => [name, shown[choose.kind][name]?.at(-1)]));
      container.setAttribute("role", "img");
      container.setAttribute("aria-label", `Loss after ${number(shown.event.at(-1))} events: model ${number(last.model)}, prior ${number(last.prior)}, last label ${number(last.last_label)}`);
    }

    const resize = () => plot?.setSize({ width: container.clientWidth, height: height() });
    new ResizeObserver(resize).observe(container.parentElement);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => update(null, { marks: choose.marks }));
    return { update };
  }

  // Lines over numbers: `lines` is a list of { x, y, label }; `guide` draws the diagonal.
  function lineChart(container, lines, { label, xLabel = "", yLabel = "", xRange, yRange, guide = false, dots = false, here = null } = {}) {
    const known = lines.map((line) => line.x.map((x, k) => [x, line.y[k]]).filter(([, y]) => Number.isFinite(y))).filter((points) => points.length);
    if (!known.length) return container.replaceChildren(h("p", { class: "empty" }, "Nothing was observed yet."));
    const [W, H, L, B, T, R] = [440, 230, 66, 34, 10, 14];
    const flat = known.flat();
    const [x0, x1] = xRange ?? range(flat.map(([x]) => x));
    let [y0, y1] = yRange ?? range(flat.map(([, y]) => y));
    if (y0 === y1) [y0, y1] = [y0 - (Math.abs(y0) || 1) / 10, y1 + (Math.abs(y1) || 1) / 10];
    const X = (x) => L + ((x - x0) / (x1 - x0 || 1)) * (W - L - R), Y = (y) => H - B - ((y - y0) / (y1 - y0)) * (H - B - T);
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    const parts = ticks.flatMap((share) => {
      const [x, y] = [x0 + share * (x1 - x0), y0 + share * (y1 - y0)];
      return [svg("line", { class: "grid", x1: L, x2: W - R, y1: Y(y), y2: Y(y) }), svg("text", { x: L - 6, y: Y(y) + 4, "text-anchor": "end" }, number(y, 3)),
        svg("text", { x: X(x), y: H - B + 15, "text-anchor": share === 1 ? "end" : "middle" }, number(x, 3))];
    });
    if (xLabel) parts.push(svg("text", { x: (L + W - R) / 2, y: H - 3, "text-anchor": "middle" }, xLabel));
    if (yLabel) parts.push(svg("text", { x: 12, y: (H - B + T) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(H - B + T) / 2})` }, yLabel));
    if (guide) parts.push(svg("line", { class: "guide", x1: X(x0), y1: Y(y0), x2: X(x1), y2: Y(y1) }));
    known.forEach((points, k) => {
      parts.push(svg("path", { class: `line s${k % 4}`, d: points.map(([x, y], n) => `${n ? "L" : "M"}${X(x).toFixed(1)} ${Y(Math.min(Math.max(y, y0), y1)).toFixed(1)}`).join("") }));
      if (dots) parts.push(...points.map(([x, y]) => svg("circle", { class: "dot", cx: X(x), cy: Y(y), r: 4 })));
    });
    if (here !== null) parts.push(svg("line", { class: "here", x1: X(here), x2: X(here), y1: T, y2: H - B }));
    const names = lines.length > 1 && lines.every((line) => line.label)
      ? h("p", { class: "names" }, ...lines.map((line, k) => h("span", {}, svg("svg", { viewBox: "0 0 28 8", "aria-hidden": "true" }, svg("path", { class: `line s${k % 4}`, d: "M0 4L28 4" })), line.label))) : null;
    container.replaceChildren(...[svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": label }, ...parts), names].filter(Boolean));
  }

  // Reliability diagram of bins { mean_predicted, observed_fraction, weight }.
  function reliabilityChart(container, bins) {
    lineChart(container, [{ x: bins.map((bin) => bin.mean_predicted), y: bins.map((bin) => bin.observed_fraction) }], {
      label: `Reliability: ${bins.map((bin) => `predicted ${percent(bin.mean_predicted, 0)}, observed ${percent(bin.observed_fraction, 0)}`).join("; ")}`,
      xLabel: "mean predicted probability", yLabel: "observed frequency", xRange: [0, 1], yRange: [0, 1], guide: true, dots: true });
  }

  // Coverage of intervals { level, coverage }.
  function coverageChart(container, levels) {
    lineChart(container, [{ x: levels.map((one) => one.level), y: levels.map((one) => one.coverage) }], {
      label: `Coverage: ${levels.map((one) => `${percent(one.level, 0)} promised, ${percent(one.coverage)} observed`).join("; ")}`,
      xLabel: "nominal coverage", yLabel: "observed coverage", xRange: [0.4, 1], yRange: [0.4, 1], guide: true, dots: true });
  }

  // Rows [label, value] as bars; signed ones grow from the middle.
  function barChart(container, rows, { signed = false, format = number } = {}) {
    const most = Math.max(...rows.map(([, value]) => Math.abs(value)), 1e-12);
    container.replaceChildren(h("div", { class: "bars" }, ...rows.flatMap(([label, value]) => {
      const share = (Math.abs(value) / most) * (signed ? 50 : 100);
      const fill = h("div", { class: `fill ${value < 0 ? "minus" : ""}` });
      fill.style.width = `${share}%`;
      fill.style.left = signed ? `${value < 0 ? 50 - share : 50}%` : "0";
      return [h("div", { class: "label", title: label }, label), h("div", { class: "track" }, fill, signed ? h("div", { class: "middle" }) : null),
        h("div", { class: "number" }, format(value))];
    })));
  }

  // Numbers up to 1 as tiles; the tone is the size, another colour is below 0.
  function tiles(container, rows, names) {
    container.replaceChildren(...rows.flatMap((values, k) => [
      rows.length > 1 ? h("div", { class: "note" }, names[k]) : null,
      h("div", { class: "tiles", role: "img", "aria-label": `${names[k]}: ${values.filter((value) => value !== null).length} weak learners` }, ...values.map((value, n) => {
        const tone = h("b");
        tone.style.opacity = value === null ? 0 : Math.min(1, 0.12 + 0.88 * Math.sqrt(Math.abs(value)));
        return h("i", { class: value < 0 ? "minus" : "", title: `weak learner ${n + 1}: ${number(value)}` }, tone);
      })),
    ]).filter(Boolean));
  }

  return { h, number, percent, duration, lossChart, lineChart, reliabilityChart, coverageChart, barChart, tiles, MARKS };
})();
