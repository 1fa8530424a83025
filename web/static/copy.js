// Copies and prints secrets that a page shows only once, and warns before recovery codes
// are lost. Without this file there are no such buttons; the download remains.
"use strict";

for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard; // only over https or at localhost
  button.addEventListener("click", async () => {
    const secrets = [...document.querySelectorAll(button.dataset.copy)].map((code) => code.textContent);
    await navigator.clipboard.writeText(secrets.join("\n"));
    button.textContent = button.nextElementSibling.textContent = "Copied";
  });
}
for (const button of document.querySelectorAll("[data-print]")) {
  button.hidden = false;
  button.addEventListener("click", () => window.print());
}
for (const form of document.querySelectorAll("[data-saved]")) {
  window.addEventListener("beforeunload", (event) => {
    if (!form.querySelector("input").checked) event.preventDefault();
  });
}
