// Shows the challenges of a protected login in the app's own page. It comes after pow.js, before the app's scripts:
//
//   <script src="/.authguard/client.js"></script>
//
// It wraps fetch and XMLHttpRequest. A response 403 challenge-required or code-required, or 429 slow-down
// (problem+json), of the same origin opens a dialog. Then the request is repeated with the solution or the verification
// code, and the app gets that response, or the first one if the user cancels. All other requests and responses stay
// untouched, and so do bodies that can be sent only once. No inline style or script: it works under a strict
// Content-Security-Policy.
(() => {
  "use strict";
  if (window.authguardClient) return;
  window.authguardClient = true;

  const texts = {}; // by language; the server fills it in
  const tongue = () => {
    const wanted = [document.documentElement.lang, ...navigator.languages ?? []];
    for (const tag of wanted) {
      for (const one of [tag, tag.split("-")[0]]) if (texts[one]) return texts[one];
    }
    return texts.en;
  };

  const style = `
    :host { all: initial; font: 16px/1.5 system-ui, sans-serif; color-scheme: light dark;
      --sheet: #fff; --ink: #16211e; --soft: #54635e; --edge: #788882; --rule: #dde3de; --accent: #0f665e; --on: #fff; }
    @media (prefers-color-scheme: dark) { :host { --sheet: #18211f; --ink: #e7eeeb; --soft: #a3b2ad; --edge: #74857f;
      --rule: #2b3835; --accent: #74d3c5; --on: #06231f; } }
    *, ::before, ::after { box-sizing: border-box; }
    dialog { width: 24rem; max-width: calc(100vw - 1rem); max-height: calc(100dvh - 1rem); overflow: auto; margin: auto;
      padding: 1.5rem; border: 1px solid var(--rule); border-radius: 14px; background: var(--sheet); color: var(--ink);
      overflow-wrap: anywhere; }
    dialog::backdrop { background: #000a; }
    h2 { margin: 0 0 .5rem; font-size: 1.25rem; line-height: 1.25; }
    p { margin: 0 0 .75rem; color: var(--soft); }
    fieldset { margin: 0 0 1rem; padding: 1rem; border: 1px solid var(--rule); border-radius: 10px; min-width: 0; }
    legend, label, summary { font-weight: 600; }
    label { display: block; margin: .5rem 0 .25rem; }
    details { margin: 0 0 1rem; }
    summary, a { color: var(--accent); cursor: pointer; }
    summary { padding: .25rem 0; }
    img { display: block; width: 240px; max-width: 100%; height: auto; margin: 0 auto .5rem; background: #fff;
      border-radius: 6px; }
    audio { width: 100%; }
    input, button { font: inherit; color: inherit; min-height: 2.75rem; padding: .5rem .75rem; border-radius: 8px;
      border: 1px solid var(--edge); background: transparent; }
    input { width: 100%; }
    input + p { margin-top: .5rem; }
    .row { display: flex; flex-wrap: wrap; gap: .5rem; }
    .row button { flex: 1; font-weight: 600; }
    button { cursor: pointer; }
    button.main { background: var(--accent); color: var(--on); border-color: var(--accent); }
    :focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
    [hidden] { display: none; }`;

  // make returns an element. Properties that begin with on are listeners; the rest are attributes.
  function make(name, with_ = {}, ...inside) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(with_)) {
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else if (value !== false) made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...inside.filter(Boolean));
    return made;
  }

  // show asks the user. It returns what to send, or null to give up.
  function show(problem, again) {
    return new Promise((resolve) => {
      const t = tongue(), challenge = problem.challenge, wait = problem.retry_after;
      const owed = problem.type === "code-required";
      const alone = challenge?.pow && challenge.kind === "pow";
      const another = make("button", { type: "button", onclick: () => end({}) }, t["challenge.another"]);
      const answer = make("input", { id: "answer", name: "captcha_answer", dir: "ltr", inputmode: "numeric",
        autocomplete: "off", maxlength: 16, required: !alone });
      const image = challenge?.image && make("div", { "data-image-part": true },
        make("img", { src: challenge.image, width: 240, height: 80, alt: t["challenge.picture"] }),
        challenge.audio && make("details", {}, make("summary", {}, t["challenge.listen"]),
          make("audio", { controls: true, preload: "none", src: challenge.audio, "aria-label": t["challenge.sound"] })),
        make("label", { for: "answer" }, t["challenge.digits"]), answer,
        make("p", {}, t["challenge.hard"]), make("div", { class: "row" }, another));
      const work = challenge?.pow && make("div", { "data-pow": JSON.stringify(challenge.pow),
        "data-with-picture": challenge.kind === "both", "data-texts": JSON.stringify(t.work) },
      make("p", { role: "status", "aria-live": "polite" }));
      const code = make("input", { id: "code", name: "code", dir: "ltr", autocomplete: "one-time-code",
        autocapitalize: "characters", spellcheck: "false", maxlength: 40, "aria-describedby": "hint", required: owed,
        oninput: () => { answer.required = !alone && code.value.trim() === ""; } });
      const base = problem.solve?.replace(/\/solve(\?.*)?$/, "");
      const status = wait && make("p", { role: "status" }, t["wait.at"].replace("{time}",
        new Date(Date.now() + wait * 1000).toLocaleString(t.lang, { timeStyle: "short", dateStyle: wait > 43200 ? "medium" : undefined })));
      const said = challenge ? again ? "failed" : "required" : owed ? "code" : "slow";
      const form = make("form", {},
        make("h2", { id: "title" }, t[`message.${said}.title`]), make("p", { id: "text" }, t[`gate.${said}`]), status,
        challenge && make("fieldset", {}, make("legend", {}, t["challenge.legend"]), work, image,
          !work && !image && problem.solve && make("a", { href: problem.solve, target: "_blank" }, t["solve.title"])),
        make("details", { open: !challenge }, make("summary", {}, t["code.summary"]),
          make("label", { for: "code" }, t["code.label"]), code,
          make("p", { id: "hint" }, t["code.hint"], " ",
            base && make("a", { href: `${base}/login/code`, target: "_blank" }, t["code.how"]))),
        make("div", { class: "row" },
          make("button", { type: "submit", class: "main" }, t[challenge || owed ? "gate.continue" : "gate.again"]),
          make("button", { type: "button", onclick: () => end(null) }, t["script.cancel"])));
      const dialog = make("dialog", { "aria-labelledby": "title", "aria-describedby": "text",
        oncancel: (event) => { event.preventDefault(); end(null); }, onclose: () => end(null) }, form);
      const host = make("authguard-challenge", { lang: t.lang, dir: t.dir });
      const root = host.attachShadow({ mode: "open" });
      try {
        const sheet = new CSSStyleSheet();
        sheet.replaceSync(style);
        root.adoptedStyleSheets = [sheet];
      } catch { /* an old browser shows the dialog in its own style */ }
      root.append(dialog);
      const before = document.activeElement;
      document.documentElement.append(host);
      const timer = wait < 86400 && setTimeout(() => { status.textContent = t["wait.now"]; }, wait * 1000);

      function end(send) {
        clearTimeout(timer);
        host.remove();
        before?.focus?.();
        resolve(send);
      }

      dialog.showModal();
      form.dispatchEvent(new Event("challenge", { bubbles: true, composed: true })); // pow.js begins
      form.addEventListener("submit", (event) => {
        if (event.defaultPrevented) return; // pow.js submits again when it is done
        event.preventDefault();
        if (!event.submitter && code.value.trim()) return; // the user is still typing
        const plain = (text) => text.replace(/[^\x20-\x7e]/g, "").trim();
        end(Object.fromEntries(Object.entries({
          "Authguard-Code": plain(code.value),
          "Authguard-Captcha-Id": challenge?.id, "Authguard-Captcha-Answer": plain(answer.value),
          "Authguard-Captcha-Work": form.elements.captcha_work?.value,
        }).filter(([, value]) => value)));
      });
      if (alone) form.requestSubmit(); // nothing to read: sent as soon as it is solved
      else if (image) answer.focus();
      else if (owed) code.focus();
    });
  }

  let last = Promise.resolve(); // one dialog at a time
  const ask = (problem, again) => last = last.then(() => show(problem, again));

  const stops = (status, type, url) => (status === 403 || status === 429) &&
    /^application\/problem\+json/i.test(type ?? "") && new URL(url || location.href, location.href).origin === location.origin;
  // A document of the app must not put a script into a link.
  const link = (url) => !url || URL.canParse(url, location.href) && /^https?:$/.test(new URL(url, location.href).protocol);
  const ours = (problem) => (problem?.type === "challenge-required" && problem.challenge ||
      problem?.type === "slow-down" || problem?.type === "code-required") &&
    [problem.solve, problem.challenge?.image, problem.challenge?.audio].every(link);

  // fetch

  const send = window.fetch;
  window.fetch = async function (input, init) {
    const request = input instanceof Request;
    const form = request && /json|x-www-form-urlencoded/i.test(input.headers.get("Content-Type") ?? "");
    const once = init?.body instanceof ReadableStream || request && !form && !/^(GET|HEAD)$/.test(input.method);
    const kept = request && !once && !input.bodyUsed ? input.clone() : input;
    let response = await send.call(this, input, init);
    for (let again = false; !once && stops(response.status, response.headers.get("Content-Type"), response.url); again = true) {
      const problem = await response.clone().json().catch(() => null);
      const extra = ours(problem) && await ask(problem, again);
      if (!extra) break;
      const headers = new Headers(init?.headers ?? (request ? kept.headers : undefined));
      for (const [name, value] of Object.entries(extra)) headers.set(name, value);
      response = await send.call(this, request ? kept.clone() : input, { ...init, headers });
    }
    return response;
  };

  // XMLHttpRequest

  const Native = window.XMLHttpRequest, own = Native.prototype;
  const { open, setRequestHeader, send: sendXHR } = own;
  const calls = new WeakMap();

  own.open = function (...to) {
    if (to.length < 3 || to[2]) calls.set(this, { to, headers: [], again: false, held: false, quiet: false });
    else calls.delete(this); // synchronous
    return open.apply(this, to);
  };
  own.setRequestHeader = function (...header) {
    calls.get(this)?.headers.push(header);
    return setRequestHeader.apply(this, header);
  };
  own.send = function (body) {
    const call = calls.get(this);
    if (call) call.body = body;
    return sendXHR.call(this, body);
  };

  // The first listeners: the app's own do not hear of a response that is held back.
  function listen(xhr) {
    for (const type of ["readystatechange", "progress", "load", "loadend"]) {
      xhr.addEventListener(type, (event) => {
        const call = calls.get(xhr);
        if (!call || call.passed) return;
        if (!call.held && !call.quiet) {
          call.held = xhr.readyState >= 2 && stops(xhr.status, xhr.getResponseHeader("Content-Type"), xhr.responseURL);
          if (!call.held) {
            if (type === "loadend") calls.delete(xhr);
            return;
          }
        }
        event.stopImmediatePropagation();
        if (type === "loadend") repeat(xhr, call);
      });
    }
  }

  async function problemOf(xhr) {
    try {
      if (xhr.responseType === "json") return xhr.response;
      if (xhr.responseType === "" || xhr.responseType === "text") return JSON.parse(xhr.responseText);
      return await new Response(xhr.response).json();
    } catch {
      return null;
    }
  }

  async function repeat(xhr, call) {
    const problem = await problemOf(xhr);
    const extra = ours(problem) && await ask(problem, call.again);
    if (calls.get(xhr) !== call) return; // the app has opened it again
    if (!extra) {
      call.passed = true;
      for (const type of ["readystatechange", "load", "loadend"]) {
        xhr.dispatchEvent(type === "readystatechange" ? new Event(type) : new ProgressEvent(type));
      }
      return;
    }
    call.again = call.quiet = true;
    open.apply(xhr, call.to);
    call.held = call.quiet = false;
    for (const header of [...call.headers, ...Object.entries(extra)]) setRequestHeader.apply(xhr, header);
    sendXHR.call(xhr, call.body);
  }

  window.XMLHttpRequest = new Proxy(Native, {
    construct(_, parameters, target) {
      const xhr = Reflect.construct(Native, parameters, target);
      listen(xhr);
      return xhr;
    },
  });
})();
