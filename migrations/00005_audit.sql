-- +goose Up
-- id is given by the writer, growing with time (at << 20 | sequence), so that
-- rows are appended and pages of the log are read by key. count is how many
-- like events one row stands for.
CREATE TABLE audit (
    id       BIGINT NOT NULL PRIMARY KEY,
    at       BIGINT NOT NULL,
    realm    TEXT   NOT NULL DEFAULT '',
    kind     TEXT   NOT NULL,
    decision TEXT   NOT NULL DEFAULT '',
    account  TEXT   NOT NULL DEFAULT '',
    address  TEXT   NOT NULL DEFAULT '',
    reasons  TEXT   NOT NULL DEFAULT '',
    count    BIGINT NOT NULL DEFAULT 1,
    who      TEXT   NOT NULL DEFAULT '',
    detail   TEXT   NOT NULL DEFAULT ''
);
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_account ON audit (account, at);
CREATE INDEX audit_address ON audit (address, at);

-- +goose Down
DROP TABLE audit;
