-- +goose Up
-- Accounts, their sessions and their one-time codes belong to a realm: the same name
-- in two realms is two people. SQLite cannot change what is unique, so the two tables
-- are made anew.
CREATE TABLE realm_accounts (
    id            TEXT    NOT NULL PRIMARY KEY,
    realm         TEXT    NOT NULL DEFAULT 'default',
    username      TEXT    NOT NULL,
    email         TEXT,
    password_hash TEXT    NOT NULL,
    role          TEXT    NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin')),
    disabled      BOOLEAN NOT NULL DEFAULT FALSE,
    must_change   BOOLEAN NOT NULL DEFAULT FALSE,
    version       BIGINT  NOT NULL DEFAULT 1,
    created_at    BIGINT  NOT NULL,
    changed_at    BIGINT  NOT NULL,
    UNIQUE (realm, username),
    UNIQUE (realm, email)
);
INSERT INTO realm_accounts (id, username, email, password_hash, role, disabled, must_change, version, created_at, changed_at)
    SELECT id, username, email, password_hash, role, disabled, must_change, version, created_at, changed_at FROM accounts;
CREATE TABLE realm_account_names (
    realm   TEXT NOT NULL DEFAULT 'default',
    name    TEXT NOT NULL,
    account TEXT NOT NULL REFERENCES realm_accounts (id) ON DELETE CASCADE,
    PRIMARY KEY (realm, name)
);
INSERT INTO realm_account_names (name, account) SELECT name, account FROM account_names;
DROP TABLE account_names;
DROP TABLE accounts;
ALTER TABLE realm_accounts RENAME TO accounts;
ALTER TABLE realm_account_names RENAME TO account_names;
CREATE INDEX accounts_changed_at ON accounts (changed_at);
CREATE INDEX account_names_account ON account_names (account);
ALTER TABLE sessions ADD COLUMN realm TEXT NOT NULL DEFAULT 'default';
ALTER TABLE passes ADD COLUMN realm TEXT NOT NULL DEFAULT 'default';

-- +goose Down
ALTER TABLE passes DROP COLUMN realm;
ALTER TABLE sessions DROP COLUMN realm;
CREATE TABLE all_accounts (
    id            TEXT    NOT NULL PRIMARY KEY,
    username      TEXT    NOT NULL UNIQUE,
    email         TEXT    UNIQUE,
    password_hash TEXT    NOT NULL,
    role          TEXT    NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin')),
    disabled      BOOLEAN NOT NULL DEFAULT FALSE,
    must_change   BOOLEAN NOT NULL DEFAULT FALSE,
    version       BIGINT  NOT NULL DEFAULT 1,
    created_at    BIGINT  NOT NULL,
    changed_at    BIGINT  NOT NULL
);
INSERT INTO all_accounts SELECT id, username, email, password_hash, role, disabled, must_change, version, created_at, changed_at
    FROM accounts WHERE realm = 'default';
CREATE TABLE all_account_names (
    name    TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL REFERENCES all_accounts (id) ON DELETE CASCADE
);
INSERT INTO all_account_names SELECT name, account FROM account_names WHERE realm = 'default';
DROP TABLE account_names;
DROP TABLE accounts;
ALTER TABLE all_accounts RENAME TO accounts;
ALTER TABLE all_account_names RENAME TO account_names;
CREATE INDEX accounts_changed_at ON accounts (changed_at);
CREATE INDEX account_names_account ON account_names (account);
