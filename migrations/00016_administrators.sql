-- +goose Up
-- Of a session: at which door, when it began, when it was used last and after how long
-- unused it ends (0: never), and where. One that a person has ended stays until it would
-- have expired: a request that is still running must not write it again.
ALTER TABLE sessions ADD COLUMN door TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN agent TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN started_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN seen_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN idle_for BIGINT NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN ended_at BIGINT NOT NULL DEFAULT 0;

-- What administrators show beside their passwords. The secret of TOTP is sealed with the
-- server's keys. It counts once a code has confirmed it. last_step is the newest step of
-- time of which a code was taken: none is good twice (RFC 6238, section 5.2).
CREATE TABLE totp (
    account      TEXT   NOT NULL PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    secret       TEXT   NOT NULL,
    last_step    BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0,
    used_at      BIGINT NOT NULL DEFAULT 0
);

-- data is the credential record of WebAuthn, as JSON: public keys, no secrets. host is
-- the name at which it was made, and at which alone it is good.
CREATE TABLE passkeys (
    id         TEXT   NOT NULL PRIMARY KEY,
    account    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    host       TEXT   NOT NULL,
    name       TEXT   NOT NULL DEFAULT '',
    data       TEXT   NOT NULL,
    sign_count BIGINT NOT NULL DEFAULT 0,
    cloned_at  BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passkeys_account ON passkeys (account);

-- The challenges of WebAuthn that were answered, until they would have expired.
CREATE TABLE passkey_answers (
    challenge  TEXT   NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

-- code_hash is HMAC-SHA-256 of the code with a key of the server's. A used one is deleted.
CREATE TABLE recovery_codes (
    code_hash  TEXT   NOT NULL PRIMARY KEY,
    account    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);
CREATE INDEX recovery_codes_account ON recovery_codes (account);

-- Tokens with scopes are for the administration's API, those without for the decision
-- API. maker is the administrator who made one; '' for a command on the server.
ALTER TABLE api_tokens ADD COLUMN scopes TEXT NOT NULL DEFAULT '';
ALTER TABLE api_tokens ADD COLUMN maker TEXT NOT NULL DEFAULT '';
ALTER TABLE api_tokens ADD COLUMN expires_at BIGINT NOT NULL DEFAULT 0;
ALTER TABLE api_tokens ADD COLUMN used_at BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE api_tokens DROP COLUMN used_at;
ALTER TABLE api_tokens DROP COLUMN expires_at;
ALTER TABLE api_tokens DROP COLUMN maker;
ALTER TABLE api_tokens DROP COLUMN scopes;
DROP TABLE recovery_codes;
DROP TABLE passkey_answers;
DROP TABLE passkeys;
DROP TABLE totp;
ALTER TABLE sessions DROP COLUMN ended_at;
ALTER TABLE sessions DROP COLUMN idle_for;
ALTER TABLE sessions DROP COLUMN seen_at;
ALTER TABLE sessions DROP COLUMN started_at;
ALTER TABLE sessions DROP COLUMN agent;
ALTER TABLE sessions DROP COLUMN address;
ALTER TABLE sessions DROP COLUMN door;
