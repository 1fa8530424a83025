-- +goose Up
-- account and place are keyed digests in hex. status: 1 privileged, 2 spent.
CREATE TABLE places (
    account    TEXT     NOT NULL,
    place      TEXT     NOT NULL,
    status     SMALLINT NOT NULL,
    first_used BIGINT   NOT NULL,
    last_used  BIGINT   NOT NULL,
    PRIMARY KEY (account, place)
);
CREATE INDEX places_lru ON places (account, last_used);
CREATE INDEX places_last_used ON places (last_used);

-- reset_at: device cookies issued at or before it are void (0: never reset).
-- changed_at: something was forgotten; other processes read the account again.
CREATE TABLE place_resets (
    account    TEXT   NOT NULL PRIMARY KEY,
    reset_at   BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX place_resets_changed_at ON place_resets (changed_at);

-- +goose Down
DROP TABLE place_resets;
DROP TABLE places;
