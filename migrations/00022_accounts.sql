-- +goose Up
-- Somebody else may have the account's password: from a place that is not known, the right
-- one needs a one-time code beside it, until there is a new one.
ALTER TABLE accounts ADD COLUMN needs_code BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE accounts DROP COLUMN needs_code;
