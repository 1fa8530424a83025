-- +goose Up
-- As 00011 for SQLite: accounts, their sessions and their one-time codes belong to a
-- realm. Names keep the byte order of 00007.
ALTER TABLE accounts ADD COLUMN realm TEXT COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE accounts DROP CONSTRAINT accounts_username_key, DROP CONSTRAINT accounts_email_key,
    ADD CONSTRAINT accounts_username_key UNIQUE (realm, username),
    ADD CONSTRAINT accounts_email_key UNIQUE (realm, email);
ALTER TABLE account_names ADD COLUMN realm TEXT COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE account_names DROP CONSTRAINT account_names_pkey, ADD PRIMARY KEY (realm, name);
ALTER TABLE sessions ADD COLUMN realm TEXT COLLATE "C" NOT NULL DEFAULT 'default';
ALTER TABLE passes ADD COLUMN realm TEXT COLLATE "C" NOT NULL DEFAULT 'default';

-- +goose Down
ALTER TABLE passes DROP COLUMN realm;
ALTER TABLE sessions DROP COLUMN realm;
DELETE FROM accounts WHERE realm <> 'default';
ALTER TABLE account_names DROP CONSTRAINT account_names_pkey, ADD PRIMARY KEY (name);
ALTER TABLE account_names DROP COLUMN realm;
ALTER TABLE accounts DROP CONSTRAINT accounts_username_key, DROP CONSTRAINT accounts_email_key,
    ADD CONSTRAINT accounts_username_key UNIQUE (username), ADD CONSTRAINT accounts_email_key UNIQUE (email);
ALTER TABLE accounts DROP COLUMN realm;
