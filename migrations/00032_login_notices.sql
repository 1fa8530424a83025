-- +goose Up
-- What owners of accounts are told by mail: a login from a new place. id is half of the
-- token in the letter's link; the other half is made of it with the server's keys, so that
-- a stolen dump holds no link. due_at: when it is to be sent (0: it was); used_at: when
-- the owner said that it was not them (0: they have not).
CREATE TABLE login_notices (
    id         TEXT   NOT NULL PRIMARY KEY,
    realm      TEXT   NOT NULL,
    directory  TEXT   NOT NULL DEFAULT '',
    account    TEXT   NOT NULL,
    address    TEXT   NOT NULL DEFAULT '',
    agent      TEXT   NOT NULL DEFAULT '',
    at         BIGINT NOT NULL,
    due_at     BIGINT NOT NULL,
    tries      BIGINT NOT NULL DEFAULT 0,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX login_notices_account ON login_notices (realm, account, at);
CREATE INDEX login_notices_due ON login_notices (due_at) WHERE due_at > 0;
CREATE INDEX login_notices_at ON login_notices (at);

-- +goose Down
DROP TABLE login_notices;
