-- +goose Up
-- The operation "places" is called "known-clients".
CREATE TABLE attack_operations (
    realm   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    what    TEXT   NOT NULL CHECK (what IN ('sessions', 'known-clients', 'password')),
    at      BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    why     TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (realm, account, what)
);
INSERT INTO attack_operations SELECT realm, account, CASE what WHEN 'places' THEN 'known-clients' ELSE what END, at, who, why FROM attack_resets;
DROP TABLE attack_resets;

-- +goose Down
CREATE TABLE attack_resets (
    realm   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    what    TEXT   NOT NULL CHECK (what IN ('sessions', 'places', 'password')),
    at      BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    why     TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (realm, account, what)
);
INSERT INTO attack_resets SELECT realm, account, CASE what WHEN 'known-clients' THEN 'places' ELSE what END, at, who, why FROM attack_operations;
DROP TABLE attack_operations;
