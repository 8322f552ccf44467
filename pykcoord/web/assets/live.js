// What the server tells while a page is looked at: one stream, closed while it is hidden.

let source = null;
let wanted = null;
let hear = () => {};

function show(state, words) {
  const shown = document.getElementById("live");
  shown.dataset.state = state;
  if (shown.textContent !== words) shown.textContent = words;
}

function open() {
  close();
  if (wanted === null || document.hidden) return;
  source = new EventSource(wanted);
  source.addEventListener("tick", (event) => {
    show("on", "Live");
    hear(JSON.parse(event.data));
  });
  source.addEventListener("error", () => {
    show("off", "Reconnecting");
    // A browser gives up where the answer was no stream.
    if (source?.readyState === EventSource.CLOSED) setTimeout(open, 2000);
  });
}

function close() {
  source?.close();
  source = null;
}

// Follow one group, or all: `onTick` has what changed.
export function follow(groupId, onTick) {
  hear = onTick;
  const path = groupId === null ? "/api/events" : `/api/events?${new URLSearchParams({ id: groupId })}`;
  if (path === wanted && source !== null) return;
  wanted = path;
  open();
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    close();
    show("off", "Paused");
  } else {
    open();
  }
});
window.addEventListener("pagehide", close);
