// Solves the proof-of-work challenge on a page, in place of the picture.
//
//   <div data-pow='{"algorithm":"SHA-256","challenge":…,"maxnumber":…,"salt":…,"signature":…}'>
//     <p role="status"></p>
//   </div>
//   <div data-image-part>… <input name="captcha_answer"> …</div>
//
// Both in the login form; the words can be changed with data-pow-working,
// -held, -done and -failed. Without this script, or if it fails, the picture is
// there to be solved. It hashes by itself and does not ask crypto.subtle: that
// is missing on http:// origins other than localhost, and measured several
// times slower, because every one of its hashes is a promise.
(() => {
  "use strict";

  const K = new Uint32Array(64), H = new Uint32Array(8);

  // SHA-256's constants: the fractions of the cube and square roots of the
  // first primes. A double has 32 bits of them exactly.
  for (let n = 2, found = 0; found < 64; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
    if (!prime) continue;
    if (found < 8) H[found] = (Math.sqrt(n) % 1) * 0x100000000;
    K[found++] = (Math.cbrt(n) % 1) * 0x100000000;
  }

  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  const w = new Uint32Array(64);

  // mix works one block of 16 words, from position at, into the state.
  function mix(state, words, at) {
    for (let i = 0; i < 16; i++) w[i] = words[at + i];
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15], y = w[i - 2];
      w[i] = w[i - 16] + w[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) +
        (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i++) {
      const p = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + K[i] + w[i]) | 0;
      const q = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g; g = f; f = e; e = (d + p) | 0; d = c; c = b; b = a; a = (p + q) | 0;
    }
    state[0] += a; state[1] += b; state[2] += c; state[3] += d;
    state[4] += e; state[5] += f; state[6] += g; state[7] += h;
  }

  // sha256 of a string of ASCII, as eight words.
  function sha256(text) {
    const words = new Uint32Array(((text.length + 8) >> 6) * 16 + 16);
    for (let i = 0; i < text.length; i++) words[i >> 2] |= text.charCodeAt(i) << (24 - (i & 3) * 8);
    words[text.length >> 2] |= 0x80 << (24 - (text.length & 3) * 8);
    words[words.length - 1] = text.length * 8;
    const state = H.slice();
    for (let at = 0; at < words.length; at += 16) mix(state, words, at);
    return state;
  }

  const hex = (words) => Array.from(words, (x) => x.toString(16).padStart(8, "0")).join("");

  // search looks for the number in slices short enough to keep the page alive.
  async function search(task) {
    const first = parseInt(task.challenge.slice(0, 8), 16);
    for (let n = 0; n <= task.maxnumber;) {
      const until = performance.now() + 25;
      for (; n <= task.maxnumber && performance.now() < until;) {
        for (const end = Math.min(n + 100, task.maxnumber + 1); n < end; n++) {
          const hash = sha256(task.salt + n);
          if (hash[0] === first && hex(hash) === task.challenge) return n;
        }
      }
      await new Promise((resume) => setTimeout(resume));
    }
    throw new Error("no number solves the challenge");
  }

  // run solves the task of one form. Whoever sends the form meanwhile has it
  // sent when the task is done: a button that does nothing explains nothing.
  async function run(part) {
    const form = part.closest("form");
    const picture = form.querySelector("[data-image-part]");
    const status = part.querySelector("[role=status]");
    const say = (name, otherwise) => { if (status) status.textContent = part.dataset[name] || otherwise; };
    const showPicture = (shown) => {
      if (!picture) return;
      picture.hidden = !shown;
      for (const input of picture.querySelectorAll("input, button")) input.disabled = !shown;
    };

    let working = true, held = null;
    const hold = (event) => {
      if (!working) return;
      event.preventDefault();
      held = { by: event.submitter };
      say("powHeld", "Your browser is still solving a small task. The form is sent as soon as it is done.");
    };

    try {
      const began = performance.now();
      const { algorithm, challenge, maxnumber, salt, signature } = JSON.parse(part.dataset.pow);
      if (algorithm !== "SHA-256") throw new Error("unknown algorithm");
      form.addEventListener("submit", hold);
      showPicture(false);
      say("powWorking", "Your browser is solving a small task. You can type meanwhile.");
      const number = await search({ challenge, maxnumber, salt });
      const took = Math.round(performance.now() - began);
      answerOf(part).value = btoa(JSON.stringify({ algorithm, challenge, number, salt, signature, took }));
      say("powDone", "The task is solved. You need not type any digits.");
    } catch {
      held = null;
      showPicture(true);
      say("powFailed", "Your browser could not solve the task. Please type the digits in the picture.");
    }
    working = false;
    if (held) form.requestSubmit(held.by);
  }

  // answerOf finds or makes the hidden field. Made here, it is there only when
  // the picture's field of the same name is disabled: one answer is sent.
  function answerOf(part) {
    let answer = part.querySelector("[name=captcha_answer]");
    if (!answer) {
      answer = document.createElement("input");
      answer.type = "hidden";
      answer.name = "captcha_answer";
      part.append(answer);
    }
    return answer;
  }

  for (const part of document.querySelectorAll("[data-pow]")) run(part);
})();
