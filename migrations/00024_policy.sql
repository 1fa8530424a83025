-- +goose Up
-- What administrators said of the policy in the running server: one word for each ladder,
-- or for all. until is 0 for one that holds until somebody takes it back.
CREATE TABLE policy_words (
    realm   TEXT   NOT NULL,
    ladder  TEXT   NOT NULL,
    enforce BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    why     TEXT   NOT NULL,
    since   BIGINT NOT NULL,
    until   BIGINT NOT NULL,
    PRIMARY KEY (realm, ladder)
);
-- Whom each limit met in each hour, for a day: nodes add to one row. A row without an
-- account and an address sums up those beyond the bound. later: they logged in after it.
CREATE TABLE policy_met (
    realm   TEXT   NOT NULL,
    hour    BIGINT NOT NULL,
    ladder  TEXT   NOT NULL,
    rung    TEXT   NOT NULL,
    watched BIGINT NOT NULL,
    account TEXT   NOT NULL,
    address TEXT   NOT NULL,
    first   BIGINT NOT NULL,
    count   BIGINT NOT NULL,
    later   BIGINT NOT NULL,
    PRIMARY KEY (realm, hour, ladder, rung, watched, account, address)
);
CREATE INDEX policy_met_pair ON policy_met (realm, account, address);

-- +goose Down
DROP TABLE policy_met;
DROP TABLE policy_words;
