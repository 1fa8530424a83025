// Updates the overview by Server-Sent Events. Without this file the page does not update
// itself and has a link to refresh it.
"use strict";

const live = document.getElementById("live");
const freshness = document.querySelector("[data-freshness]");
const said = document.querySelector("[data-said]");
const pause = document.querySelector("[data-pause]");
const refreshLink = document.querySelector("[data-refresh]");
const againMs = 30000;

let paused = false;
let stream = null;
let timer = 0;
let lastGood = clock(); // the server's, in the zone of all times of the page
const waiting = new Map(); // parts that came while theirs was held

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) {
    disconnect();
    freshness.textContent = "Paused, as of";
  } else connect();
});
// A browser has six connections to a host: a hidden tab closes its own.
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
connect();

function connect() {
  if (paused || document.hidden || stream) return;
  clearTimeout(timer);
  stream = new EventSource(live.dataset.live);
  stream.addEventListener("parts", (event) => show(JSON.parse(event.data)));
  stream.addEventListener("ended", signedOut);
  stream.addEventListener("error", () => {
    freshness.textContent = `No response from the server since ${lastGood}. Trying again. As of`;
    refreshLink.hidden = false;
    // The browser tries again by itself after a lost connection, but not after a refusal.
    if (stream && stream.readyState === EventSource.CLOSED) {
      disconnect();
      timer = setTimeout(connect, againMs);
    }
  });
}

function disconnect() {
  clearTimeout(timer);
  if (stream) stream.close();
  stream = null;
}

function show(parts) {
  for (const text of parts) {
    const part = new DOMParser().parseFromString(text, "text/html").querySelector("[data-part]");
    if (!part) continue;
    localTimes(part);
    waiting.set(part.id, part);
  }
  for (const [id, part] of waiting) if (replace(part)) waiting.delete(id);
  lastGood = clock();
  refreshLink.hidden = true;
  freshness.textContent = "Live, as of";
}

// A part stays while text in it is selected, and while the pointer is over a table with
// links: a row that moved under the pointer would block the wrong IP address.
function replace(part) {
  const old = document.getElementById(part.id);
  if (!old || old.outerHTML === part.outerHTML) return true;
  if ("hold" in old.dataset && old.matches(":hover")) return false;
  if (selectedIn(old)) return false;
  const keep = remember(old);
  const fresh = document.importNode(part, true);
  announce(old, fresh);
  old.replaceWith(fresh);
  restore(fresh, keep);
  return true;
}

function selectedIn(element) {
  const selection = document.getSelection();
  return selection && !selection.isCollapsed && selection.containsNode(element, true);
}

function remember(old) {
  const focus = old.contains(document.activeElement) ? document.activeElement : null;
  const scroll = old.querySelector(".scroll");
  return {
    focus: focus && keyOf(focus),
    open: [...old.querySelectorAll("details[open]")].map((d) => d.id),
    scroll: scroll ? scroll.scrollTop : 0,
  };
}

// The focused element is found again by its link or class: its position may have changed.
function keyOf(element) {
  return element.getAttribute("href") || element.className || element.localName;
}

function restore(fresh, keep) {
  for (const id of keep.open) {
    const details = document.getElementById(id);
    if (details) details.open = true;
  }
  const scroll = fresh.querySelector(".scroll");
  if (scroll) scroll.scrollTop = keep.scroll;
  if (!keep.focus) return;
  const focusable = fresh.querySelectorAll("a, button, summary, [tabindex]");
  const again = [...focusable].find((element) => keyOf(element) === keep.focus);
  // Without its row, the heading of the table gets the focus, not the top of the page.
  const target = again || fresh.querySelector("h2");
  if (!target) return;
  if (!again) target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

function announce(old, fresh) {
  const headline = fresh.dataset.headline;
  if (!headline || headline === old.dataset.headline) return;
  said.textContent = headline;
  document.title = document.title.replace(old.dataset.headline, () => headline);
}

function signedOut() {
  disconnect();
  freshness.textContent = "You are signed out, so updates have stopped. ";
  const link = document.createElement("a");
  link.href = "/login";
  link.textContent = "Sign in again";
  freshness.append(link);
  pause.hidden = true;
}

function clock() {
  return document.getElementById("live-clock").textContent;
}
