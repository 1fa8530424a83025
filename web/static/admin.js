// Keeps the overview fresh. Without this file the page stands still and has a
// link to refresh it.
"use strict";

const live = document.getElementById("live");
const freshness = document.querySelector("[data-freshness]");
const said = document.querySelector("[data-said]");
const pause = document.querySelector("[data-pause]");
const everyMs = 2000;
const slowestMs = 30000;

let paused = false;
let delay = everyMs;
let timer = 0;
let fetching = false;

document.querySelector("[data-refresh]").hidden = true;
pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.textContent = paused ? "Resume" : "Pause";
  pause.setAttribute("aria-pressed", String(paused));
  if (paused) freshness.textContent = `Paused at ${clock()}.`;
  else refresh();
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
freshness.textContent = "Live.";
schedule();

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(refresh, delay);
}

async function refresh() {
  clearTimeout(timer);
  if (paused || document.hidden || fetching) return;
  fetching = true;
  try {
    const answer = await fetch(live.dataset.fragment, {
      headers: { Accept: "text/html" },
      redirect: "manual",
      signal: AbortSignal.timeout(10000),
    });
    if (answer.type === "opaqueredirect" || answer.status === 401) return signedOut();
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    const text = await answer.text();
    if (!paused) show(text);
    delay = everyMs;
  } catch {
    delay = Math.min(delay * 2, slowestMs);
    freshness.textContent = `No answer from the server since ${lastGood}. Trying again.`;
  } finally {
    fetching = false;
  }
  schedule();
}

let lastGood = clock();

function show(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  for (const part of fresh.querySelectorAll("[data-part]")) replace(part);
  lastGood = clock();
  freshness.textContent = `Live, as of ${lastGood}.`;
}

// A part is left alone while it is the same, while text in it is selected, and
// while the pointer is over a table with buttons: a row that moves under the
// pointer would have the wrong account unlocked.
function replace(part) {
  const old = document.getElementById(part.id);
  if (!old || old.outerHTML === part.outerHTML) return;
  if ("hold" in old.dataset && old.matches(":hover")) return;
  if (selectedIn(old)) return;
  const keep = remember(old);
  const fresh = document.importNode(part, true);
  announce(old, fresh);
  old.replaceWith(fresh);
  restore(fresh, keep);
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

// What has the focus is found again by what it is, not where it was.
function keyOf(element) {
  return element.dataset.key || element.getAttribute("href") || element.className || element.localName;
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
  // Its row is gone: stay in the table rather than fall back to the page's top.
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
  freshness.textContent = "You are signed out, so this page stands still. ";
  const link = document.createElement("a");
  link.href = "/login";
  link.textContent = "Sign in again";
  freshness.append(link);
  pause.hidden = true;
}

function clock() {
  return new Date().toLocaleTimeString();
}
