-- +goose Up
-- One-time codes that let one place into an account. code_hash is SHA-256 of
-- the code in hex: a stolen dump lets nobody in. place and asked_from are keyed
-- digests in hex; '' until a place has shown the code, and if no stranger asked
-- for it.
CREATE TABLE passes (
    code_hash  TEXT   NOT NULL PRIMARY KEY,
    directory  TEXT   NOT NULL,
    account    TEXT   NOT NULL,
    place      TEXT   NOT NULL DEFAULT '',
    tries      BIGINT NOT NULL DEFAULT 0,
    asked_from TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passes_account ON passes (account);
CREATE INDEX passes_asked_from ON passes (asked_from);
CREATE INDEX passes_expires_at ON passes (expires_at);

-- +goose Down
DROP TABLE passes;
