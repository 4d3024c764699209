// The live page: the status comes once a second from /stream, the rest is asked for when it changes.
"use strict";
(() => {
  const { h, number, percent, duration } = kaboostCharts;
  const at = (id) => document.getElementById(id);
  const HISTORY_POINTS = 2000, SILENT_MS = 6000, REOPEN_MS = 10000;
  const asked = {}; // when each part was asked for last, and what for
  let status = null, model = null, heard = 0;

  async function get(path) {
    const response = await kaboostKey.fetch(path);
    const body = await response.json();
    if (!response.ok) throw Object.assign(new Error(body.detail ?? response.statusText), { status: response.status });
    return body;
  }

  // Ask again at most every `ms`, only if `what` is another, and never twice at a time.
  function refresh(path, what, ms, show) {
    const before = asked[path] ?? { at: -Infinity };
    if (document.hidden || before.busy || before.what === what || performance.now() - before.at < ms) return;
    asked[path] = { at: performance.now(), what: before.what, busy: true };
    get(path).then((body) => { asked[path].what = what; show(body); }, (error) => show(null, error))
      .finally(() => { asked[path].busy = false; });
  }

  function choices(element, name, options, chosen, choose) {
    const buttons = options.map(([value, label]) => h("button", { type: "button", "aria-pressed": String(value === chosen),
      onclick: () => { buttons.forEach((button, k) => button.setAttribute("aria-pressed", String(options[k][0] === value))); choose(value); } }, label));
    element.append(h("div", { class: "group", role: "group", "aria-label": name }, ...buttons));
  }

  const sentence = (text) => (text ? text.charAt(0).toUpperCase() + text.slice(1) : "");

  // The heading is the first of all that is so; the others, unless all is well with them, are listed below it.
  function showState([{ state, level, reason, remedy }, ...others], quality) {
    at("state").className = level;
    at("word").textContent = sentence(state);
    at("quality").textContent = sentence(quality);
    at("reason").hidden = !reason && level === "good";
    at("reason").className = level;
    at("why").textContent = reason ? `${sentence(reason)}.` : "";
    at("remedy").textContent = remedy ? `What to do: ${remedy}.` : "";
    const also = others.filter((one) => one.level !== "good");
    at("others").replaceChildren(...also.map((one) => h("li", { class: one.level }, h("b", {}, sentence(one.state)), one.reason ? `: ${one.reason}` : "")));
    document.title = `${level === "bad" ? "! " : ""}${status?.name ?? "Kaboost"}: ${state}`;
  }

  function figure(label, value, small, bad = false) {
    return h("div", { class: bad ? "bad" : "" }, h("dt", {}, label), h("dd", {}, value, small ? h("small", {}, small) : null));
  }

  function showFigures() {
    const [rejection] = status.rejections;
    const flags = [status.cold_start && "cold start", status.stale && "stale", status.fallback && "earlier model"].filter(Boolean).join(", ");
    at("figures").replaceChildren(
      figure("Events learned", number(status.events_learned), status.version === null ? "no snapshot yet" : `snapshot ${number(status.version)}`),
      figure("Events per second", number(Math.round(status.events_per_second)), "learned, last 10 s"),
      figure("Lag", status.lag_records === null ? "–" : number(status.lag_records), status.lag_records === null ? "not known now" : "records that wait"),
      figure("Age of the snapshot", duration(status.snapshot_age_seconds), flags || "served now", status.stale || status.fallback),
      figure("Rejected", percent(status.rejected_ratio), rejection ? `mostly ${rejection.code}` : "of the last 1,000 records", status.rejected_ratio > 0.5),
      figure("Recent loss", number(status.progressive.model?.recent_loss), `prior ${number(status.progressive.prior?.recent_loss)}, last label ${number(status.progressive.last_label?.recent_loss)}`),
      ...(status.learner.leader ? [figure("Leader epoch", number(status.learner.leader_epoch), status.learner.leader)] : []),
    );
  }

  function fill(table, columns, rows) {
    table.replaceChildren(h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...rows.map((cells) => h("tr", {}, ...cells.map((cell, k) => h(k ? "td" : "th", k ? { class: "number" } : { scope: "row" }, cell))))));
  }

  const NAMES = { model: "model", prior: "prior", last_label: "last label" };
  function showLosses() {
    const columns = ["loss", "error", "recent_loss", "recent_error"];
    fill(at("losses"), ["", "loss, all events", "error, all events", "recent loss", "recent error"],
      Object.entries(status.progressive).map(([name, of]) => [NAMES[name] ?? name, ...columns.map((key) => number(of[key]))]));
  }

  const chart = kaboostCharts.lossChart(at("loss-chart"));
  choices(at("loss-choices"), "Loss of", [["recent_loss", "recent"], ["loss", "all events"]], "recent_loss", (kind) => chart.update(null, { kind }));
  choices(at("loss-choices"), "Over", [[false, "events"], [true, "time"]], false, (byTime) => chart.update(null, { byTime }));
  choices(at("loss-choices"), "Marks", [[true, "marks"], [false, "none"]], true, (marks) => chart.update(null, { marks }));

  function showHistory(history) {
    if (!history) return;
    chart.update(history);
    const last = history.annotations.slice(-6).reverse();
    at("annotations").replaceChildren(...last.map(({ kind, event, time, text }) =>
      h("li", { class: `k-${kaboostCharts.MARKS[kind] ?? "checkpoint"}`, title: text }, h("b"), `${kind} at event ${number(event)}, ${new Date(time).toLocaleTimeString()}`)));
    at("annotations").hidden = !last.length;
  }

  const rows = (values) => (Array.isArray(values[0]) ? values : values.length ? [values] : []);

  function showModel(report) {
    if (!report) return;
    model = report;
    showCalibration();
    const prefixes = rows(model.prefix_losses);
    const names = prefixes.map((_, k) => (prefixes.length > 1 ? `Structure ${k + 1}` : "Weak learners"));
    kaboostCharts.lineChart(at("prefix-chart"), prefixes.map((of, k) => ({ x: of.map((_, n) => n), y: of, label: names[k] })), {
      label: `Loss by prefix: ${prefixes.map((of, k) => `${names[k]} from ${number(of[0])} to ${number(of.findLast((value) => value !== null))}`).join("; ")}`,
      xLabel: "weak learners", yLabel: "mean loss" });
    const edges = rows(model.edges), known = edges.flat().filter((value) => value !== null);
    const below = known.filter((value) => value < 0).length;
    at("edges-note").textContent = known.length ? `1 is perfect, 0 no better than predicting zero. ${below} of ${known.length} are below 0 (another colour).` : "";
    if (known.length) kaboostCharts.tiles(at("edges-chart"), edges, names);
    else at("edges-chart").replaceChildren(h("p", { class: "empty" }, "Nothing was observed yet."));
    kaboostTry.update(model);
  }

  function showCalibration() {
    const regression = model.task === "regression";
    at("calibration").hidden = !regression && model.labels.length > 2;
    at("calibration-title").textContent = regression ? "Interval coverage" : "Reliability";
    at("calibration-note").textContent = regression ? "Share of recent labels inside the prediction intervals. On the diagonal is right."
      : `Where the model predicts 70 %, 70 % should come. Mean gap: ${percent(model.calibration_error)}.`;
    if (regression) kaboostCharts.coverageChart(at("calibration-chart"), model.intervals);
    else kaboostCharts.reliabilityChart(at("calibration-chart"), model.reliability);
  }

  const importances = []; // [events, { name: share }] since the page was opened
  function showImportance(report, error) {
    if (error) return at("importance-chart").replaceChildren(h("p", { class: "empty" }, error.status === 422 ? "This model has no trees." : error.message));
    const top = report.importance.slice(0, 10);
    importances.push([report.events_learned, Object.fromEntries(report.importance.map((one) => [one.name, one.share]))]);
    if (importances.length > 300) importances.splice(1, 1);
    const bars = h("div"), over = h("div", { class: "chart" });
    kaboostCharts.barChart(bars, top.map((one) => [one.kind === "feature" ? one.name : `${one.name} (lag)`, one.share]), { format: (share) => percent(share) });
    at("importance-chart").replaceChildren(bars);
    if (importances.length < 3) return;
    const first = top.slice(0, 4).map((one) => one.name);
    kaboostCharts.lineChart(over, first.map((name) => ({ x: importances.map(([events]) => events), y: importances.map(([, of]) => of[name] ?? 0), label: name })), {
      label: `Importance since this page was opened: ${first.join(", ")}`, xLabel: "events", yRange: [0, Math.max(...top.map((one) => one.share)) * 1.1] });
    at("importance-chart").append(h("h3", {}, `The first ${first.length} since this page was opened`), over);
  }

  function showLate() {
    const late = status.late_labels;
    at("late").hidden = late === null;
    at("features-card").classList.toggle("wide", late === null);
    if (!late) return;
    at("late-figures").replaceChildren(...Object.entries(late).map(([name, value]) =>
      figure(name.replace("_seconds", "").replaceAll("_", " "), name.endsWith("_seconds") ? duration(value) : number(value))));
  }

  function showFeatures(missing) {
    if (!model) return;
    const wanted = at("features-search").value.toLowerCase();
    const names = Object.keys(model.features).filter((name) => name.toLowerCase().includes(wanted));
    names.sort((a, b) => (missing[b] ?? 0) - (missing[a] ?? 0));
    fill(at("features"), ["feature", "kind", "missing"], names.slice(0, 300).map((name) => [name,
      model.features[name] + (model.inferred.includes(name) ? " (inferred)" : ""), name in missing ? percent(missing[name]) : "–"]));
  }
  let missing = {};
  at("features-search").addEventListener("input", () => showFeatures(missing));

  function showRecords(records, error) {
    if (error) return kaboostRecords.refuse(error.message);
    missing = records.missing;
    showFeatures(missing);
    kaboostTry.seen(records.seen);
    kaboostRecords.show(records, model);
  }

  function hear(message) {
    heard = performance.now();
    status = JSON.parse(message.data);
    at("name").textContent = status.name;
    showState(status.states || [status], status.quality);
    if (document.hidden) return;
    showFigures(); showLosses(); showLate();
    kaboostCandidates.show(status);
    kaboostSteering.update(status);
    refresh(`model/history?points=${HISTORY_POINTS}`, `${status.history_events} ${status.learner.pid} ${status.champion}`, 2000, showHistory);
    if (status.version !== null) {
      refresh("model", status.version, 3000, showModel);
      refresh("model/importance", status.version, 10000, showImportance);
    }
    refresh("model/records", status.time, 1500, showRecords);
  }

  // A connection that broke without a word stays open for ever: after a silence it is made again.
  function listen() {
    let stream = null, opened = 0;
    const open = () => { stream?.close(); opened = performance.now(); stream = kaboostKey.stream("stream", hear); };
    open();
    setInterval(() => {
      if (performance.now() - heard < SILENT_MS) return;
      const since = heard ? ` for ${duration((performance.now() - heard) / 1000)}` : "";
      showState([{ state: "no response", level: "bad", reason: `this page hears nothing from the service${since}; it goes on trying`, remedy: "see whether kaboost serve runs, and its log" }], "");
      if (stream.closed || performance.now() - opened >= REOPEN_MS) open();
    }, 1000);
  }

  kaboostTry.start(get);
  kaboostRecords.start();
  listen();
})();
