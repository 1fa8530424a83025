// Shows the widget of a challenge provider in place of the picture.
//
//   <div data-remote="https://…/api.js" data-kind="turnstile" data-not-loaded="…"> the widget's element,
//   <p role="status">, <button data-instead> </div>
//   <div data-image-part> the picture and its field </div>
//
// Without this file, or if the provider's script cannot be loaded, there is the
// picture. Nobody has to use the widget: the button brings the picture back.
"use strict";

for (const part of document.querySelectorAll("[data-remote]")) {
  const picture = part.closest("fieldset").querySelector("[data-image-part]");
  const field = picture.querySelector("input");
  const instead = part.querySelector("[data-instead]");
  const usePicture = (yes) => {
    picture.hidden = !yes;
    field.disabled = !yes; // a field that is not sent need not be filled in
    instead.hidden = yes;
  };
  usePicture(false);
  instead.addEventListener("click", () => { usePicture(true); field.focus(); });

  const script = document.createElement("script");
  script.src = part.dataset.remote;
  script.async = true;
  if (part.dataset.kind === "friendly") script.type = "module";
  script.addEventListener("error", () => {
    usePicture(true);
    part.querySelector("[role=status]").textContent = part.dataset.notLoaded;
  });
  document.head.append(script);
}
