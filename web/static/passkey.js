// Passkeys: asks the server what to ask, the browser for the answer, and sends that as a
// form, so that what comes back is a page. Without this file the forms stay hidden.
"use strict";

const texts = JSON.parse(document.currentScript.dataset.texts);
const available = window.PublicKeyCredential && PublicKeyCredential.parseRequestOptionsFromJSON;
let suggesting = new AbortController();

for (const form of document.querySelectorAll("form[data-passkey]")) {
  const said = form.querySelector("[data-said]");
  form.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "";
    suggesting.abort(); // a browser asks its passkeys one thing at a time
    try {
      if (!available) throw new Error(texts.unavailable);
      send(form, await answer(form));
    } catch (problem) {
      said.textContent = { NotAllowedError: texts.none, InvalidStateError: texts.exists, Error: problem.message }[problem.name] ?? texts.unavailable;
      suggest(form);
    }
  });
  suggest(form);
}

async function answer(form, how) {
  const sent = { csrf: form.elements.csrf?.value ?? "", current_password: form.elements.current_password?.value ?? "" };
  const response = await fetch(form.dataset.passkey, { method: "POST", headers: { Accept: "application/json", "Content-Type": "application/json" }, body: JSON.stringify(sent) });
  const asked = await response.json();
  if (!response.ok) throw new Error(asked.detail || asked.title);
  form.elements.state.value = asked.state;
  return form.hasAttribute("data-new")
    ? navigator.credentials.create({ publicKey: PublicKeyCredential.parseCreationOptionsFromJSON(asked.options) })
    : navigator.credentials.get({ ...how, publicKey: PublicKeyCredential.parseRequestOptionsFromJSON(asked.options) });
}

// suggest has the browser offer passkeys where the user name is typed. What the server
// asks expires after five minutes, so it is asked anew before.
async function suggest(form) {
  if (!form.hasAttribute("data-suggest") || !available || !await PublicKeyCredential.isConditionalMediationAvailable?.()) return;
  const mine = suggesting = new AbortController();
  const renewal = setTimeout(() => { mine.abort(); suggest(form); }, 4 * 60 * 1000);
  mine.signal.addEventListener("abort", () => clearTimeout(renewal));
  try {
    send(form, await answer(form, { mediation: "conditional", signal: mine.signal }));
  } catch {} // the form and its button work all the same
}

function send(form, credential) {
  form.elements.assertion.value = JSON.stringify(credential.toJSON());
  if (form.elements.current_password) form.elements.current_password.value = "";
  copyChallenge(form);
  form.submit();
}

// A challenge that was solved beside the code counts for the passkey as well.
function copyChallenge(form) {
  const other = document.querySelector("form[data-sign-in]");
  if (!other) return;
  for (const name of ["captcha_id", "captcha_answer", "captcha_work"]) {
    if (other.elements[name] && form.elements[name]) form.elements[name].value = other.elements[name].value;
  }
}
