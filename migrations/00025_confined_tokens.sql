-- +goose Up
-- A token with scopes is for all realms, or for its own alone.
ALTER TABLE api_tokens ADD COLUMN confined BOOLEAN NOT NULL DEFAULT FALSE;

-- +goose Down
ALTER TABLE api_tokens DROP COLUMN confined;
