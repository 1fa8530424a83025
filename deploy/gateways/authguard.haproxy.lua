-- Forward auth for HAProxy (docs/how-to/haproxy.md).
-- Asks authguard to authorize each request, and returns authguard's response if it is denied.
local verify = "http://127.0.0.1:8080/auth/verify"

-- The only client headers that authguard receives.
local passed = {
    "host", "cookie", "accept", "accept-language", "x-requested-with", "sec-fetch-mode",
    "x-http-method-override", "x-http-method", "x-method-override",
}
local identity = { "remote-user", "remote-groups", "remote-email" }
local copied = { "location", "content-type", "content-language", "content-security-policy", "cache-control", "retry-after", "vary",
    "x-content-type-options", "x-frame-options", "referrer-policy", "cross-origin-opener-policy" }

core.register_action("authguard", { "http-req" }, function(txn)
    local sent, headers = txn.http:req_get_headers(), {}
    for _, name in ipairs(passed) do
        if sent[name] then -- as one line: HAProxy 2.6 crashes on a hundred lines
            headers[name] = { [0] = table.concat(sent[name], name == "cookie" and "; " or ", ", 0) }
        end
    end
    headers["x-forwarded-for"] = { [0] = txn.f:src() }
    headers["x-forwarded-proto"] = sent["x-forwarded-proto"]
    headers["x-forwarded-method"] = { [0] = txn.f:method() }
    headers["x-forwarded-uri"] = { [0] = txn.f:pathq() }

    local answer = core.httpclient():get({ url = verify, headers = headers, timeout = 5000 })
    if answer ~= nil and answer.status == 200 then
        txn:set_var("txn.authguard", true) -- if this script fails, the variable is unset and the request is denied
        for _, name in ipairs(identity) do
            if answer.headers[name] and answer.headers[name][0] ~= "" then
                txn.http:req_set_header(name, answer.headers[name][0])
            end
        end
        return
    end

    local reply = txn:reply({ status = 503 })
    if answer ~= nil and answer.status >= 300 then
        reply:set_status(answer.status)
        for _, name in ipairs(copied) do
            if answer.headers[name] then
                reply:add_header(name, answer.headers[name][0])
            end
        end
        if txn.f:method() ~= "HEAD" and answer.body then
            reply:set_body(answer.body)
        end
    else
        reply:add_header("content-type", "text/plain")
        reply:set_body("The login service is not responding. Try again in a minute.\n")
    end
    txn:done(reply)
end)
