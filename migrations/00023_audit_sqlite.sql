-- +goose Up
-- The audit log in two thirds of the room. id is SQLite's own row number, which every
-- index has at its end anyway, so that each of them is in the order of time; an index of
-- "at" says what id says. part tells what is deleted first (internal/audit). Wrong
-- passwords, right ones and the rest of an account have an index each, and no row is in
-- two of them. SQLite cannot change a primary key, so the table is made anew.
DROP INDEX audit_at;
DROP INDEX audit_account;
DROP INDEX audit_address;
DROP INDEX audit_part;
DROP INDEX audit_succeeded;
DROP INDEX audit_failed;
ALTER TABLE audit RENAME TO audit_before;
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
    part     INTEGER GENERATED ALWAYS AS (CASE WHEN kind NOT IN ('attempt', 'event', 'more') THEN 4 WHEN decision = 'succeeded' THEN 3
        WHEN kind = 'attempt' AND detail LIKE '%, summed up' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END) VIRTUAL
);
INSERT INTO audit (id, at, last_at, realm, kind, decision, account, address, reasons, count, who, detail)
    SELECT id, at, last_at, CASE WHEN realm = '' THEN 'default' ELSE realm END, kind, decision, account, address, reasons, count, who, detail
    FROM audit_before ORDER BY id;
DROP TABLE audit_before;
CREATE INDEX audit_part ON audit (part);
CREATE INDEX audit_address ON audit (realm, address);
CREATE INDEX audit_succeeded ON audit (realm, account) WHERE decision = 'succeeded';
CREATE INDEX audit_failed ON audit (realm, account) WHERE decision = 'failed';
CREATE INDEX audit_rest ON audit (realm, account) WHERE decision NOT IN ('succeeded', 'failed');

-- +goose Down
DROP INDEX audit_part;
DROP INDEX audit_address;
DROP INDEX audit_succeeded;
DROP INDEX audit_failed;
DROP INDEX audit_rest;
ALTER TABLE audit DROP COLUMN part;
CREATE INDEX audit_at ON audit (at);
CREATE INDEX audit_account ON audit (account, at);
CREATE INDEX audit_address ON audit (address, at);
CREATE INDEX audit_part ON audit ((CASE WHEN kind NOT IN ('attempt', 'event', 'more') THEN 3 WHEN decision = 'succeeded' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END), id);
CREATE INDEX audit_succeeded ON audit (realm, account, at) WHERE decision = 'succeeded';
CREATE INDEX audit_failed ON audit (realm, account, at) WHERE decision = 'failed';
