"use strict";
const make = (tag, text, ...children) => {
  const element = document.createElement(tag);
  if (text) element.textContent = text;
  element.append(...children);
  return element;
};

async function send(method, path, body, out) {
  const options = body ? { method, body: body.value, headers: { "Content-Type": "application/json" } } : { method };
  try {
    const response = await kaboostKey.fetch(path.slice(1), options);
    const text = await response.text();
    const json = (response.headers.get("content-type") || "").includes("json");
    out.textContent = `${response.status} ${response.statusText}\n${json ? JSON.stringify(JSON.parse(text), null, 2) : text}`;
  } catch (error) {
    out.textContent = `No response: ${error.message}`;
  }
}

function examples(content, body) {
  return Object.entries(content.examples).map(([name, { value }]) => {
    const button = make("button", name);
    button.onclick = () => { body.value = JSON.stringify(value, null, 2); };
    return button;
  });
}

function describe(method, path, route) {
  const out = make("pre");
  const content = route.requestBody && route.requestBody.content["application/json"];
  const body = content && make("textarea");
  out.tabIndex = 0;
  const section = make("section", "", make("h2", "", make("code", `${method.toUpperCase()} ${path}`)), make("p", route.description || route.summary));
  if (body) {
    body.rows = 10;
    body.setAttribute("aria-label", `Body of ${method.toUpperCase()} ${path}`);
    const buttons = examples(content, body);
    buttons[0].click();
    section.append(make("p", "Examples: ", ...buttons), body);
  }
  if (route.responses[200] && "text/event-stream" in (route.responses[200].content || {})) {
    section.append(make("p", "It has no end: read it with curl -N, or on the page."));
    return section;
  }
  const button = make("button", "Send");
  button.onclick = () => send(method.toUpperCase(), path, body, out);
  const responses = Object.entries(route.responses).map(([status, { description }]) => make("tr", "", make("td", status), make("td", description)));
  section.append(make("table", "", ...responses), make("p", "", button), out);
  return section;
}

async function load() {
  const response = await kaboostKey.fetch("openapi.json");
  if (!response.ok) return;
  const document_ = await response.json();
  const routes = Object.entries(document_.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => describe(method, path, route)));
  const all = make("pre", JSON.stringify(document_.components.schemas, null, 2));
  all.tabIndex = 0;
  const schemas = make("section", "", make("h2", "Schemas"), all);
  document.getElementById("routes").replaceChildren(...routes, schemas);
}

load();
