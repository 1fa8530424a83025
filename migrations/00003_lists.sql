-- +goose Up
-- One verdict per range: the newest word replaces the one before.
CREATE TABLE lists (
    id         TEXT   NOT NULL PRIMARY KEY,
    cidr       TEXT   NOT NULL UNIQUE,
    verdict    TEXT   NOT NULL CHECK (verdict IN ('allow', 'block')),
    note       TEXT   NOT NULL DEFAULT '',
    created_by TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX lists_expires_at ON lists (expires_at);

-- +goose Down
DROP TABLE lists;
