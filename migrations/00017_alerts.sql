-- +goose Up
-- The outbox of alerts. A row is a channel: shelf is JSON of what waits for it, the
-- message that is being delivered and by which node, and how that goes. It is bounded.
-- id is a keyed digest of the channel's address, which has secrets in it; seen_at is
-- when a node last had the channel in its configuration.
CREATE TABLE alert_channels (
    id      TEXT   NOT NULL PRIMARY KEY,
    shelf   TEXT   NOT NULL DEFAULT '{}',
    made_at BIGINT NOT NULL,
    seen_at BIGINT NOT NULL
);
-- What was raised, for people to look at: there is one row for many alerts of a kind
-- that come at once. body is plain text; a stranger's input in it is escaped.
CREATE TABLE alerts (
    id    BIGINT NOT NULL PRIMARY KEY,
    at    BIGINT NOT NULL,
    realm TEXT   NOT NULL DEFAULT '',
    kind  TEXT   NOT NULL,
    title TEXT   NOT NULL,
    body  TEXT   NOT NULL,
    count BIGINT NOT NULL DEFAULT 1
);
CREATE INDEX alerts_kind ON alerts (kind, id);

-- +goose Down
DROP TABLE alerts;
DROP TABLE alert_channels;
