// Shows times in the browser's zone, with UTC in the tooltip. Without this file they are in
// the server's. now.js calls localTimes for each part before it compares it with the page.
"use strict";

// Swedish dates are those of the server; their zones are CET or GMT+5:30.
const localFormat = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "long" });
const localText = (date) => localFormat.format(date).replace("\u2212", "-");

function localTimes(root) {
  const today = localText(new Date()).slice(0, 10);
  for (const time of root.querySelectorAll("time:not([title])")) {
    const full = localText(new Date(time.dateTime));
    const text = time.textContent;
    time.title = `${time.dateTime.slice(0, 19).replace("T", " ")} UTC`;
    if (/:\d\d:\d\d /.test(text)) time.textContent = full;
    else if (/^[\d -]+:\d\d$/.test(text)) time.textContent = full.slice(full.startsWith(today) ? 11 : 0, 16);
    else time.title = `${full} (${time.title})`; // 3 minutes ago
  }
}
localTimes(document);
