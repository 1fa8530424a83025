-- +goose Up
-- Names are compared byte by byte, as SQLite does. In the language's order an
-- update of the C library can change the order, and with it an index: then a
-- name that is taken is not found, and somebody takes it again.
ALTER TABLE account_names DROP CONSTRAINT account_names_account_fkey;
ALTER TABLE accounts
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN username TYPE TEXT COLLATE "C",
    ALTER COLUMN email TYPE TEXT COLLATE "C",
    ALTER COLUMN password_hash TYPE TEXT COLLATE "C";
ALTER TABLE account_names
    ALTER COLUMN name TYPE TEXT COLLATE "C",
    ALTER COLUMN account TYPE TEXT COLLATE "C";
ALTER TABLE account_names ADD CONSTRAINT account_names_account_fkey
    FOREIGN KEY (account) REFERENCES accounts (id) ON DELETE CASCADE;
ALTER TABLE places
    ALTER COLUMN account TYPE TEXT COLLATE "C",
    ALTER COLUMN place TYPE TEXT COLLATE "C";
ALTER TABLE place_resets ALTER COLUMN account TYPE TEXT COLLATE "C";
ALTER TABLE lists
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN cidr TYPE TEXT COLLATE "C";
ALTER TABLE mode_override ALTER COLUMN realm TYPE TEXT COLLATE "C";
ALTER TABLE mode_history
    ALTER COLUMN id TYPE TEXT COLLATE "C",
    ALTER COLUMN realm TYPE TEXT COLLATE "C";
ALTER TABLE mode_state ALTER COLUMN name TYPE TEXT COLLATE "C";
ALTER TABLE audit
    ALTER COLUMN account TYPE TEXT COLLATE "C",
    ALTER COLUMN address TYPE TEXT COLLATE "C";
ALTER TABLE sessions
    ALTER COLUMN token_hash TYPE TEXT COLLATE "C",
    ALTER COLUMN account TYPE TEXT COLLATE "C";

-- +goose Down
SELECT 1;
