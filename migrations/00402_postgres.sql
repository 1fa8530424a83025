-- +goose Up
-- See 00401. The key begins with part: an index of id alone has rows of all parts on each
-- page. When most of them are deleted and the sums stay, such a page keeps a few entries and
-- is never filled again, so that the index grows without end. By part, whole pages become
-- empty. id is unique by itself (Log.id). Autovacuum runs long before a fifth of the rows is
-- dead, so that new rows use the space of deleted ones.
CREATE TABLE audit (
    id       BIGINT   NOT NULL,
    at       BIGINT   NOT NULL,
    last_at  BIGINT   NOT NULL DEFAULT 0,
    realm    TEXT     COLLATE "C" NOT NULL DEFAULT '',
    kind     TEXT     NOT NULL,
    decision TEXT     NOT NULL DEFAULT '',
    account  TEXT     COLLATE "C" NOT NULL DEFAULT '',
    address  TEXT     COLLATE "C" NOT NULL DEFAULT '',
    reasons  TEXT     NOT NULL DEFAULT '',
    count    BIGINT   NOT NULL DEFAULT 1,
    who      TEXT     NOT NULL DEFAULT '',
    detail   TEXT     NOT NULL DEFAULT '',
    part     SMALLINT GENERATED ALWAYS AS (CASE WHEN kind NOT IN ('attempt', 'event', 'more') THEN 4 WHEN decision = 'succeeded' THEN 3
        WHEN kind = 'attempt' AND detail LIKE '%, summed up' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END) STORED,
    PRIMARY KEY (part, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX audit_address ON audit (realm, address, id);
CREATE INDEX audit_succeeded ON audit (realm, account, id) WHERE decision = 'succeeded';
CREATE INDEX audit_failed ON audit (realm, account, id) WHERE decision = 'failed';
CREATE INDEX audit_rest ON audit (realm, account, id) WHERE decision NOT IN ('succeeded', 'failed');

-- Names are compared byte by byte, as SQLite does. In the order of a language, an update of
-- the C library can change the order and break an index: then a name that is taken is not
-- found, and a second account can take it.
ALTER TABLE account_names DROP CONSTRAINT account_names_account_fkey;
ALTER TABLE accounts
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN realm TYPE TEXT COLLATE "C",
    ALTER COLUMN username TYPE TEXT COLLATE "C",
    ALTER COLUMN email TYPE TEXT COLLATE "C",
    ALTER COLUMN password_hash TYPE TEXT COLLATE "C";
ALTER TABLE account_names
    ALTER COLUMN realm TYPE TEXT COLLATE "C",
    ALTER COLUMN name TYPE TEXT COLLATE "C",
    ALTER COLUMN account TYPE TEXT COLLATE "C";
ALTER TABLE account_names ADD CONSTRAINT account_names_account_fkey
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE;
ALTER TABLE sessions
    ALTER COLUMN token_hash TYPE TEXT COLLATE "C",
    ALTER COLUMN realm TYPE TEXT COLLATE "C",
    ALTER COLUMN account TYPE TEXT COLLATE "C";
ALTER TABLE verification_codes ALTER COLUMN realm TYPE TEXT COLLATE "C";
ALTER TABLE known_clients ALTER COLUMN account TYPE TEXT COLLATE "C";
ALTER TABLE lists
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN cidr TYPE TEXT COLLATE "C";
ALTER TABLE mode_history
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN realm TYPE TEXT COLLATE "C";
ALTER TABLE mode_state ALTER COLUMN name TYPE TEXT COLLATE "C";
