-- +goose Up
-- told: somebody was told that the entry is about to expire.
ALTER TABLE lists ADD COLUMN told BIGINT NOT NULL DEFAULT 0;
-- What the named lists met in each hour, for a day: nodes add to one row.
CREATE TABLE list_hits (
    realm   TEXT   NOT NULL,
    list    TEXT   NOT NULL,
    hour    BIGINT NOT NULL,
    met     BIGINT NOT NULL,
    stopped BIGINT NOT NULL,
    PRIMARY KEY (realm, list, hour)
);

-- +goose Down
DROP TABLE list_hits;
ALTER TABLE lists DROP COLUMN told;
