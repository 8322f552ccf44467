// The cluster: nodes, shards, rates, the log and its snapshots.

import { curve, tile } from "./charts.js";
import { bytes, count, h, replace, span, stateName } from "./dom.js";
import { color } from "./owners.js";

const MOST = 120;

export function clusterPage() {
  const tiles = h("dl", { class: "tiles" });
  const rates = h("dl", { class: "tiles", id: "rates" });
  const states = h("div", { id: "states" });
  const nodes = h("div");
  const shards = h("ol", { class: "cells shards", id: "shards" });
  const log = h("dl", { class: "tiles", id: "log" });
  const notes = h("div");
  const kept = new Map();
  let before = null;

  const section = (name, title, ...children) =>
    h("section", { class: "card", "aria-labelledby": name }, h("div", { class: "head" }, h("h2", { id: name }, title)), children);

  // What a counter rose by in a second, with the curve of it.
  function rate(words, now, total, unit) {
    const value = total(now.figures);
    const earlier = before === null ? undefined : total(before.figures);
    if (value === undefined) return null;
    const seconds = before === null ? 0 : (now.at_ms - before.at_ms) / 1000;
    if (!kept.has(words)) kept.set(words, []);
    const values = kept.get(words);
    if (seconds > 0 && earlier !== undefined) values.push(Math.max(value - earlier, 0) / seconds);
    if (values.length > MOST) values.shift();
    const shown = values.length ? values.at(-1) : null;
    const number = shown === null ? "–" : unit ? unit(shown) : count(Math.round(shown));
    return tile(words, number, "a second", values.length > 1 ? curve(values, `${words} a second, since this page was opened`) : null);
  }

  const requests = (figures, apis) => {
    const of = figures.request_seconds;
    if (of === undefined) return undefined;
    return Object.entries(of).filter(([api]) => apis === null || apis.includes(api)).reduce((sum, [, one]) => sum + one.count, 0);
  };

  function showRates(now) {
    const of = now.figures;
    replace(rates,
      rate("Heartbeats", now, (of) => requests(of, ["Heartbeat", "ConsumerGroupHeartbeat"])) ?? h("p", { class: "muted wide" }, of.watch_mode ? "The requests of a cluster that is only watched are not known." : "A coordinator in process counts no requests."),
      rate("Commits", now, (of) => requests(of, ["OffsetCommit"])) ?? "",
      rate("All requests", now, (of) => requests(of, null)) ?? "",
      of.rebalances === undefined && of.rebalances_total === undefined ? "" : tile("Rebalances", sum(of.rebalances ?? of.rebalances_total), "since the start"),
      rate("Log", now, (of) => of.log_written_bytes, bytes) ?? "");
  }

  function showLog(now) {
    const of = now.figures;
    const kept = of.snapshots;
    const sync = of.fsync_seconds?.[""];
    replace(log,
      of.log_bytes !== undefined ? tile("Size", bytes(of.log_bytes)) : "",
      sync ? tile("Sync", sync.count ? span((sync.sum / sync.count) * 1000) : "–", `on average, ${count(sync.count)} in all`) : "",
      sync?.buckets ? tile("Sync, slow", slow(sync), "99 of 100 are faster") : "",
      of.append_failures !== undefined ? tile("Failed appends", of.append_failures) : "",
      of.watch_mode ? h("p", { class: "muted wide" }, `Read by pykcoord watch: ${of.behind_records === undefined ? "coordinators are asked" : `${count(of.read_records)} records, ${count(of.behind_records)} to come`}.`) : "",
      kept ? tile("Snapshots", `${count(kept.count)} of ${count(now.shards.length)}`, kept.count ? `newest ${span(now.at_ms - kept.newest_ms)} ago, oldest ${span(now.at_ms - kept.oldest_ms)}, ${bytes(kept.bytes)}` : "none written yet") : "");
  }

  function showNodes(now) {
    const heads = [["Node"], ["Address"], ["Answers"], ["Shards", "number"], ["Groups", "number"]];
    replace(nodes, h("table", { class: "rows" },
      h("thead", null, h("tr", null, heads.map(([words, kind]) => h("th", { scope: "col", class: kind }, words)))),
      h("tbody", { id: "nodes" }, now.nodes.map((one, at) => h("tr", null,
        h("td", { class: "name" }, h("span", { class: "member" }, h("span", { class: `swatch ${color(at)}` }, one.node_id), `node ${one.node_id}`, one.node_id === now.controller ? h("span", { class: "kind" }, "controller") : null)),
        h("td", { "data-label": "Address" }, one.address ?? "in this process"),
        h("td", { "data-label": "Answers" }, h("span", { class: `badge ${one.answers ? "good" : "bad"}`, title: one.error }, one.answers ? "yes" : "no")),
        h("td", { class: "number", "data-label": "Shards" }, count(now.shards.filter((of) => of === one.node_id).length)),
        h("td", { class: "number", "data-label": "Groups" }, count(one.groups)))))));
    const place = new Map(now.nodes.map((one, at) => [one.node_id, at]));
    replace(shards, now.shards.map((node, shard) => h("li", { class: `cell ${place.has(node) ? color(place.get(node)) : "nobody"}`, title: `shard ${shard}: node ${node ?? "not known"}` },
      h("span", { class: "unseen" }, `shard ${shard}: node ${node ?? "not known"}`), h("span", { "aria-hidden": "true" }, shard))));
  }

  function showStates(now) {
    const total = Math.max(now.total, 1);
    const known = Object.entries(now.counts.states).filter(([name]) => name).sort((one, other) => other[1] - one[1]);
    replace(states, known.map(([name, number]) => {
      const meter = h("span", { class: "meter wide", "aria-hidden": "true" }, h("i"));
      meter.firstChild.style.inlineSize = `${(number / total) * 100}%`;
      return h("div", { class: "state" }, h("a", { href: `/?${new URLSearchParams({ state: name })}` }, stateName(name)), meter, h("span", { class: "number" }, count(number)));
    }));
  }

  return {
    name: "cluster",
    title: "Cluster · pykcoord",
    path: "/api/cluster",
    element: h("div", null, h("div", { class: "head" }, h("h1", null, "Cluster")), notes, tiles,
      section("h-rates", "Rates", rates), section("h-states", "Groups by state", states),
      section("h-nodes", "Nodes and shards", nodes, shards), section("h-log", "Log", log)),
    parameters: () => ({}),
    wants: () => true,
    render(now) {
      const of = now.figures;
      const away = of.shards_away ?? 0;
      replace(notes, of.error ? h("p", { class: "notice bad" }, `Counts are missing: ${of.error}`) : "",
        away ? h("p", { class: "notice bad" }, `${count(away)} shards are not served now; their log is being loaded again.`) : "",
        now.nodes.length > 1 && !of.watch_mode ? h("p", { class: "notice" }, "Rates, members, offsets and log are of this node; groups, nodes and shards are of all.") : "");
      replace(tiles,
        tile("Groups", now.total), tile("Members", of.members ?? "–"), tile("Committed offsets", of.offsets ?? "–"),
        tile("Topics", now.topics, `${count(now.partitions)} partitions`), tile("Nodes", now.nodes.length),
        of.connections !== undefined ? tile("Connections", of.connections) : "");
      showRates(now);
      showStates(now);
      showNodes(now);
      showLog(now);
      before = now;
    },
  };
}

const sum = (of) => (of === undefined ? undefined : typeof of === "number" ? of : Object.values(of).reduce((one, other) => one + other, 0));

// The least bound below which 99 of 100 are.
function slow(of) {
  if (!of.count) return "–";
  const bounds = Object.entries(of.buckets).map(([bound, number]) => [bound === "+Inf" ? Infinity : Number(bound), number]).sort((one, other) => one[0] - other[0]);
  const [bound] = bounds.find(([, number]) => number >= 0.99 * of.count) ?? [Infinity];
  return bound === Infinity ? "over 5 s" : `≤ ${span(bound * 1000)}`;
}
