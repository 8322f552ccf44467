// Questions before changes, and the list of keys.

import { count, h, post, text } from "./dom.js";

function dialog(title, body, buttons) {
  const found = h("dialog", { "aria-label": title }, h("h2", null, title), body, h("div", { class: "buttons" }, buttons));
  found.addEventListener("close", () => found.remove());
  document.body.append(found);
  found.showModal();
  return found;
}

const cancel = () => h("button", { type: "button", onclick: (event) => event.target.closest("dialog").close() }, "Cancel");

// Asks for the group's id, then runs. What the server refuses is shown, and the question stays.
export function confirmed({ title, words, id, action, run, app, more }) {
  const field = h("input", { type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "The group's id" });
  const error = h("p", { class: "notice bad", role: "alert", hidden: true });
  const button = h("button", { type: "button", class: "primary bad", disabled: true }, action);
  const easy = /^[\x20-\x7e]+$/.test(id);
  const tick = h("input", { type: "checkbox" });
  const check = () => { button.disabled = easy ? field.value !== id : !tick.checked; };
  field.addEventListener("input", check);
  tick.addEventListener("change", check);
  const shown = dialog(title, [
    h("p", null, words), more ?? null,
    easy ? h("label", null, "Type the group's id: ", h("b", null, text(id)), field)
      : h("label", { class: "check" }, tick, h("span", null, "I mean the group ", h("b", null, text(id)))),
    error], [cancel(), button]);
  const go = async () => {
    button.disabled = true;
    error.hidden = true;
    try {
      await run();
      shown.close();
      app.refresh();
    } catch (reason) {
      error.textContent = reason.message;
      error.hidden = false;
      check();
    }
  };
  button.addEventListener("click", go);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !button.disabled) go();
  });
  (easy ? field : tick).focus();
  return shown;
}

export function resetDialog(of, session, app) {
  const topics = [...new Set(of.offsets.map((one) => one.topic))];
  const topic = h("select", { "aria-label": "Topic" }, h("option", { value: "" }, "All topics"), topics.map((one, at) => h("option", { value: String(at + 1) }, one)));
  const to = h("select", { "aria-label": "To" }, h("option", { value: "earliest" }, "the beginning"), h("option", { value: "latest" }, "the end"), h("option", { value: "offset" }, "an offset"));
  const offset = h("input", { type: "number", min: "0", value: "0", "aria-label": "Offset", hidden: true });
  to.addEventListener("change", () => { offset.hidden = to.value !== "offset"; });
  const chosen = () => of.offsets.filter((one) => !topic.value || one.topic === topics[topic.value - 1]);
  confirmed({
    title: "Reset offsets?",
    words: `Consumers of this group go on from there. The coordinator refuses while it has members. ${count(of.offsets.length)} partitions are shown here, and no others are changed.`,
    id: of.id, action: "Reset", app,
    more: h("div", { class: "fields" }, topic, h("span", null, "to"), to, offset),
    run: () => post("/api/group/reset", {
      id: of.id, confirm: of.id, to: to.value, offset: to.value === "offset" ? Number(offset.value) : undefined,
      partitions: chosen().map(({ topic, partition }) => ({ topic, partition })),
    }, session.change_token),
  });
}

const KEYS = [["/", "search"], ["↑ ↓", "from row to row"], ["Enter", "open"], ["g", "all groups"], ["c", "the cluster"], ["t", "light, dark, or as the system"], ["Esc", "leave a field, close a question"]];

export function keysDialog() {
  dialog("Keys", h("dl", { class: "keys" }, KEYS.map(([key, words]) => [h("dt", null, h("kbd", null, key)), h("dd", null, words)])),
    [h("button", { type: "button", class: "primary", onclick: (event) => event.target.closest("dialog").close() }, "Close")]);
}
