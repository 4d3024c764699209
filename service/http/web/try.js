// Try it: a form of the model's features, the answer, why, and what would change it.
"use strict";
const kaboostTry = (() => {
  const { h, number, percent } = kaboostCharts;
  const at = (id) => document.getElementById(id);
  const MOST_FIELDS = 60, STEPS = 40, WAIT_MS = 250;
  let model = null, seen = {}, kinds = "", explains = true, timer = null, latest = 0, dirty = false, predicted = null;

  const fields = () => [...at("try-form").querySelectorAll("[data-name]")];

  function value(field) {
    const text = field.value.trim();
    if (text === "") return null;
    if (field.dataset.kind === "number") return Number(text);
    return field.dataset.kind === "boolean" ? text === "true" : text;
  }
  const features = () => Object.fromEntries(fields().map((field) => [field.dataset.name, value(field)]).filter(([, each]) => each !== null));

  function input(name, kind, k) {
    const known = seen[name] ?? {}, common = { "data-name": name, "data-kind": kind, id: `try-${k}` };
    const middle = known.last ?? known.middle ?? "";
    if (kind === "boolean") {
      const select = h("select", common, h("option", { value: "" }, "missing"), h("option", { value: "true" }, "true"), h("option", { value: "false" }, "false"));
      select.value = String(middle);
      return [select];
    }
    if (kind === "number") return [h("input", { ...common, type: "number", step: "any", value: middle === "" ? "" : Number(Number(middle).toPrecision(6)), placeholder: "missing" })];
    const list = h("datalist", { id: `try-list-${k}` }, ...(known.values ?? []).map((each) => h("option", { value: each })));
    return [h("input", { ...common, type: "text", list: `try-list-${k}`, value: middle, placeholder: "missing" }), list];
  }

  function build() {
    const names = Object.entries(model.features).slice(0, MOST_FIELDS);
    at("try-form").replaceChildren(...names.map(([name, kind], k) => h("label", { title: `${name}: ${kind}` }, h("span", {}, name), ...input(name, kind, k))));
    predict();
  }

  async function post(body) {
    const response = await kaboostKey.fetch("predict", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const answer = await response.json();
    if (response.ok) return answer;
    const faults = (answer.errors ?? []).map((fault) => `${fault.pointer.replace("#/features/", "").replace("#/", "")}: ${fault.detail}`);
    throw Object.assign(new Error(faults.join("; ") || answer.detail), { faults: answer.errors ?? [] });
  }

  async function answer() {
    const body = { features: features() };
    if (model.task === "regression") body.interval = 0.9;
    if (explains) {
      try {
        return await post({ ...body, explain: true });
      } catch (error) {
        if (!error.faults?.some((fault) => fault.pointer === "#/explain")) throw error;
        explains = false;
      }
    }
    return post(body);
  }

  async function predict() {
    const turn = ++latest;
    try {
      const found = await answer();
      if (turn === latest) { show(found); await change(); }
    } catch (error) {
      at("try-answer").className = "bad";
      at("try-answer").textContent = error.message;
    }
  }

  function show(found) {
    const regression = model.task === "regression", interval = found.interval;
    predicted = found.prediction;
    const text = regression ? number(found.prediction, 5) : found.probability === null ? String(found.prediction) : `${found.prediction}`;
    const more = regression ? (interval && interval.low !== null ? `90 % of labels: ${number(interval.low)} to ${number(interval.high)}` : "")
      : found.probability === null ? "" : `probability ${percent(found.probability)}${model.labels.length === 2 ? ` of ${model.labels[1]}` : ""}`;
    at("try-answer").className = "";
    at("try-answer").replaceChildren(text, h("small", {}, [more, `model version ${number(found.model.version)}`, ...(found.warnings ?? [])].filter(Boolean).join("; ")));
    const why = found.explanation;
    if (!why) return at("try-explanation").replaceChildren();
    const rest = Object.values(why.label_lags).reduce((sum, one) => sum + one, 0);
    const rows = Object.entries(why.contributions).sort(([, a], [, b]) => Math.abs(b) - Math.abs(a)).slice(0, 8).concat([["recent labels", rest]]);
    const bars = h("div");
    kaboostCharts.barChart(bars, rows, { signed: true, format: (one) => `${one > 0 ? "+" : ""}${number(one, 3)}` });
    at("try-explanation").replaceChildren(h("h3", {}, `Why: from ${number(why.base, 3)} to a score of ${number(why.score, 3)}`), bars);
  }

  // A number of an answer: of several classes, the probability of the one that is predicted now.
  const several = () => model.labels.length > 2;
  function result(found) {
    if (model.task === "regression" || found.probability === null) return found.prediction;
    return several() ? found.probabilities?.[String(predicted)] ?? null : found.probability;
  }

  // Numbers along their seen range, or the seen values.
  function values(name) {
    const known = seen[name] ?? {}, kind = model.features[name];
    if (kind === "boolean") return [false, true];
    if (kind !== "number") return known.values ?? [];
    const now = features()[name];
    const low = Math.min(known.low ?? (now ?? 0) - 1, now ?? Infinity), high = Math.max(known.high ?? (now ?? 0) + 1, now ?? -Infinity);
    return Array.from({ length: STEPS + 1 }, (_, k) => low + ((high - low) * k) / STEPS);
  }

  let select = null, slider = null, label = null, chart = null, curve = [];
  function controls() {
    select = h("select", { id: "try-feature", onchange: change });
    slider = h("input", { type: "range", min: 0, max: STEPS, step: 1, "aria-label": "Value of the feature", oninput: slide });
    label = h("p", { class: "note", role: "status" });
    chart = h("div", { class: "chart" });
    at("try-change").replaceChildren(h("h3", {}, h("label", { for: "try-feature" }, "What would change it")), select, chart, slider, label);
  }

  async function change() {
    if (!select) controls();
    const names = Object.keys(model.features).slice(0, MOST_FIELDS).filter((name) => values(name).length > 1);
    if ([...select.options].map((each) => each.value).join() !== names.join()) {
      const before = select.value;
      select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
      select.value = names.includes(before) ? before : names[0] ?? "";
    }
    const name = select.value, steps = values(name);
    at("try-change").hidden = !steps.length;
    if (!steps.length) return;
    const found = await post({ instances: steps.map((step) => ({ ...features(), [name]: step })) });
    curve = found.predictions.map(result);
    const now = features()[name];
    slider.max = steps.length - 1;
    slider.value = now === undefined ? 0 : steps.reduce((best, step, k) => (typeof step === "number" ? (Math.abs(step - now) < Math.abs(steps[best] - now) ? k : best) : step === now ? k : best), 0);
    draw();
  }

  function slide() {
    const name = select.value, step = values(name)[Number(slider.value)];
    const field = fields().find((each) => each.dataset.name === name);
    field.value = typeof step === "number" ? Number(step.toPrecision(6)) : String(step);
    dirty = true;
    draw();
    schedule();
  }

  function draw() {
    const name = select.value, steps = values(name), k = Number(slider.value);
    const numeric = model.features[name] === "number";
    const what = model.task === "regression" ? "prediction" : `probability of ${several() ? predicted : model.labels[1]}`;
    const format = (one) => (model.task === "regression" ? number(one) : percent(one));
    if (numeric) kaboostCharts.lineChart(chart, [{ x: steps, y: curve }], { label: `The ${what} over ${name}`, xLabel: name, yLabel: what, here: steps[k] });
    else kaboostCharts.barChart(chart, steps.map((step, n) => [`${n === k ? "▸ " : ""}${step}`, curve[n]]), { signed: curve.some((one) => one < 0), format }); // values without an order: no line
    label.textContent = `With ${name} ${numeric ? number(steps[k]) : steps[k]}: ${what} ${format(curve[k])}`;
    slider.setAttribute("aria-valuetext", label.textContent);
  }

  function schedule() {
    clearTimeout(timer);
    timer = setTimeout(predict, WAIT_MS);
  }

  const base = () => location.href.replace(/[?#].*$/, "").replace(/[^/]*$/, "");
  const CODE = {
    curl: (body) => `curl -s ${base()}predict -H 'Content-Type: application/json' \\\n     -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
    Python: (body) => `import json\nimport urllib.request\n\nbody = json.loads(r'''${JSON.stringify(body).replaceAll("'''", "\\u0027\\u0027\\u0027")}''')\nrequest = urllib.request.Request(\n    "${base()}predict", json.dumps(body).encode(), {"Content-Type": "application/json"}\n)\nprint(json.load(urllib.request.urlopen(request)))`,
    TypeScript: (body) => `const response = await fetch("${base()}predict", {\n  method: "POST",\n  headers: { "Content-Type": "application/json" },\n  body: JSON.stringify(${JSON.stringify(body)}),\n});\nconst answer: { prediction: unknown; probability?: number } = await response.json();\nconsole.log(answer);`,
  };

  function copy(language, button) {
    const text = CODE[language]({ features: features() });
    at("try-code").hidden = false;
    at("try-code").textContent = text;
    const done = () => { button.textContent = "Copied"; setTimeout(() => { button.textContent = language; }, 1500); };
    navigator.clipboard?.writeText(text).then(done, () => {});
  }

  function start() {
    at("try-choices").append("Copy as ", ...Object.keys(CODE).map((language) => {
      const button = h("button", { type: "button", onclick: () => copy(language, button) }, language);
      return button;
    }));
    at("try-form").addEventListener("input", () => { dirty = true; schedule(); });
    at("try-form").addEventListener("submit", (event) => event.preventDefault());
  }

  // Build the form once there are values, and again when features were added; never under the user's hands.
  function update(report) {
    model = report;
    const now = JSON.stringify(model.features);
    if (now !== kinds && !(dirty && kinds)) { kinds = now; build(); }
  }
  function remember(values) {
    const first = !Object.keys(seen).length && Object.keys(values).length;
    seen = values;
    if (first && model && !dirty) build();
  }

  return { start, update, seen: remember };
})();
