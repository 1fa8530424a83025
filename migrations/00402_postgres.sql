-- +goose Up
-- See 00401. Autovacuum runs long before a fifth of the rows is dead, so that new rows use
-- the space of deleted ones.
CREATE TABLE audit (
    id       BIGINT   NOT NULL PRIMARY KEY,
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
    place    TEXT     COLLATE "C" NOT NULL DEFAULT '',
    part     SMALLINT GENERATED ALWAYS AS (CASE
        WHEN kind NOT IN ('attempt', 'event', 'attack') THEN 4
        WHEN decision = 'succeeded' THEN 3
        WHEN kind = 'attack' OR kind = 'attempt' AND detail LIKE '%, summed up' THEN 2
        WHEN decision = 'failed' THEN 1
        ELSE 0 END) STORED
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX audit_part ON audit (part, id);
CREATE INDEX audit_account ON audit (account, part, realm, id);
CREATE INDEX audit_place ON audit (place, realm, id);

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
