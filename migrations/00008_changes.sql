-- +goose Up
-- What nodes hold in memory, by name, and how often it has changed. The number
-- grows in the transaction of the change, so whoever sees it sees the change.
CREATE TABLE changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

-- What all nodes must agree on, by name.
CREATE TABLE settings (
    name       TEXT   NOT NULL PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);

-- The last word that a person said about CAPTCHA mode, one per realm; state ''
-- leaves it to the machine. id tells two words apart. It takes the place of
-- mode_override, which could not say that somebody took a word back, and who.
CREATE TABLE mode_words (
    realm TEXT   NOT NULL PRIMARY KEY,
    id    TEXT   NOT NULL,
    state TEXT   NOT NULL CHECK (state IN ('on', 'off', '')),
    who   TEXT   NOT NULL DEFAULT '',
    why   TEXT   NOT NULL DEFAULT '',
    since BIGINT NOT NULL,
    until BIGINT NOT NULL
);
INSERT INTO mode_words (realm, id, state, who, why, since, until)
    SELECT realm, 'before', state, who, why, since, until FROM mode_override;
DROP TABLE mode_override;

-- +goose Down
CREATE TABLE mode_override (
    realm TEXT   NOT NULL PRIMARY KEY,
    state TEXT   NOT NULL CHECK (state IN ('on', 'off')),
    who   TEXT   NOT NULL DEFAULT '',
    why   TEXT   NOT NULL DEFAULT '',
    since BIGINT NOT NULL,
    until BIGINT NOT NULL
);
INSERT INTO mode_override (realm, state, who, why, since, until)
    SELECT realm, state, who, why, since, until FROM mode_words WHERE state <> '';
DROP TABLE mode_words;
DROP TABLE settings;
DROP TABLE changes;
