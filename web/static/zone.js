// Fields for times get a picker, and say and send the browser's zone. Without this file
// the server's zone applies.
"use strict";

const localZone = localFormat.resolvedOptions().timeZone;
for (const label of document.querySelectorAll("[data-zone]")) label.textContent = localZone;

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
