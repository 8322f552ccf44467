// One group: who owns what, what happened, and how far it is.

import { tile, timed, timeline } from "./charts.js";
import { confirmed, resetDialog } from "./dialogs.js";
import { badge, clock, count, get, h, many, plain, post, replace, span, stamp, text } from "./dom.js";
import { chip, memberTable, picture } from "./owners.js";

const RANGES = [["1 min", 60_000], ["15 min", 900_000], ["1 h", 3_600_000], ["All", null]];
const KINDS = { classic: "classic group", consumer: "consumer group", simple: "offsets only", share: "share group", streams: "streams group" };
const MOST_ROWS = 200;
const CURVE = 240;
const RECALL_MS = 30_000;
const MOST_SPANS = 60;

export function groupPage(query, session, app) {
  const id = query.get("id") ?? "";
  const head = h("div", { class: "head" }, h("a", { href: "/", class: "muted" }, "Groups"),
    h("span", { class: "muted", "aria-hidden": "true" }, "/"), h("h1", { class: "group-id" }, text(id)));
  const notes = h("div", {}, h("p", { class: "muted" }, "Loading…"));
  const facts = h("dl", { class: "tiles" });
  const owners = h("div", { id: "owners", class: "owners" });
  const members = h("div");
  const time = h("div");
  const why = h("div", { id: "why" });
  const story = h("ol", { class: "story", id: "story" });
  const offsets = h("div");
  const curves = new Map();
  const pasts = new Map();
  let recalled = 0;
  let range = null;
  let isWhole = false;
  let last = null;

  const section = (name, title, more, ...children) =>
    h("section", { class: "card", "aria-labelledby": name }, h("div", { class: "head" }, h("h2", { id: name }, title), more), children);
  const ranges = h("div", { class: "chips", role: "group", "aria-label": "How much time" });
  const showRanges = () => replace(ranges, RANGES.map(([words, ms]) =>
    h("button", { type: "button", class: "chip", "aria-pressed": String(ms === range), "data-key": `range-${words}`,
      onclick: () => { range = ms; showRanges(); if (last) showTime(last); } }, words)));
  showRanges();

  function showHead(of) {
    const admin = session?.allows_changes && of.is_there;
    const act = (words, does, bad) => h("button", { type: "button", class: bad ? "bad" : "", "data-key": words, onclick: does }, words);
    replace(head, h("a", { href: "/", class: "muted" }, "Groups"), h("span", { class: "muted", "aria-hidden": "true" }, "/"),
      h("h1", { class: "group-id" }, text(id)), badge(of.state), of.type ? h("span", { class: "kind" }, KINDS[of.type]) : null,
      h("span", { class: "grow" }),
      admin ? act("Reset offsets", () => resetDialog(of, session, app)) : null,
      admin ? act("Delete group", () => remove(of), true) : null);
  }

  async function remove(of) {
    await confirmed({ title: "Delete this group?", id, action: "Delete",
      words: `Its ${many(of.offsets.filter((one) => one.offset !== null).length, "committed offset")} go with it. The coordinator refuses while it has members.`,
      run: () => post("/api/group/delete", { id, confirm: id }, session.change_token), app });
  }

  async function expel(member) {
    await confirmed({ title: "Expel this member?", id, action: "Expel",
      words: [text(member.client_id), ` loses its ${many(member.partitions, "partition")}, and the group rebalances. A client that runs joins again.`],
      run: () => post("/api/group/expel", { id, confirm: id, member_id: member.member_id }, session.change_token), app });
  }

  function showFacts(of) {
    const partitions = of.offsets.length + of.places_left_out;
    const isConsumer = of.type === "consumer";
    replace(facts,
      tile("Members", of.members.length + of.members_left_out),
      tile("Partitions", partitions),
      tile("Lag", of.lag ?? "–", of.lag === null ? "ends are not known" : since(of), trace("all", of.lag, "Lag of the group")),
      tile(isConsumer ? "Epoch" : "Generation", of.generation ?? "–", of.generation === null ? "not seen yet" : null),
      tile("Rebalances", of.rebalances, "last hour"),
      tile(isConsumer ? "Assignor" : "Protocol", of.protocol ? text(of.protocol) : "–"),
      tile("Shard", of.shard, of.node === null ? null : `node ${of.node}`));
  }

  // For how long it has been behind; at least so long where the begin was not seen.
  function since(of) {
    if (of.behind_ms === null || of.lag === 0) return null;
    return `${of.behind_is_at_least ? "≥ " : ""}${span(of.behind_ms)}${of.offsets ? " behind" : ""}`;
  }

  function trace(key, value, words) {
    const live = curves.get(key) ?? [];
    const before = (pasts.get(key) ?? []).filter(([at]) => at < (live[0]?.[0] ?? Infinity));
    const samples = [...before, ...live];
    if (value === null || samples.length < 2) return null;
    return timed(samples, `${words}, from ${clock(samples[0][0])} on`, { width: key === "all" ? 120 : 84 });
  }

  // What was sampled before this page was opened, and more coarsely since.
  async function recall(of) {
    if (of.at_ms < recalled + RECALL_MS) return;
    recalled = of.at_ms;
    try {
      const told = await get("/api/group/lag", { id });
      pasts.clear();
      pasts.set("all", told.lag);
      for (const one of told.partitions) pasts.set(`${one.topic}-${one.partition}`, one.lag);
      if (last) [showFacts, showOffsets].forEach((show) => show(last));
    } catch {
      recalled = 0; // it is asked again with the next change
    }
  }

  function remember(of) {
    const put = (key, value) => {
      if (!curves.has(key)) curves.set(key, []);
      const values = curves.get(key);
      values.push([of.at_ms, value]);
      if (values.length > CURVE) values.shift();
    };
    if (of.lag !== null) put("all", of.lag);
    for (const one of of.offsets.slice(0, isWhole ? undefined : MOST_ROWS)) if (one.lag !== null) put(`${one.topic}-${one.partition}`, one.lag);
  }

  function showTime(of) {
    const begin = of.spans.length ? of.spans.at(-MOST_SPANS)?.from_ms ?? of.spans[0].from_ms : of.events_since_ms;
    const from = range === null ? begin - Math.max((of.at_ms - begin) * 0.04, 500) : of.at_ms - range;
    replace(time, timeline(of.spans, from, of.at_ms, of.events_since_ms));
  }

  function showWhy(of) {
    const patterns = of.why.patterns.map((one) => h("div", { class: "notice" }, h("p", null, h("b", null, text(one.text))),
      h("p", null, text(one.suggestion)), h("p", { class: "muted" }, text(one.evidence))));
    const lines = [...of.why.rebalances].reverse().map((one) => h("li", null, stamp(one.at_ms), text(one.text)));
    replace(why, patterns, h("ol", { class: "story" }, lines.length ? lines : h("li", { class: "muted" }, stamp(of.events_since_ms), h("span", null, "No rebalance since then."))));
  }

  function showStory(of) {
    const lines = [...of.story].reverse().map((one) => h("li", { "data-kind": one.kind }, stamp(one.at_ms), text(one.text)));
    const since = h("li", { class: "muted" }, stamp(of.events_since_ms),
      h("span", null, "What was before is not known here."));
    replace(story, lines, of.story.length < 100 ? since : null);
  }

  function showOffsets(of) {
    const shown = isWhole ? of.offsets : of.offsets.slice(0, MOST_ROWS);
    const most = Math.max(...of.offsets.map((one) => one.lag ?? 0), 1);
    const heads = [["Partition"], ["Owner"], ["Committed", "number"], ["End", "number"], ["Lag", "number"], ["Behind", "behind"], ["", "trace"]];
    const rows = shown.map((one) => {
      const meter = h("span", { class: "meter", "aria-hidden": "true" }, h("i"));
      meter.firstChild.style.inlineSize = `${((one.lag ?? 0) / most) * 100}%`;
      const key = `${one.topic}-${one.partition}`;
      return h("tr", { "data-place": key },
        h("td", { class: "name" }, text(one.topic), h("span", { class: "muted" }, `-${one.partition}`)),
        h("td", { "data-label": "Owner" }, one.owners.length ? one.owners.map((at) => h("span", { class: "member" }, chip(at), text(of.members[at].client_id))) : h("span", { class: "muted" }, "nobody")),
        h("td", { class: "number", "data-label": "Committed", title: one.metadata ? plain(one.metadata) : null }, count(one.offset)),
        h("td", { class: "number", "data-label": "End" }, count(one.end)),
        h("td", { class: "number", "data-label": "Lag" }, h("span", { class: one.lag ? null : "muted" }, count(one.lag))),
        h("td", { class: "behind", "data-label": "Behind" }, one.behind_ms === null ? h("span", { class: "muted" }, "–") : h("span", { class: one.behind_ms ? null : "muted" }, one.lag ? since(one) : "0")),
        h("td", { class: "trace", "data-label": "" }, one.lag === null ? null : trace(key, one.lag, `Lag of ${plain(key)}`) ?? meter));
    });
    const left = of.offsets.length - shown.length;
    replace(offsets,
      h("table", { class: "rows" }, h("thead", null, h("tr", null, heads.map(([words, kind]) => h("th", { scope: "col", class: kind }, words)))), h("tbody", { id: "offsets" }, rows)),
      left > 0 ? h("button", { type: "button", "data-key": "whole", onclick: () => { isWhole = true; showOffsets(of); } }, `Show ${count(left)} more`) : h("span"));
  }

  function render(of) {
    last = of;
    element.classList.remove("new");
    remember(of);
    recall(of);
    showHead(of);
    const words = [];
    if (!of.is_there) words.push("This group is gone. What is known of it stays below for a while.");
    if (of.members_left_out) words.push(`${many(of.members_left_out, "member")} more are not shown.`);
    if (of.places_left_out) words.push(`${many(of.places_left_out, "partition")} more are not shown.`);
    if (session?.is_watched) words.push("This group is only watched: whether a member left or fell silent, and who was waited for, its log does not tell.");
    if (!of.events_are_all) words.push("Another node coordinates this group: what happens there is told some seconds later, and by a Kafka broker not at all.");
    replace(notes, words.map((one) => h("p", { class: "notice" }, one)));
    showFacts(of);
    replace(owners, of.offsets.length ? picture(of) : h("p", { class: "muted" }, "No partitions: nobody subscribes to a topic that exists, and nothing is committed."));
    replace(members, of.members.length ? memberTable(of, owners, session?.allows_changes ? expel : null) : h("p", { class: "muted" }, "No members."));
    showTime(of);
    showWhy(of);
    showStory(of);
    showOffsets(of);
  }

  const element = h("div", { class: "group new" }, head, notes, facts,
    section("h-owners", "Who owns what", null, owners, members),
    section("h-time", "Generations", ranges, time),
    section("h-why", "Why it rebalanced", null, why),
    section("h-story", "What happened", null, story),
    section("h-offsets", "Offsets", null, offsets));

  return {
    name: "groups",
    title: `${plain(id) || "(empty)"} · pykcoord`,
    groupId: id,
    path: "/api/group",
    element,
    parameters: () => ({ id }),
    wants: () => true,
    render,
    gone() {
      replace(head, h("a", { href: "/", class: "muted" }, "Groups"), h("span", { class: "muted", "aria-hidden": "true" }, "/"),
        h("h1", { class: "group-id" }, text(id)));
      replace(notes, h("p", { class: "notice" }, "There is no such group now. This page shows it as soon as there is."));
    },
  };
}
