// Commands to the learner, with the admin key, which this page never stores.
"use strict";
const kaboostSteering = (() => {
  const { h, number } = kaboostCharts;
  const at = (id) => document.getElementById(id);
  let built = null, names = "", key, reason, version, positions, candidate, promotion;

  const headers = () => ({ Authorization: `Bearer ${key.value}`, "Content-Type": "application/json" });

  function report(text, bad) {
    at("steering-result").textContent = text;
    at("steering-result").className = bad ? "bad" : "";
  }

  async function ask(path, body) {
    const options = body ? { method: "POST", body: JSON.stringify(body), headers: headers() } : { headers: headers() };
    const response = await fetch(`admin/${path}`, options);
    const answer = await response.json();
    if (!response.ok) throw new Error(answer.detail ?? response.statusText);
    return answer;
  }

  async function send(name, more = {}) {
    report(`${name}…`);
    try {
      const answer = await ask(name, { reason: reason.value, by: "page", ...more });
      report(answer.message || `${name}: ${answer.state}`);
      await list();
    } catch (error) {
      report(`${name}: ${error.message}`, true);
    }
  }

  async function list() {
    const [kept, audit] = await Promise.all([ask("checkpoints"), ask("audit")]);
    version.replaceChildren(...kept.map((one) => h("option", { value: one.number }, `${one.number}: ${number(one.events_learned)} events, ${new Date(one.created).toLocaleString()}`)));
    at("audit").replaceChildren(h("thead", {}, h("tr", {}, ...["when", "command", "by", "result", "why"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, ...audit.slice(-15).reverse().map((one) => h("tr", {}, h("td", {}, new Date(one.time).toLocaleString()), h("td", {}, one.command), h("td", {}, one.by ?? ""),
        h("td", {}, one.state ?? ""), h("td", { class: "text" }, one.reason ?? "")))));
  }

  function form() {
    key = h("input", { type: "password", autocomplete: "off", "aria-describedby": "steering-result" });
    reason = h("input", { type: "text", maxlength: 500, placeholder: "for the audit log" });
    version = h("select");
    positions = h("select", {}, h("option", { value: "stay" }, "learn on from here"), h("option", { value: "back" }, "learn the events since then again"));
    candidate = h("select");
    const button = (name, label, more) => h("button", { type: "button", onclick: () => send(name, more?.()) }, label);
    return [
      h("form", { class: "steer", onsubmit: (event) => event.preventDefault() }, h("label", {}, "Admin key", key), h("label", {}, "Reason", reason), h("button", { type: "button", onclick: () => list().then(() => report("The key fits."), (error) => report(error.message, true)) }, "Check the key")),
      h("div", { class: "steer" }, button("pause", "Pause"), button("resume", "Resume"), button("checkpoint", "Write a checkpoint")),
      h("div", { class: "steer" }, h("label", {}, "Checkpoint", version), h("label", {}, "Then", positions), button("rollback", "Roll back", () => ({ version: Number(version.value), positions: positions.value }))),
      promotion = h("div", { class: "steer", hidden: true }, h("label", {}, "Candidate", candidate), button("promote", "Promote", () => ({ candidate: candidate.value }))),
      h("p", { id: "steering-result", role: "status" }),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Audit log" }, h("table", { id: "audit" })),
    ];
  }

  // Those that can be promoted; the choice stays while they are the same.
  function offer(candidates) {
    const running = candidates.filter((one) => one.state !== "failed").map((one) => one.name);
    if (names === running.join()) return;
    names = running.join();
    promotion.hidden = !running.length;
    candidate.replaceChildren(...running.map((name) => h("option", { value: name }, name)));
  }

  function update(status) {
    build(status);
    if (built) offer(status.candidates);
  }

  function build(status) {
    if (built === status.steering) return;
    built = status.steering;
    names = "";
    at("steering-body").replaceChildren(...(built ? form() : [h("p", { class: "note" }, "Commands from this page need ", h("code", {}, "admin.key"), " and ", h("code", {}, "admin.page: true"), ". On the machine of the learner: ",
      h("code", {}, "kaboost pause"), ", ", h("code", {}, "kaboost resume"), ", ", h("code", {}, "kaboost checkpoint"), ", ", h("code", {}, "kaboost rollback NUMBER"), ", ", h("code", {}, "kaboost promote NAME"), ".")]));
  }

  return { update };
})();
