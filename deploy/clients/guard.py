"""A login with authguard's decision API: docs/how-to/decision-api.md.

login returns the status and the data of your response to the client. check(account, password)
is your own password check. Attempts fail closed after two seconds without an answer.
"""
import http.client, json, os, secrets, sys, urllib.error, urllib.request

URL = os.environ.get("GUARD_URL", "http://127.0.0.1:8080")
TOKEN = os.environ["GUARD_TOKEN"]


def ask(path, question):
    request = urllib.request.Request(URL + path, json.dumps(question).encode(), {
        "Authorization": "Bearer " + TOKEN, "Content-Type": "application/json"})
    try:
        response = urllib.request.urlopen(request, timeout=2)
    except urllib.error.HTTPError as answered:  # 400 and more
        response = answered
    with response:
        return response.status, response.headers.get("Authguard-Device"), json.loads(response.read() or "{}")


def away(status, answer):
    print("authguard answers", status, answer.get("detail"), file=sys.stderr)
    return 503, {"retry_after": 5}


def login(account, password, address, check, device=None, challenge=None):
    try:
        status, _, decision = ask("/v1/attempts", {
            "account": account, "address": address, "device": device, "challenge": challenge, "inline": ["image"]})
        if status == 400 and decision.get("type") == "bad-account":  # such as an empty name
            return 401, {}
        if status != 200:
            return away(status, decision)
        if decision["decision"] == "challenge":
            return 403, {"challenge": decision["challenge"]}
        if decision["decision"] == "fake-failure":
            password = secrets.token_hex()  # takes as long as a wrong one
        elif decision["decision"] != "proceed":
            return 429, {"retry_after": decision["retry_after"]}
        outcome = "abandoned"
        try:
            outcome = "succeeded" if check(account, password) else "failed"
        finally:
            status, device, settled = ask("/v1/attempts/settle", {"ticket": decision["ticket"], "outcome": outcome})
        if status not in (204, 403, 409, 410):  # 403 does not suffice; 409 and 410: ended already
            return away(status, settled)
    except (OSError, ValueError, KeyError, http.client.HTTPException) as error:
        print("authguard:", repr(error), file=sys.stderr)
        return 503, {"retry_after": 5}
    if outcome == "succeeded" and decision["password_suffices"] and status == 204:
        return 200, {"device": device}
    return 401, {}
