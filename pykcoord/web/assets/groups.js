// All groups, by the page.

import { badge, count, h, many, plain, replace, span, stateName, stamp, text } from "./dom.js";

const COLUMNS = [
  ["group", "Group", "asc"],
  [null, "State"],
  [null, "Kind"],
  ["members", "Members", "desc"],
  ["lag", "Lag", "desc"],
  ["rebalances", "Rebalances", "desc"],
];
const KINDS = { classic: "classic", consumer: "consumer", simple: "offsets only", share: "share", streams: "streams" };
const SIZE = 50;
const HOUR_MS = 3_600_000;

export function groupsPage(query, session, app) {
  const given = (name) => query.get(name) ?? "";
  const sort = given("sort") || "group";
  const order = given("order") || (sort === "group" ? "asc" : "desc");
  const skip = Number(given("skip")) || 0;
  let shown = new Set();
  let ticks = 0;
  let timer = 0;

  const link = (changes) => {
    const next = new URLSearchParams(query);
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") next.delete(name);
      else next.set(name, value);
    }
    return next.size ? `/?${next}` : "/";
  };
  const from = { after: null, skip: null };

  const field = h("input", {
    id: "search", type: "search", placeholder: "Search groups", "aria-label": "Search groups", value: given("search"),
    autocomplete: "off", spellcheck: "false",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => search(), 250);
    },
    onkeydown: (event) => {
      if (event.key === "Enter") search();
    },
  });
  const search = () => {
    clearTimeout(timer);
    if (field.value === given("search")) return;
    const at = field.selectionStart;
    app.go(link({ search: field.value, ...from }));
    const next = document.getElementById("search");
    next.focus();
    next.setSelectionRange(at, at);
  };
  const title = h("h1", null, "Groups");
  const total = h("span", { class: "muted", id: "total" });
  const states = h("div", { class: "chips", role: "group", "aria-label": "States" });
  const notes = h("div");
  const body = h("tbody", { id: "groups" });
  const foot = h("div", { class: "pager" });
  const head = COLUMNS.map(([name, words, first]) => heading(name, words, first));

  function heading(name, words, first) {
    if (name === null) return h("th", { scope: "col" }, words);
    const on = name === sort;
    const next = on ? (order === "asc" ? "desc" : "asc") : first;
    const sorted = on ? (order === "asc" ? "ascending" : "descending") : "none";
    const arrow = h("span", { class: "arrow", "aria-hidden": "true" }, on ? (order === "asc" ? "▲" : "▼") : "");
    return h("th", { scope: "col", "aria-sort": sorted, class: name === "group" ? null : "number" },
      h("a", { href: link({ sort: name, order: next, ...from }) }, words, arrow));
  }

  const row = (of) => {
    const at = `/group?${new URLSearchParams({ id: of.id })}`;
    return h("tr", { "data-id": of.id },
      h("td", { class: "name" }, h("a", { class: "row", href: at, "data-key": of.id, title: plain(of.id) }, text(of.id))),
      h("td", { "data-label": "State" }, badge(of.state)),
      h("td", { "data-label": "Kind" }, h("span", { class: "kind" }, KINDS[of.type] ?? of.type),
        of.protocol ? h("span", { class: "muted protocol" }, text(of.protocol)) : null),
      h("td", { class: "number", "data-label": "Members" }, count(of.members)),
      h("td", { class: "number", "data-label": "Lag" }, lag(of)),
      h("td", { class: "number", "data-label": "Rebalances" }, h("span", { class: of.rebalances > 5 ? "hot" : null }, count(of.rebalances))));
  };

  return {
    name: "groups",
    title: "Groups · pykcoord",
    path: "/api/groups",
    element: h("div", null,
      h("div", { class: "head" }, title, total, h("span", { class: "grow" }), field),
      states, notes,
      h("div", { class: "card flush" },
        h("table", { class: "rows groups" }, h("thead", null, h("tr", null, head)), body)),
      foot),
    parameters: () => ({
      size: SIZE, search: given("search"), state: given("state"), type: given("type"), sort, order,
      after: query.has("after") ? given("after") : null, skip: sort === "group" ? null : skip,
    }),
    wants(told) {
      ticks += 1;
      return told.all || told.changed.length > 0 || ticks % 3 === 0 || shown.size === 0;
    },
    render(answer) {
      shown = new Set(answer.groups.map((one) => one.id));
      total.textContent = answer.is_whole ? many(answer.total, "group") : `${many(answer.total, "group")} so far: they are being listed`;
      replace(states, chips(answer, given("state"), link));
      replace(notes, notices(answer, sort));
      const empty = h("tr", null, h("td", { colspan: COLUMNS.length, class: "empty" },
        given("search") || given("state") ? "No group matches."
          : answer.is_whole ? "No groups yet: a consumer that joins, or commits, makes one." : "None is known yet."));
      replace(body, answer.groups.length ? answer.groups.map(row) : empty);
      replace(foot, pager(answer, skip, query, link));
    },
  };
}

function lag(of) {
  if (of.lag === null) return h("span", { class: "muted" }, "–");
  const behind = of.lag > 0 && of.behind_ms !== null
    ? h("small", { class: "behind muted" }, `${of.behind_is_at_least ? "≥ " : ""}${span(of.behind_ms)} behind`) : null;
  return h("span", { class: of.lag > 0 ? null : "muted" }, behind, count(of.lag));
}

function chips(answer, state, link) {
  const known = Object.entries(answer.counts.states).filter(([name]) => name).sort((one, other) => other[1] - one[1]);
  if (known.length < 2 && !state) return [];
  const all = chip("All", answer.total, !state, link({ state: null, after: null, skip: null }), "");
  return [all, known.map(([name, number]) =>
    chip(stateName(name), number, name === state, link({ state: name, after: null, skip: null }), name))];
}

function chip(words, number, on, href, key) {
  return h("a", { class: "chip", href, "aria-current": on ? "true" : null, "data-key": `chip-${key}` },
    words, h("span", { class: "muted" }, count(number)));
}

function notices(answer, sort) {
  const found = answer.unreachable.map((one) =>
    h("p", { class: "notice bad" }, `Node ${one.node_id} does not answer, its groups are missing or old: ${one.error}`));
  if (answer.sorted_by !== sort) {
    found.push(h("p", { class: "notice" },
      `Sorted by group: by ${sort} no more than ${count(answer.most_sorted)} groups are sorted. Search, or choose a state.`));
  }
  return found;
}

function pager(answer, skip, query, link) {
  const last = answer.groups.at(-1);
  const byGroup = answer.sorted_by === "group";
  const isFirst = byGroup ? !query.has("after") : skip === 0;
  const next = byGroup ? { after: last?.id ?? null, skip: null } : { skip: skip + answer.groups.length, after: null };
  const known = answer.at_ms - answer.rebalances_since_ms < HOUR_MS ? [", known since ", stamp(answer.rebalances_since_ms)] : null;
  const rebalances = h("span", { class: "muted" }, "Rebalances of the last hour", known,
    answer.rebalances_are_all ? "" : ", of this node's groups");
  const toFirst = isFirst ? null : h("a", { class: "button", href: link({ after: null, skip: null }), "data-key": "first" }, "First page");
  const nextHref = byGroup && last?.id === "" ? "/?after=" : link(next);
  const toNext = answer.more ? h("a", { class: "button", href: nextHref, rel: "next", "data-key": "next" }, "Next page") : null;
  return [rebalances, h("span", { class: "grow" }), toFirst, toNext].filter(Boolean);
}
