// The pages, and how one gets from one to the next.

import { clusterPage } from "./cluster.js";
import { keysDialog } from "./dialogs.js";
import { get, h, post } from "./dom.js";
import { groupPage } from "./group.js";
import { groupsPage } from "./groups.js";
import { follow } from "./live.js";

const main = document.getElementById("main");
const PAGES = { "/": groupsPage, "/group": groupPage, "/cluster": clusterPage };
let page = null;
let session = null;
let working = null;
let again = false;

export function go(path) {
  history.pushState(null, "", path);
  show();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function show() {
  const url = new URL(location.href);
  const make = PAGES[url.pathname] ?? groupsPage;
  page = make(url.searchParams, session, { go, refresh });
  document.title = page.title;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(page.element);
  follow(page.groupId ?? null, tick);
  refresh();
}

function tick(told) {
  if (page?.wants(told)) refresh();
}

// One request at a time; of those that are wanted meanwhile, one.
export function refresh() {
  if (working) {
    again = true;
    return working;
  }
  working = load().finally(() => {
    working = null;
    if (again) {
      again = false;
      refresh();
    }
  });
  return working;
}

async function load() {
  const shown = page;
  try {
    const answer = await get(shown.path, shown.parameters());
    if (shown === page) {
      shown.render(answer);
      fail(null);
    }
  } catch (error) {
    if (shown === page) {
      if (error.status === 404) shown.gone?.();
      else fail(error.message);
    }
  }
}

function fail(reason) {
  document.getElementById("failure")?.remove();
  if (reason !== null) {
    main.prepend(h("p", { id: "failure", class: "notice bad", role: "alert" }, `Not up to date: ${reason}`));
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/']");
  const plainClick = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey;
  if (link && plainClick && link.getAttribute("href").split("?")[0] in PAGES) {
    event.preventDefault();
    go(link.getAttribute("href"));
  }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches?.("input, select, textarea");
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing) return;
  const keys = { "/": search, "?": keysDialog, g: () => go("/"), c: () => go("/cluster"), t: turn };
  if (event.key in keys) {
    event.preventDefault();
    keys[event.key]();
  } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    step(event);
  }
});

function search() {
  const field = document.getElementById("search");
  if (field) field.focus();
  else go("/");
}

// Up and down go from row to row.
function step(event) {
  const links = [...main.querySelectorAll("tbody a.row")];
  const at = links.indexOf(document.activeElement);
  if (!links.length || (at < 0 && document.activeElement !== main && document.activeElement !== document.body)) return;
  event.preventDefault();
  const next = event.key === "ArrowDown" ? Math.min(at + 1, links.length - 1) : Math.max(at - 1, 0);
  links[next].focus();
}

const THEMES = ["auto", "light", "dark"];
const SIGNS = { auto: "◐", light: "☀", dark: "☾" };
const themeButton = document.getElementById("theme");

function wear(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  themeButton.textContent = SIGNS[theme];
  themeButton.title = `Colors: ${theme} (t)`;
}

function turn() {
  const before = localStorage.getItem("theme") ?? "auto";
  const theme = THEMES[(THEMES.indexOf(before) + 1) % THEMES.length];
  localStorage.setItem("theme", theme);
  wear(theme);
}

wear(THEMES.includes(localStorage.getItem("theme")) ? localStorage.getItem("theme") : "auto");
themeButton.addEventListener("click", turn);
document.getElementById("help").addEventListener("click", keysDialog);
window.addEventListener("popstate", show);

session = await get("/api/session").catch(() => null);
document.getElementById("source").textContent = session ? session.name : "";
if (session?.has_token) {
  const button = document.getElementById("logout");
  button.hidden = false;
  button.addEventListener("click", async () => {
    await post("/logout", {});
    location.assign("/login");
  });
}
show();
