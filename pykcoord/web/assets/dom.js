// Elements from names and texts. Nothing here, or anywhere in these files, makes markup of a text.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "class") element.setAttribute("class", value);
    else if (name.startsWith("on")) listen(element, name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

// What is called is looked up when it happens: `replace` puts a newer one there.
function listen(element, name, handler) {
  element.handlers ??= {};
  element.handlers[name] = handler;
  element.addEventListener(name, (event) => element.handlers[name]?.(event));
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

// What would not be seen, or would turn the direction of the line, is written out.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cn}]/u;

export function plain(text) {
  return [...text].map((one) => (HIDDEN.test(one) ? escaped(one) : one)).join("");
}

function escaped(character) {
  const code = character.codePointAt(0).toString(16);
  return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, "0")}`;
}

// A text that a client chose, isolated from what stands around it.
export function text(value, attributes) {
  const found = h("bdi", attributes);
  if (value === "") {
    found.append(h("span", { class: "escape" }, "(empty)"));
    return found;
  }
  let run = "";
  for (const one of value) {
    if (!HIDDEN.test(one)) {
      run += one;
      continue;
    }
    if (run) found.append(run);
    run = "";
    found.append(h("span", { class: "escape" }, escaped(one)));
  }
  if (run) found.append(run);
  return found;
}

export const count = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

export const many = (value, name) => `${count(value)} ${name}${value === 1 ? "" : "s"}`;

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) {
    if (value < 1024 || unit === "TiB") return `${value < 10 && unit !== "B" ? value.toFixed(1) : Math.round(value)} ${unit}`;
    value /= 1024;
  }
  return "";
}

export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

const TIME = { hour: "2-digit", minute: "2-digit", second: "2-digit" };

// The time of the day; of another day with its date.
export function clock(ms) {
  const at = new Date(ms);
  const time = at.toLocaleTimeString("en-GB", TIME);
  if (at.toDateString() === new Date().toDateString()) return time;
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

export function stamp(ms) {
  return h("time", { datetime: new Date(ms).toISOString(), title: new Date(ms).toLocaleString() }, clock(ms));
}

// A color is never alone: the state's name stands beside it.
const STATES = {
  Stable: ["good", "Stable"],
  Empty: ["idle", "Empty"],
  Dead: ["idle", "Gone"],
  PreparingRebalance: ["busy", "Preparing rebalance"],
  CompletingRebalance: ["busy", "Completing rebalance"],
  Assigning: ["busy", "Assigning"],
  Reconciling: ["busy", "Reconciling"],
};

export const stateName = (state) => STATES[state]?.[1] ?? state;

export const badge = (state) =>
  h("span", { class: `badge ${STATES[state]?.[0] ?? "idle"}`, "data-state": state }, stateName(state));

// Makes the children of `parent` what is given. Elements that fit stay, with what they had: the
// focus, a place in a list, a click that is under way.
export function replace(parent, ...children) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.dataset.key;
  become(parent, children.flat(Infinity).filter((one) => one instanceof Node));
  if (key && document.activeElement !== focused) {
    parent.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
}

const keyOf = (node) => node.dataset?.key ?? node.dataset?.id ?? node.dataset?.place ?? node.dataset?.member;

function fits(node, next) {
  if (node.nodeType !== next.nodeType || node.nodeName !== next.nodeName || keyOf(node) !== keyOf(next)) return false;
  const names = (of) => Object.keys(of.handlers ?? {}).sort().join();
  return names(node) === names(next);
}

function become(parent, wanted) {
  let at = parent.firstChild;
  for (const next of wanted) {
    const key = keyOf(next);
    let found = at;
    while (key !== undefined && found !== null && keyOf(found) !== key) found = found.nextSibling;
    if (found === null || !fits(found, next)) {
      parent.insertBefore(next, at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else parent.insertBefore(found, at);
    change(found, next);
  }
  while (at !== null) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function change(node, next) {
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.data !== next.data) node.data = next.data;
    return;
  }
  for (const { name } of [...node.attributes]) if (!next.hasAttribute(name)) node.removeAttribute(name);
  for (const { name, value } of next.attributes) {
    if (name !== "style" && node.getAttribute(name) !== value) node.setAttribute(name, value);
  }
  // The policy takes no attribute of this name; properties it does.
  if (next.style.cssText !== node.style.cssText) node.style.cssText = next.style.cssText;
  if (next.handlers) Object.assign(node.handlers, next.handlers);
  become(node, [...next.childNodes]);
}

export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function get(path, parameters) {
  const query = new URLSearchParams(
    Object.entries(parameters ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== ""),
  );
  if (parameters?.id === "") query.set("id", "");
  const answer = await fetch(query.size ? `${path}?${query}` : path, { headers: { Accept: "application/json" } });
  return read(answer);
}

export async function post(path, body, changeToken) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Pykcoord-Change": changeToken ?? "" },
    body: JSON.stringify(body),
  });
  return read(answer);
}

async function read(answer) {
  if (answer.status === 401) location.assign("/login");
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  let reason = `The server answered ${answer.status}.`;
  try {
    reason = (await answer.json()).error ?? reason;
  } catch {
    // No JSON: the number has to do.
  }
  throw new Refusal(reason, answer.status);
}
