-- +goose Up
-- The groups of an account, sorted and separated by commas.
ALTER TABLE accounts ADD COLUMN member_of TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE accounts DROP COLUMN member_of;
