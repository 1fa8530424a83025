// The sign-in and password pages work without this file. It shows and hides
// passwords, says that a slow sign-in is on its way, counts a wait down, and asks for
// the digits of a picture before the form is sent.
"use strict";

function setUp(root) {
  for (const button of root.querySelectorAll("[data-reveal]")) {
    const show = button.textContent;
    const input = document.getElementById(button.dataset.reveal);
    button.hidden = false;
    button.addEventListener("click", () => {
      const shown = input.type === "password";
      input.type = shown ? "text" : "password";
      button.textContent = shown ? button.dataset.hide : show;
      button.setAttribute("aria-pressed", String(shown));
      input.focus();
    });
    // A browser saves what is in a text field for its suggestions.
    input.form.addEventListener("submit", () => { input.type = "password"; });
  }

  for (const button of root.querySelectorAll("[data-busy]")) {
    const label = button.textContent;
    const say = (busy) => {
      button.textContent = busy ? button.dataset.busy : label;
      button.disabled = busy;
    };
    // Later than every other listener: another script may still stop the form.
    button.form.addEventListener("submit", (event) => {
      setTimeout(() => { if (!event.defaultPrevented) say(true); }, 0);
    });
    // Coming back with the back button finds the page as it was left.
    window.addEventListener("pageshow", (event) => { if (event.persisted) say(false); });
  }

  // A verification code replaces the challenge. HTML cannot say so: without this file
  // nothing is required, and the server asks again.
  for (const note of root.querySelectorAll("[data-with-code]")) {
    const code = note.closest("form").elements.code;
    const ask = () => {
      const challenge = note.nextElementSibling;
      const coded = code.value.trim() !== "";
      challenge.hidden = coded;
      note.textContent = coded ? note.dataset.withCode : "";
      for (const digits of challenge.querySelectorAll("[data-unless-code]")) digits.required = !coded;
    };
    code.addEventListener("input", ask);
    window.addEventListener("pageshow", ask); // the back button brings what was typed
    document.addEventListener("challenge", ask);
    ask();
  }

  const waiting = root.querySelector("form[data-retry-after]");
  if (waiting) countDown(waiting, Number(waiting.dataset.retryAfter));
}

setUp(document);

// Another image replaces the challenge and keeps what was typed. pow.js starts anew.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("[data-another]");
  if (!link) return;
  event.preventDefault();
  const old = link.closest("fieldset");
  try {
    const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), "text/html");
    const next = page.querySelector("fieldset.challenge");
    if (!next || next.querySelector("[data-remote]")) throw new Error("no image");
    old.replaceWith(next);
    next.dispatchEvent(new Event("challenge", { bubbles: true }));
    next.querySelector("[name=captcha_answer]").focus();
  } catch {
    location.assign(link.href);
  }
});

// With an image, the form is sent from here, and the page takes over what the answer's page says: a wrong image costs
// the image, but not the typed password, which no page of the server contains. Another host's page cannot be fetched.
document.addEventListener("submit", async (event) => {
  const form = event.target, { captcha_answer: digits, password, next } = form.elements;
  if (event.defaultPrevented || !form.matches("[data-sign-in]") || !password || !digits || digits.disabled ||
    digits.closest("[hidden]") || new URL(next?.value ?? "/", location.href).origin !== location.origin) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form)), button = form.querySelector("[data-busy]");
  button.textContent = button.dataset.busy;
  button.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body, headers: { Accept: "text/html" } });
    if (answer.redirected) return location.assign(answer.url);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html"), main = page.querySelector("main");
    const again = main.querySelector("#password");
    if (main.querySelector("[data-remote]")) throw new Error("another policy");
    const passkey = main.querySelector("[data-passkey]"), old = document.querySelector("[data-passkey]");
    if (passkey && old) passkey.replaceWith(old); // passkey.js listens to it
    const kept = answer.status !== 401; // the password was not checked
    if (kept && again) again.value = password.value;
    document.querySelector("main").replaceWith(main);
    document.title = page.title;
    setUp(main);
    main.querySelector("fieldset.challenge")?.dispatchEvent(new Event("challenge", { bubbles: true }));
    (kept && main.querySelector("[name=captcha_answer]:enabled") || main.querySelector("[autofocus]"))?.focus();
  } catch {
    location.assign(form.action + (next ? `?next=${encodeURIComponent(next.value)}` : "")); // says who is signed in
  }
});

function countDown(form, seconds) {
  const submit = form.querySelector("button[data-busy]");
  const line = document.querySelector("[data-wait]");
  const shown = line.querySelector("[data-wait-for]");
  const said = document.querySelector("[data-wait-said]");
  const label = submit.textContent;
  const texts = JSON.parse(line.dataset.texts);
  const words = speller(JSON.parse(line.dataset.units));
  // By the clock, since timers stand still while a laptop sleeps.
  const end = Date.now() + seconds * 1000;
  const until = line.querySelector("[data-wait-until]");
  if (until) until.remove();

  const free = () => {
    clearInterval(timer);
    submit.disabled = false;
    submit.textContent = label;
  };
  const tick = () => {
    const left = Math.ceil((end - Date.now()) / 1000);
    if (left <= 0) {
      free();
      line.textContent = said.textContent = texts.now;
      return;
    }
    shown.textContent = words(left);
    if (submit.disabled) submit.textContent = left < 100 ? texts.button.replace("{n}", left) : label;
    // Every second would drown out everything else in a screen reader.
    if (left % 60 === 0 || left === 30 || left === 10) said.textContent = texts.left.replace("{wait}", words(left));
  };
  const timer = setInterval(tick, 1000);
  submit.disabled = true;
  tick();
  // Another name may be free at once, and a code opens the door; the server decides.
  for (const field of [form.elements.username, form.elements.code]) {
    if (field) field.addEventListener("input", () => {
      submit.disabled = false;
      submit.textContent = label;
    });
  }
}

// speller is how the server writes lengths of time, in the page's language.
function speller(units) {
  const rules = new Intl.PluralRules(document.documentElement.lang);
  const count = (unit, n) => (units[unit][rules.select(n)] ?? units[unit].other).replace("{n}", n);
  const both = (n, per, large, small) => count(large, Math.floor(n / per)) + (n % per ? ` ${count(small, n % per)}` : "");
  return (seconds) => {
    if (seconds <= 90 && seconds !== 60) return count("second", seconds);
    const minutes = Math.ceil(seconds / 60);
    if (minutes < 60) return count("minute", minutes);
    return minutes < 48 * 60 ? both(minutes, 60, "hour", "minute") : both(Math.ceil(minutes / 60), 24, "day", "hour");
  };
}
