// The table of candidates: models that learn the same events as the one that is served.
"use strict";
const kaboostCandidates = (() => {
  const { h, number, percent } = kaboostCharts;
  const at = (id) => document.getElementById(id);
  const COLUMNS = ["candidate", "state", "events learned", "recent loss", "champion's", "lower by", "interval", "events compared"];

  const signed = (share) => percent(share, 2);
  const word = (one) => (one.reason ? `${one.state}: ${one.reason}` : one.state);
  const interval = (one) => (one.improvement_low === null ? "–" : `${signed(one.improvement_low)} to ${signed(one.improvement_high)}`);

  function row(one) {
    const cells = [number(one.events_learned), number(one.recent_loss), number(one.champion_recent_loss), signed(one.improvement), interval(one), number(one.compared_events)];
    return h("tr", {}, h("th", { scope: "row" }, one.name), h("td", { class: one.state === "failed" ? "bad" : "" }, word(one)),
      ...cells.map((cell) => h("td", { class: "number" }, cell)));
  }

  function show(status) {
    at("candidates-card").hidden = !status.candidates.length;
    if (!status.candidates.length) return;
    at("candidates-note").textContent = `Models that learn the same events as ${status.champion}, the champion, which is served. `
      + "Better: its loss is lower by promotion.margin, with promotion.confidence, at the last decision.";
    at("candidates").replaceChildren(h("thead", {}, h("tr", {}, ...COLUMNS.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...status.candidates.map(row)));
  }

  return { show };
})();
