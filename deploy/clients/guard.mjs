// A login with authguard's decision API: docs/how-to/decision-api.md. login returns the status and
// the data of your response to the client. check(account, password) is your own password check. Attempts fail closed after two
// seconds without an answer. challenge is the solution: { id, answer, work }.
const url = process.env.GUARD_URL ?? "http://127.0.0.1:8080"

async function ask(path, question) {
  const response = await fetch(url + path, {
    method: "POST",
    headers: { Authorization: "Bearer " + process.env.GUARD_TOKEN, "Content-Type": "application/json" },
    body: JSON.stringify(question),
    signal: AbortSignal.timeout(2000),
  })
  const text = await response.text()
  return { status: response.status, device: response.headers.get("Authguard-Device"), body: text ? JSON.parse(text) : {} }
}

export async function login(account, password, address, check, device, challenge) {
  const away = [503, { retry_after: 5 }]
  const says = (answer) => console.error("authguard answers", answer.status, answer.body.detail)
  let decision, settled, outcome = "abandoned"
  try {
    const answer = await ask("/v1/attempts", { account, address, device, challenge, inline: ["image"] })
    if (answer.status === 400 && answer.body.type === "bad-account") return [401, {}] // such as an empty name
    if (answer.status !== 200) {
      says(answer)
      return away
    }
    decision = answer.body
    if (decision.decision === "challenge") return [403, { challenge: decision.challenge }]
    if (decision.decision === "fake-failure") password = crypto.randomUUID() // takes as long as a wrong one
    else if (decision.decision !== "proceed") return [429, { retry_after: decision.retry_after }]
    try {
      outcome = (await check(account, password)) ? "succeeded" : "failed"
    } finally {
      settled = await ask("/v1/attempts/settle", { ticket: decision.ticket, outcome })
    }
    if (![204, 403, 409, 410].includes(settled.status)) { // 403 does not suffice; 409 and 410: ended already
      says(settled)
      return away
    }
  } catch (error) { // also of your check
    console.error("authguard", error)
    return away
  }
  if (outcome === "succeeded" && decision.password_suffices && settled.status === 204) return [200, { device: settled.device }]
  return [401, {}]
}
