-- +goose Up
-- A person's word about CAPTCHA mode: at most one per realm, gone at "until".
CREATE TABLE mode_override (
    realm TEXT   NOT NULL PRIMARY KEY,
    state TEXT   NOT NULL CHECK (state IN ('on', 'off')),
    who   TEXT   NOT NULL DEFAULT '',
    why   TEXT   NOT NULL DEFAULT '',
    since BIGINT NOT NULL,
    until BIGINT NOT NULL
);

CREATE TABLE mode_history (
    id         TEXT   NOT NULL PRIMARY KEY,
    realm      TEXT   NOT NULL,
    at         BIGINT NOT NULL,
    from_state TEXT   NOT NULL,
    to_state   TEXT   NOT NULL,
    cause      TEXT   NOT NULL,
    who        TEXT   NOT NULL DEFAULT '',
    why        TEXT   NOT NULL DEFAULT '',
    pressure   DOUBLE PRECISION NOT NULL DEFAULT 0,
    threshold  DOUBLE PRECISION NOT NULL DEFAULT 0
);
CREATE INDEX mode_history_at ON mode_history (realm, at);

-- What the detector has learned, a small JSON text by name ("default/normal").
CREATE TABLE mode_state (
    name       TEXT   NOT NULL PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);

-- +goose Down
DROP TABLE mode_state;
DROP TABLE mode_history;
DROP TABLE mode_override;
