// Solves the work of a challenge: for each part it finds a number whose key,
// derived by PBKDF2, is small enough.
//
//   <div data-pow='{"algorithm":"PBKDF2-SHA-256","iterations":…,"parts":…,"below":…,"salt":…}'
//     [data-with-picture] [data-texts="…"] [data-meanwhile="…"]><p role="status"></p></div>
//   <div data-image-part>… <input name="captcha_answer"> …</div>
//
// Both in the login form. Without data-with-picture the work stands in for the
// picture, which is hidden; with it both are asked for. Without this script, or if
// it fails, the picture alone is there. The keys are derived by the browser's own
// native code (crypto.subtle), several at once where there are several cores, so
// an attacker's program gains little over it. Origins without TLS other than
// localhost have no crypto.subtle.
(() => {
  "use strict";

  const text = new TextEncoder();

  // derive is the number that a part's nth password leads to.
  async function derive(task, part, n) {
    const password = await crypto.subtle.importKey("raw", text.encode(`${task.salt}:${part}:${n}`), "PBKDF2", false, ["deriveBits"]);
    const bits = await crypto.subtle.deriveBits(
      { name: "PBKDF2", hash: "SHA-256", salt: text.encode(task.salt), iterations: task.iterations }, password, 32);
    return new DataView(bits).getUint32(0);
  }

  // solve returns a number for each part. As many parts are worked at as there
  // are cores, up to four, while the answer is wanted. measured gets the keys a millisecond of the first forty.
  async function solve(task, wanted, solved, measured) {
    if (task.algorithm !== "PBKDF2-SHA-256") throw new Error("unknown algorithm");
    const numbers = [];
    const began = performance.now();
    let next = 0, keys = 0;
    const worker = async () => {
      while (next < task.parts && wanted()) {
        const part = next++;
        let n = 0;
        while (await derive(task, part, n) >= task.below && wanted()) {
          n++;
          if (++keys === 40) measured(keys / (performance.now() - began));
        }
        numbers[part] = n;
        solved();
      }
    };
    await Promise.all(Array.from({ length: Math.min(4, navigator.hardwareConcurrency || 2) }, worker));
    return numbers.join(".");
  }

  // run solves the task of one form. Whoever sends the form meanwhile has it
  // sent when the task is done: a button that does nothing explains nothing. A form with
  // a one-time code is sent at once: the code stands in for the work.
  async function run(part) {
    const form = part.closest("form");
    const picture = form.querySelector("[data-image-part]");
    const withPicture = "withPicture" in part.dataset;
    const status = part.querySelector("[role=status]");
    const texts = { doing: "", part: "", long: "", held: "", done: "", digits: "", failed: "", ...JSON.parse(part.dataset.texts ?? "{}") };
    const meanwhile = part.dataset.meanwhile ?? "";
    // A shorter text leaves the height: the form below must not move under a finger.
    const say = (words) => {
      if (!status || status.textContent === words) return;
      status.textContent = words;
      status.style.minHeight = `${status.offsetHeight}px`;
    };
    const showPicture = (shown) => {
      if (!picture || withPicture) return;
      picture.hidden = !shown;
      for (const input of picture.querySelectorAll("input, button")) input.disabled = !shown;
    };

    let working = true, held = null, long = "";
    const hold = (event) => {
      if (!working || !part.isConnected || form.elements.code?.value.trim()) return;
      event.preventDefault();
      held = { by: event.submitter };
      say(`${texts.held} ${long}`.trim());
    };

    try {
      const task = JSON.parse(part.dataset.pow);
      if (!crypto.subtle) throw new Error("no WebCrypto");
      form.addEventListener("submit", hold);
      showPicture(false);
      say(`${texts.doing} ${meanwhile}`);
      let done = 0;
      const answer = document.createElement("input");
      answer.type = "hidden";
      answer.name = "captcha_work";
      answer.value = await solve(task, () => part.isConnected, () => {
        // A quarter at a time: a screen reader says each of them.
        if (++done * 4 % task.parts === 0 && done < task.parts && !held) say(`${texts.part.replace("{n}", done * 100 / task.parts)} ${long} ${meanwhile}`.replace("  ", " "));
      }, (speed) => {
        const minutes = Math.ceil(task.parts * 2 ** 32 / task.below / speed / 60000);
        if (minutes < 2) return;
        long = texts.long.replace("{n}", minutes);
        say(held ? `${texts.held} ${long}` : `${texts.doing} ${long} ${meanwhile}`);
      });
      part.append(answer);
      say(withPicture ? texts.digits : texts.done);
    } catch {
      held = null;
      showPicture(true);
      say(texts.failed);
    }
    working = false;
    form.removeEventListener("submit", hold);
    if (held && part.isConnected) form.requestSubmit(held.by);
  }

  for (const part of document.querySelectorAll("[data-pow]")) run(part);
  // login.js or client.js has put another challenge into the page.
  document.addEventListener("challenge", (event) => { for (const part of event.composedPath()[0].querySelectorAll("[data-pow]")) run(part); });
})();
