// The last events and dead letters: each can be stopped and searched.
"use strict";
const kaboostRecords = (() => {
  const { h, number, percent } = kaboostCharts;
  const at = (id) => document.getElementById(id);
  const parts = {}; // of each table: whether it is stopped, what is searched, and its rows

  function controls(id, draw) {
    const part = (parts[id] = { stopped: false, rows: [], draw });
    const stop = h("button", { type: "button", "aria-pressed": "false", onclick: () => {
      part.stopped = !part.stopped;
      stop.setAttribute("aria-pressed", String(part.stopped));
      stop.textContent = part.stopped ? "Go on" : "Stop";
    } }, "Stop");
    part.search = h("input", { type: "search", placeholder: "Search", "aria-label": `Search ${id}`, oninput: () => redraw(id) });
    at(`${id}-choices`).append(part.search, stop);
  }

  function redraw(id) {
    const part = parts[id], wanted = part.search.value.toLowerCase();
    const rows = part.rows.filter((row) => `${JSON.stringify(row)} ${row.features ? words(row.features) : ""}`.toLowerCase().includes(wanted));
    const open = new Set([...at(id).querySelectorAll("details[open]")].map((each) => each.dataset.key));
    part.draw(rows);
    for (const each of at(id).querySelectorAll("details")) each.open = open.has(each.dataset.key);
  }

  function table(id, columns, rows) {
    at(id).replaceChildren(h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, ...rows));
  }

  const words = (features) => Object.entries(features).filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${typeof value === "number" ? number(value, 3) : value}`).join(", ");

  function drawEvents(rows) {
    table("events", ["predicted", "came", "off by", "id", "features"], rows.map((row) => {
      const wrong = row.probability === null ? false : row.error === 1;
      const predicted = row.probability === null ? number(row.predicted) : `${row.predicted} (${percent(row.probability, 0)})`;
      const off = row.error === null ? "–" : row.probability === null ? number(row.error) : `${wrong ? "wrong" : "right"}, loss ${number(row.loss, 3)}`;
      const shown = row.features === null ? "stored when the event came" : words(row.features);
      const features = shown.length < 90 ? shown : h("details", { "data-key": `${row.id} ${row.loss}` }, h("summary", {}, `${shown.slice(0, 80)}…`), h("pre", {}, JSON.stringify(row.features, null, 1)));
      const label = typeof row.label === "number" ? number(row.label) : String(row.label);
      return h("tr", { class: wrong ? "off" : "" }, h("td", { class: "number" }, predicted), h("td", { class: "number" }, label), h("td", { class: "number off" }, off), h("td", { class: "number" }, row.id ?? "–"), h("td", { class: "text" }, features));
    }));
  }

  function drawLetters(rows) {
    table("letters", ["when", "code", "reason", "from", "bytes"], rows.map((row) => h("tr", {},
      h("td", { class: "number" }, new Date(1000 * row.time).toLocaleTimeString()), h("td", { class: "number" }, row.code),
      h("td", { class: "text" }, row.reason), h("td", { class: "number" }, row.at),
      h("td", { class: "text" }, row.value === null ? "none" : h("details", { "data-key": row.at }, h("summary", {}, `${number(row.bytes)} bytes`), h("pre", {}, row.value))))));
  }

  function refuse(reason) {
    at("events-note").textContent = `Not shown: ${reason}`;
  }

  function show(records) {
    at("events-note").textContent = records.shown ? (records.events.length ? "The newest first, a few of each batch. Predicted before it was learned." : "No event was learned yet.")
      : "Not shown: the service is reachable from other machines. Set api.show_records: true to show them.";
    at("letters-note").textContent = records.shown ? (records.dead_letters.length ? "Since the learner started. kaboost dlq lists all, and replays them after a repair." : "No record was rejected since the learner started.") : "";
    for (const id of ["events", "letters"]) {
      if (parts[id].stopped) continue;
      parts[id].rows = records[id === "letters" ? "dead_letters" : id];
      if (parts[id].rows.length) redraw(id);
      else at(id).replaceChildren();
    }
  }

  function start() {
    controls("events", drawEvents);
    controls("letters", drawLetters);
  }

  return { start, show, refuse };
})();
