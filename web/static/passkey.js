// Passkeys: asks the server what to ask, the browser for the answer, and sends that as a
// form, so that what comes back is a page. Without this file the forms stay hidden.
"use strict";

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const said = form.querySelector("[data-said]");
  const adds = form.hasAttribute("data-new");
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "";
    try {
      form.elements.assertion.value = await answer(form, adds);
    } catch (problem) {
      said.textContent = problem.name === "NotAllowedError" ? "No passkey was selected, or it took too long. Try again." : problem.message;
      return;
    }
    copyChallenge(form);
    form.submit();
  });
}

async function answer(form, adds) {
  if (!window.PublicKeyCredential || !PublicKeyCredential.parseRequestOptionsFromJSON) {
    throw new Error("Passkeys are not available here. Open the page over https or as localhost, in an up-to-date browser.");
  }
  const response = await fetch(form.dataset.passkey, { method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, body: JSON.stringify({ csrf: form.elements.csrf ? form.elements.csrf.value : "" }) });
  const asked = await response.json();
  if (!response.ok) throw new Error(asked.detail || asked.title);
  form.elements.state.value = asked.state;
  const credential = adds
    ? await navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(asked.options) })
    : await navigator.credentials.get({ publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked.options) });
  return JSON.stringify(credential.toJSON());
}

// A challenge that was solved beside the password counts for the passkey as well.
function copyChallenge(form) {
  const other = document.querySelector("form[data-sign-in]");
  if (!other) return;
  for (const name of ["captcha_id", "captcha_answer", "captcha_work"]) {
    if (other.elements[name] && form.elements[name]) form.elements[name].value = other.elements[name].value;
  }
}
