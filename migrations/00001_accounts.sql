-- +goose Up
CREATE TABLE accounts (
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
CREATE INDEX accounts_changed_at ON accounts (changed_at);

-- One row per name that logs somebody in, so that nobody's user name is
-- somebody else's e-mail address: UNIQUE on two columns cannot say that.
CREATE TABLE account_names (
    name    TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE
);
CREATE INDEX account_names_account ON account_names (account);

-- +goose Down
DROP TABLE account_names;
DROP TABLE accounts;
