// Who owns what, as a picture: each partition a cell with its owner's color and letter.

import { count, h, many, plain, replace, text } from "./dom.js";

const COLORS = 12;
const SMALL_FROM = 240;
// The member whose partitions are shown, by its place.
let pointed = null;

export function letter(number) {
  let name = "";
  for (let left = number + 1; left > 0; left = Math.floor((left - 1) / 26)) {
    name = String.fromCharCode(65 + ((left - 1) % 26)) + name;
  }
  return name;
}

export const color = (number) => `owner-${number % COLORS}`;

export const chip = (number) => h("span", { class: `swatch ${color(number)}`, "aria-hidden": "true" }, letter(number));

export function picture(of) {
  const topics = new Map();
  for (const one of of.offsets) {
    if (!topics.has(one.topic)) topics.set(one.topic, []);
    topics.get(one.topic).push(one);
  }
  const small = of.offsets.length > SMALL_FROM;
  return [...topics].map(([topic, places]) =>
    h("div", { class: "topic" },
      h("h3", null, text(topic), h("span", { class: "muted" }, summary(places))),
      h("ol", { class: small ? "cells small" : "cells" }, places.map((one) => cell(one, of.members)))));
}

function summary(places) {
  const unowned = places.filter((one) => one.owners.length === 0).length;
  const words = many(places.length, "partition");
  return unowned ? `${words}, ${count(unowned)} without an owner` : words;
}

function cell(one, members) {
  const [first] = one.owners;
  const kind = one.owners.length > 1 ? "twice" : first === undefined ? "nobody" : color(first);
  const names = one.owners.map((at) => `${letter(at)} ${plain(members[at].client_id)}`).join(" and ");
  const words = `${plain(one.topic)}-${one.partition}: ${names || "no owner"}`;
  return h("li", { class: `cell ${kind}${first !== undefined && first === pointed ? " pointed" : ""}`, title: words, "data-owner": first ?? "" },
    h("span", { class: "unseen" }, words),
    h("span", { "aria-hidden": "true" }, one.partition),
    h("b", { "aria-hidden": "true" }, one.owners.map(letter).join("") || "–"));
}

// Members; to point at one, or to have the focus in it, shows its partitions.
export function memberTable(of, picture, expel) {
  const point = (number) => {
    pointed = number;
    picture.dataset.pointed = number === null ? "" : "yes";
    for (const one of picture.querySelectorAll(".cell")) {
      one.classList.toggle("pointed", number !== null && one.dataset.owner === String(number));
    }
  };
  const isConsumer = of.type === "consumer";
  const head = ["Member", "Client", "Address", "Partitions", ...(isConsumer ? ["Epoch", "Moves"] : []), ...(expel ? [""] : [])];
  const body = h("tbody", { id: "members" });
  replace(body, of.members.map((one, number) => h("tr", {
    "data-member": one.member_id,
    onmouseenter: () => point(number), onmouseleave: () => point(null), onfocusin: () => point(number), onfocusout: () => point(null),
  },
    h("td", { class: "name" }, h("span", { class: "member", tabindex: "0", "data-key": `m-${one.member_id}` }, chip(number),
      text(one.instance_id ?? one.member_id, { class: "id", title: plain(one.member_id) }),
      one.instance_id !== null ? h("span", { class: "tag" }, "static") : null)),
    h("td", { "data-label": "Client" }, text(one.client_id)),
    h("td", { "data-label": "Address" }, text(one.client_host.replace(/^\//, ""))),
    h("td", { class: "number", "data-label": "Partitions" },
      one.unreadable ? h("span", { class: "muted" }, `${count(one.unreadable)} bytes`) : count(one.partitions)),
    isConsumer ? h("td", { class: "number", "data-label": "Epoch" }, one.is_classic ? h("span", { class: "tag" }, "classic") : null, count(one.epoch)) : null,
    isConsumer ? h("td", { class: "number", "data-label": "Moves" }, moves(one)) : null,
    expel ? h("td", { class: "act" }, h("button", { type: "button", class: "quiet bad", "data-key": `x-${one.member_id}`, onclick: () => expel(one) }, "Expel")) : null)));
  return h("table", { class: "rows" },
    h("thead", null, h("tr", null, head.map((words) => h("th", { scope: "col", class: ["Partitions", "Epoch", "Moves"].includes(words) ? "number" : null }, words)))),
    body);
}

function moves(one) {
  const parts = [];
  if (one.coming) parts.push(`+${count(one.coming)}`);
  if (one.going) parts.push(`−${count(one.going)}`);
  return parts.length ? h("span", { class: "hot", title: "Partitions that are to come and to go" }, parts.join(" ")) : h("span", { class: "muted" }, "–");
}

