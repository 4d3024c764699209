// The key of the API: asked for when a request is refused, kept until the tab is closed, sent as a header.
"use strict";
const kaboostKey = (() => {
  const NAME = "kaboost-key";
  let form = null;

  const headers = () => {
    const key = sessionStorage.getItem(NAME);
    return key ? { Authorization: `Bearer ${key}` } : {};
  };

  function build() {
    const key = Object.assign(document.createElement("input"), { type: "password", autocomplete: "off", id: "api-key" });
    const label = Object.assign(document.createElement("label"), { htmlFor: key.id, textContent: "Key of the API " });
    const button = Object.assign(document.createElement("button"), { textContent: "Use it" });
    const reason = Object.assign(document.createElement("p"), { className: "note" });
    reason.setAttribute("role", "status");
    form = Object.assign(document.createElement("form"), { id: "key-form" });
    form.append(label, key, " ", button, reason);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(NAME, key.value.trim());
      location.reload();
    });
    document.body.prepend(form);
  }

  // Ask for a key where there is none or another; a key without the role is only named.
  function ask(status, detail) {
    if (!form) build();
    form.lastChild.textContent = detail;
    if (status === 401 && sessionStorage.getItem(NAME)) sessionStorage.removeItem(NAME);
  }

  async function request(path, options = {}) {
    const response = await fetch(path, { ...options, headers: { ...headers(), ...options.headers } });
    if (response.status === 401) {
      const body = await response.clone().json().catch(() => ({}));
      ask(401, body.detail ?? "A key is needed.");
    }
    return response;
  }

  // Server-sent events by fetch, as EventSource sends no header; `hear` gets the data of each event.
  function stream(path, hear) {
    const control = new AbortController();
    const opened = { closed: false, close: () => control.abort() };
    (async () => {
      const response = await request(path, { signal: control.signal, cache: "no-store" });
      if (!response.ok) return;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = ""; ;) {
        const { value, done } = await reader.read();
        if (done) return;
        text += value;
        const messages = text.split("\n\n");
        text = messages.pop();
        for (const message of messages) {
          const data = message.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
          if (data.length) hear({ data: data.join("\n") });
        }
      }
    })().catch(() => {}).finally(() => { opened.closed = true; });
    return opened;
  }

  return { fetch: request, stream };
})();
