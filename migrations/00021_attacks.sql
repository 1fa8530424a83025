-- +goose Up
-- Attacks that were recognised. One is running while ended_at is 0; there is at most one
-- of a kind and subject then, however many nodes see it. summary is JSON of what the nodes
-- saw, once it is over: no password, and nothing one could be recovered from. part_of is
-- the attack on the whole site as which it went on.
CREATE TABLE attacks (
    id       TEXT   NOT NULL PRIMARY KEY,
    realm    TEXT   NOT NULL,
    kind     TEXT   NOT NULL CHECK (kind IN ('site', 'account', 'address', 'spray')),
    subject  TEXT   NOT NULL DEFAULT '',
    began_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    part_of  TEXT   NOT NULL DEFAULT '',
    summary  TEXT   NOT NULL DEFAULT ''
);
CREATE UNIQUE INDEX attacks_running ON attacks (realm, kind, subject) WHERE ended_at = 0;
CREATE INDEX attacks_began ON attacks (realm, began_at);
-- What each process saw so far: JSON that it writes anew, so that writing it twice counts
-- nothing twice. Summed up into attacks.summary when the attack is over.
CREATE TABLE attack_parts (
    attack TEXT NOT NULL REFERENCES attacks (id) ON DELETE CASCADE,
    node   TEXT NOT NULL,
    data   TEXT NOT NULL,
    PRIMARY KEY (attack, node)
);
-- Who was logged in to from a new place meanwhile. why has codes, separated by commas;
-- where it is empty nothing but the new place was unusual.
CREATE TABLE attack_logins (
    attack   TEXT   NOT NULL REFERENCES attacks (id) ON DELETE CASCADE,
    account  TEXT   NOT NULL,
    address  TEXT   NOT NULL,
    door     TEXT   NOT NULL DEFAULT '',
    why      TEXT   NOT NULL DEFAULT '',
    failures BIGINT NOT NULL DEFAULT 0,
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    PRIMARY KEY (attack, account, address)
);
-- What was last done for an account, whichever attack it was done for.
CREATE TABLE attack_resets (
    realm   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    what    TEXT   NOT NULL CHECK (what IN ('sessions', 'places', 'password')),
    at      BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    why     TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (realm, account, what)
);

-- +goose Down
DROP TABLE attack_resets;
DROP TABLE attack_logins;
DROP TABLE attack_parts;
DROP TABLE attacks;
