// Time as pictures: the generations of a group, and small curves.

import { clock, count, h, plain, span, svg } from "./dom.js";

const WORDS = { stable: "stable", rebalancing: "rebalancing", empty: "no members" };
const CAUSES = {
  member_joined: "a member joined",
  leader_rejoined: "the leader joined again",
  metadata_changed: "a subscription changed",
  subscription_changed: "a subscription changed",
  static_member_replaced: "a static member came back",
  member_left: "a member left",
  session_expired: "a session expired",
  rebalance_timeout: "a member was too late",
  sync_expired: "a member sent no SyncGroup",
  topics_changed: "topics changed",
  logged_members: "members came or went",
  logged_subscription: "a subscription changed",
  logged_partitions: "more partitions",
  logged_step: "the second step of a cooperative rebalance",
  logged_topics: "topics changed",
  logged_nothing: "the log does not tell why",
};

// Spans as a bar, `from` to `to` (ms). A span that is too short to be seen is drawn three pixels wide.
export function timeline(spans, from, to, knownSince) {
  const width = Math.max(to - from, 1);
  const at = (ms) => `${((Math.min(Math.max(ms, from), to) - from) / width) * 100}%`;
  const part = (className, start, end, words, ...children) => {
    const found = h("div", { class: `span ${className}`, title: words }, h("span", { class: "unseen" }, words), ...children);
    found.style.insetInlineStart = at(start);
    found.style.inlineSize = `calc(${at(end)} - ${at(start)})`;
    return found;
  };
  const parts = [];
  const first = spans.length ? spans[0].from_ms : to;
  if (first > from) {
    const words = from < knownSince ? "not known" : "nothing happened";
    parts.push(part("unknown", from, first, words));
  }
  for (const one of spans) {
    const end = one.to_ms ?? to;
    if (end < from) continue;
    const cause = one.cause ? `, ${CAUSES[one.cause] ?? one.cause}${one.client_id ? `: ${plain(one.client_id)}` : ""}` : "";
    const words = `Generation ${one.generation}, ${WORDS[one.what]}${cause}, from ${clock(one.from_ms)}, ${one.to_ms === null ? "still" : `for ${span(end - one.from_ms)}`}`;
    const wide = (end - Math.max(one.from_ms, from)) / width > 0.04;
    parts.push(part(one.what, one.from_ms, end, words, wide && one.what !== "rebalancing" ? h("b", { "aria-hidden": "true" }, one.generation) : null));
  }
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => h("span", null, clock(from + share * width)));
  return h("div", { class: "timeline" }, h("div", { class: "bar", role: "img", "aria-label": "Generations over time" }, parts), h("div", { class: "axis", "aria-hidden": "true" }, ticks));
}

// Of fewer values, a curve begins further to the right; of a shorter time, likewise.
const FEWEST = 20;
const SHORTEST = 60_000;

// A curve of the last values, the newest at the right.
export function curve(values, words, { width = 96, height = 22, most = 120 } = {}) {
  const shown = values.slice(-most).map((one) => one ?? 0);
  const step = width / Math.max(Math.min(most, shown.length) - 1, FEWEST - 1);
  const start = width - step * (shown.length - 1);
  return drawn(shown.map((one, at) => [start + at * step, one]), words, width, height);
}

// The same of values with their times (ms), by time.
export function timed(samples, words, { width = 96, height = 22 } = {}) {
  const end = samples.at(-1)[0];
  const scale = width / Math.max(end - samples[0][0], SHORTEST);
  return drawn(samples.map(([at, value]) => [width - (end - at) * scale, value]), words, width, height);
}

function drawn(shown, words, width, height) {
  const top = Math.max(...shown.map(([, value]) => value), 1);
  const start = shown[0][0];
  const points = shown.map(([at, value]) => `${at.toFixed(1)},${(height - 2 - (value / top) * (height - 4)).toFixed(1)}`);
  return svg("svg", { class: "curve", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": words, preserveAspectRatio: "none" },
    svg("title", null, words),
    shown.length > 1 ? svg("polygon", { class: "under", points: `${start.toFixed(1)},${height} ${points.join(" ")} ${width},${height}` }) : null,
    svg("polyline", { points: points.join(" ") }));
}

export function tile(words, value, detail, more) {
  return h("div", { class: "tile" }, h("dt", null, words), h("dd", null, typeof value === "number" ? count(value) : value, detail ? h("small", null, detail) : null), more ?? null);
}
