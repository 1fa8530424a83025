// Recovery codes: copies and prints them, and warns before they are lost. Without this
// file the download remains.
"use strict";

const saved = document.querySelector("[data-saved]");
if (saved) {
  const copy = document.querySelector("[data-copy-codes]");
  const print = document.querySelector("[data-print]");
  const codes = [...document.querySelectorAll(".codes code")].map((code) => code.textContent).join("\n");
  copy.hidden = !navigator.clipboard; // only over https or at localhost
  copy.addEventListener("click", async () => {
    await navigator.clipboard.writeText(codes);
    copy.textContent = document.querySelector("[data-said]").textContent = copy.dataset.done;
  });
  print.hidden = false;
  print.addEventListener("click", () => window.print());
  window.addEventListener("beforeunload", (event) => {
    if (!saved.querySelector("input").checked) event.preventDefault();
  });
}
