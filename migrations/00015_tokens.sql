-- +goose Up
-- Bearer tokens of the decision API. token_hash is SHA-256 of the token in hex: a
-- stolen dump lets nobody ask. A revoked one is deleted; the audit log has it.
CREATE TABLE api_tokens (
    token_hash TEXT   NOT NULL PRIMARY KEY,
    realm      TEXT   NOT NULL,
    name       TEXT   NOT NULL,
    created_by TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    UNIQUE (realm, name)
);

-- +goose Down
DROP TABLE api_tokens;
