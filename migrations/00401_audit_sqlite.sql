-- +goose Up
-- id is given by the writer and grows with time (at << 20 | sequence). It is SQLite's own
-- row number, at the end of every index, so that each is in the order of time. count is the
-- number of similar events that a row stands for, and last_at the last of them (0: one
-- event). part decides what is deleted first (internal/audit). place is a sortable form of
-- address, so that a network is a range.
CREATE TABLE audit (
    id       INTEGER NOT NULL PRIMARY KEY,
    at       BIGINT  NOT NULL,
    last_at  BIGINT  NOT NULL DEFAULT 0,
    realm    TEXT    NOT NULL DEFAULT '',
    kind     TEXT    NOT NULL,
    decision TEXT    NOT NULL DEFAULT '',
    account  TEXT    NOT NULL DEFAULT '',
    address  TEXT    NOT NULL DEFAULT '',
    reasons  TEXT    NOT NULL DEFAULT '',
    count    BIGINT  NOT NULL DEFAULT 1,
    who      TEXT    NOT NULL DEFAULT '',
    detail   TEXT    NOT NULL DEFAULT '',
    place    TEXT    NOT NULL DEFAULT '',
    part     INTEGER GENERATED ALWAYS AS (CASE
        WHEN kind NOT IN ('attempt', 'event', 'attack') THEN 4
        WHEN decision = 'succeeded' THEN 3
        WHEN kind = 'attack' OR kind = 'attempt' AND detail LIKE '%, summed up' THEN 2
        WHEN decision = 'failed' THEN 1
        ELSE 0 END) VIRTUAL
);
CREATE INDEX audit_part ON audit (part);
CREATE INDEX audit_account ON audit (account, part, realm);
CREATE INDEX audit_place ON audit (place, realm);
