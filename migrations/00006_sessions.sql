-- +goose Up
-- token_hash is SHA-256 of the token in hex: a stolen dump logs nobody in.
-- data is base64.
CREATE TABLE sessions (
    token_hash TEXT   NOT NULL PRIMARY KEY,
    data       TEXT   NOT NULL,
    account    TEXT   NOT NULL DEFAULT '',
    expires_at BIGINT NOT NULL
);
CREATE INDEX sessions_account ON sessions (account);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

-- +goose Down
DROP TABLE sessions;
