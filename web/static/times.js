// Shows times in the browser's zone; without this file they are in the server's. UTC stays
// in the tooltip. Fields for times get a picker, and say and send the zone that applies.
"use strict";

const localZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
// English, since the server reads the abbreviation of a zone that it prints here: CET, GMT+5:30.
const localFormat = new Intl.DateTimeFormat("en-GB", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short" });

function localParts(date) {
  const part = Object.fromEntries(localFormat.formatToParts(date).map((p) => [p.type, p.value]));
  return { day: `${part.year}-${part.month}-${part.day}`, minute: `${part.hour}:${part.minute}`, second: part.second, zone: part.timeZoneName };
}

// localTimes changes what is below an element. now.js calls it for each part before it
// compares it with the one on the page.
function localTimes(root) {
  const today = localParts(new Date()).day;
  for (const time of root.querySelectorAll("time[data-local]")) {
    const { day, minute, second, zone } = localParts(new Date(time.dateTime));
    const full = `${day} ${minute}:${second} ${zone}`;
    switch (time.dataset.local) {
      case "ago": time.title = `${full} (${time.title})`; break;
      case "moment": time.textContent = day === today ? minute : `${day} ${minute}`; break;
      default: time.textContent = full;
    }
    time.dataset.local += " done";
  }
  for (const label of root.querySelectorAll("[data-zone]")) label.textContent = localZone;
}
localTimes(document);

// A zone that the request names stays: what was typed was meant in it.
for (const zone of document.querySelectorAll("input[data-typed-zone]")) {
  if (zone.value === "Local") zone.value = localZone;
  document.getElementById(zone.dataset.typedZone).textContent = zone.value;
}
for (const link of document.querySelectorAll("a[data-zoned]")) {
  const url = new URL(link.href);
  if (url.searchParams.get("zone") === "Local") url.searchParams.set("zone", localZone);
  link.href = url;
}

for (const button of document.querySelectorAll("button[data-pick]")) {
  const field = document.getElementById(button.dataset.pick);
  const picker = document.createElement("input");
  picker.type = "datetime-local";
  picker.tabIndex = -1;
  picker.ariaHidden = "true";
  picker.addEventListener("change", () => { field.value = picker.value.replace("T", " "); });
  button.before(picker);
  button.hidden = !picker.showPicker;
  button.addEventListener("click", () => picker.showPicker());
}
