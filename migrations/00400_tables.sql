-- +goose Up
-- A user name or email address belongs to a realm: the same name in two realms is two
-- accounts. member_of are the groups, sorted and separated by commas. needs_code: the
-- password may be known to an attacker, so an unknown client needs a verification code
-- until the account has a new password.
CREATE TABLE accounts (
    id            TEXT    NOT NULL PRIMARY KEY,
    realm         TEXT    NOT NULL DEFAULT 'default',
    username      TEXT    NOT NULL,
    email         TEXT,
    password_hash TEXT    NOT NULL,
    role          TEXT    NOT NULL DEFAULT 'user' CHECK (role IN ('user', 'admin')),
    disabled      BOOLEAN NOT NULL DEFAULT FALSE,
    must_change   BOOLEAN NOT NULL DEFAULT FALSE,
    version       BIGINT  NOT NULL DEFAULT 1,
    created_at    BIGINT  NOT NULL,
    changed_at    BIGINT  NOT NULL,
    member_of     TEXT    NOT NULL DEFAULT '',
    needs_code    BOOLEAN NOT NULL DEFAULT FALSE,
    CONSTRAINT accounts_username_key UNIQUE (realm, username),
    CONSTRAINT accounts_email_key UNIQUE (realm, email)
);
CREATE INDEX accounts_changed_at ON accounts (changed_at);

-- One row for each name that an account signs in with, so that a user name is never
-- another account's email address: UNIQUE on two columns cannot express that.
CREATE TABLE account_names (
    realm   TEXT NOT NULL DEFAULT 'default',
    name    TEXT NOT NULL,
    account TEXT NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    PRIMARY KEY (realm, name)
);
CREATE INDEX account_names_account ON account_names (account);

-- MFA of administrators. The secret of TOTP is sealed with the server's keys, and counts
-- once a code has confirmed it. last_step is the newest time step of an accepted code: no
-- code is accepted twice (RFC 6238, section 5.2).
CREATE TABLE totp (
    account      TEXT   NOT NULL PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
    secret       TEXT   NOT NULL,
    last_step    BIGINT NOT NULL DEFAULT 0,
    created_at   BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL DEFAULT 0,
    used_at      BIGINT NOT NULL DEFAULT 0
);

-- data is the credential record of WebAuthn as JSON: public keys, no secrets. A passkey
-- is accepted at host alone, the name at which it was made.
CREATE TABLE passkeys (
    id         TEXT   NOT NULL PRIMARY KEY,
    account    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    host       TEXT   NOT NULL,
    name       TEXT   NOT NULL DEFAULT '',
    data       TEXT   NOT NULL,
    sign_count BIGINT NOT NULL DEFAULT 0,
    cloned_at  BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX passkeys_account ON passkeys (account);

-- The WebAuthn challenges that were answered, until they would have expired.
CREATE TABLE passkey_answers (
    challenge  TEXT   NOT NULL PRIMARY KEY,
    expires_at BIGINT NOT NULL
);

-- code_hash is HMAC-SHA-256 of the code with a key of the server. A used code is deleted.
CREATE TABLE recovery_codes (
    code_hash  TEXT   NOT NULL PRIMARY KEY,
    account    TEXT   NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL
);
CREATE INDEX recovery_codes_account ON recovery_codes (account);

-- token_hash is SHA-256 of the token in hex: a stolen dump opens no session. data is
-- base64. idle_for: unused for so long, the session ends (0: never). An ended session stays
-- until it would have expired: a request in progress must not write it again.
CREATE TABLE sessions (
    token_hash TEXT   NOT NULL PRIMARY KEY,
    realm      TEXT   NOT NULL DEFAULT 'default',
    data       TEXT   NOT NULL,
    account    TEXT   NOT NULL DEFAULT '',
    expires_at BIGINT NOT NULL,
    door       TEXT   NOT NULL DEFAULT '',
    address    TEXT   NOT NULL DEFAULT '',
    agent      TEXT   NOT NULL DEFAULT '',
    started_at BIGINT NOT NULL DEFAULT 0,
    seen_at    BIGINT NOT NULL DEFAULT 0,
    idle_for   BIGINT NOT NULL DEFAULT 0,
    ended_at   BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sessions_account ON sessions (account);
CREATE INDEX sessions_expires_at ON sessions (expires_at);

-- Verification codes. code_hash is SHA-256 of the code in hex. place and asked_from are
-- keyed digests in hex: '' until a client has used the code, and if no unknown client
-- requested it.
CREATE TABLE verification_codes (
    code_hash  TEXT   NOT NULL PRIMARY KEY,
    realm      TEXT   NOT NULL DEFAULT 'default',
    directory  TEXT   NOT NULL,
    account    TEXT   NOT NULL,
    place      TEXT   NOT NULL DEFAULT '',
    tries      BIGINT NOT NULL DEFAULT 0,
    asked_from TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX verification_codes_account ON verification_codes (account);
CREATE INDEX verification_codes_asked_from ON verification_codes (asked_from);
CREATE INDEX verification_codes_expires_at ON verification_codes (expires_at);

-- Messages to administrators and account owners, until they expire. channel names the
-- sender: alerts/PLACE, notices/REALM, resets/REALM, changes/REALM or codes/REALM. A
-- channel's limits count by subject: the account of a notification, the keyed digest of the
-- IP address that requested a code.
-- body is bounded JSON, or an alert's title once it is sent: no password, address of a
-- channel, code or link. id of a notification is half of the token in its link; the other
-- half is derived from it with the server's keys. lease_until: a node is sending the message.
-- failed_at: the first failed attempt. reported_at: when an alert reported it. sent_at: 0
-- until it is sent.
CREATE TABLE outbox (
    id          TEXT   NOT NULL PRIMARY KEY,
    channel     TEXT   NOT NULL,
    subject     TEXT   NOT NULL DEFAULT '',
    body        TEXT   NOT NULL,
    at          BIGINT NOT NULL,
    due_at      BIGINT NOT NULL,
    expires_at  BIGINT NOT NULL,
    attempts    BIGINT NOT NULL DEFAULT 0,
    lease_until BIGINT NOT NULL DEFAULT 0,
    failed_at   BIGINT NOT NULL DEFAULT 0,
    error       TEXT   NOT NULL DEFAULT '',
    reported_at BIGINT NOT NULL DEFAULT 0,
    sent_at     BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX outbox_sent ON outbox (channel, sent_at, due_at);
CREATE INDEX outbox_subject ON outbox (channel, subject);
CREATE INDEX outbox_expires ON outbox (expires_at);

-- Known clients, one row for each account. account is a keyed digest in hex. clients is
-- base64 of 33 bytes for each client: its keyed digest, 1 if it is known or 2 if its limit is
-- used up, its first and its last use. A row with '@' before the digest is an IP address, and
-- clients are the accounts that have logged in from there. reset_at: device cookies issued at or before it are
-- void (0: never reset). version grows with each change, so that none is lost.
CREATE TABLE known_clients (
    account    TEXT   NOT NULL PRIMARY KEY,
    clients    TEXT   NOT NULL,
    reset_at   BIGINT NOT NULL,
    version    BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX known_clients_changed_at ON known_clients (changed_at);

-- Allowlist and blocklist, one verdict for each range. told: an alert has said that the
-- entry is about to expire.
CREATE TABLE lists (
    id         TEXT   NOT NULL PRIMARY KEY,
    cidr       TEXT   NOT NULL UNIQUE,
    verdict    TEXT   NOT NULL CHECK (verdict IN ('allow', 'block')),
    note       TEXT   NOT NULL DEFAULT '',
    created_by TEXT   NOT NULL DEFAULT '',
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    told       BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX lists_expires_at ON lists (expires_at);

-- Hits of the IP lists in each hour of a day: nodes add to one row.
CREATE TABLE list_hits (
    realm   TEXT   NOT NULL,
    list    TEXT   NOT NULL,
    hour    BIGINT NOT NULL,
    met     BIGINT NOT NULL,
    stopped BIGINT NOT NULL,
    PRIMARY KEY (realm, list, hour)
);

-- The last override of CAPTCHA mode, one for each realm; state '' ends it. id tells two
-- overrides apart.
CREATE TABLE mode_words (
    realm TEXT   NOT NULL PRIMARY KEY,
    id    TEXT   NOT NULL,
    state TEXT   NOT NULL CHECK (state IN ('on', 'off', '')),
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

-- The learned baseline, a small JSON text by name ("default/normal").
CREATE TABLE mode_state (
    name       TEXT   NOT NULL PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);

-- Administrators' overrides of limits, one for each subject or for all. until is 0 for an
-- override without an end. limits has other limits than the configured ones, as in the
-- configuration; then enforce is not used.
CREATE TABLE policy_overrides (
    realm     TEXT   NOT NULL,
    limit_set TEXT   NOT NULL,
    enforce   BIGINT NOT NULL,
    limits    TEXT   NOT NULL DEFAULT '',
    who       TEXT   NOT NULL,
    why       TEXT   NOT NULL,
    since     BIGINT NOT NULL,
    until     BIGINT NOT NULL,
    PRIMARY KEY (realm, limit_set)
);

-- How many attempts, accounts and IP addresses each limit affected in each hour of a day,
-- by node. No names: distinct ones are counted in sketches.
CREATE TABLE policy_effects (
    realm      TEXT   NOT NULL,
    hour       BIGINT NOT NULL,
    limit_set  TEXT   NOT NULL,
    limit_text TEXT   NOT NULL,
    monitored  BIGINT NOT NULL,
    node       TEXT   NOT NULL,
    counts     TEXT   NOT NULL, -- JSON
    PRIMARY KEY (realm, hour, limit_set, limit_text, monitored, node)
);

-- Data that nodes hold in memory, by name, and how often it has changed. The number grows
-- in the transaction of the change: a node that reads the number reads the change.
CREATE TABLE changes (
    name    TEXT   NOT NULL PRIMARY KEY,
    version BIGINT NOT NULL
);

-- Values that are the same on all nodes, by name.
CREATE TABLE settings (
    name       TEXT   NOT NULL PRIMARY KEY,
    value      TEXT   NOT NULL,
    changed_at BIGINT NOT NULL
);

-- Bearer tokens: with scopes for the administration's API, without for the decision API.
-- token_hash is SHA-256 of the token in hex. A revoked token is deleted; the audit log has
-- it. maker is the administrator who made it ('': a command on the server). confined: with
-- scopes, valid for its realm alone.
CREATE TABLE api_tokens (
    token_hash TEXT    NOT NULL PRIMARY KEY,
    realm      TEXT    NOT NULL,
    name       TEXT    NOT NULL,
    created_by TEXT    NOT NULL DEFAULT '',
    created_at BIGINT  NOT NULL,
    scopes     TEXT    NOT NULL DEFAULT '',
    maker      TEXT    NOT NULL DEFAULT '',
    expires_at BIGINT  NOT NULL DEFAULT 0,
    used_at    BIGINT  NOT NULL DEFAULT 0,
    confined   BOOLEAN NOT NULL DEFAULT FALSE,
    UNIQUE (realm, name)
);

-- The alerts of the overview: one row for alerts of a kind that are raised together. body
-- is plain text; a client's input in it is escaped.
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

-- ended_at is 0 while an attack runs; then there is one of a kind and subject, however many
-- nodes detect it. summary is JSON of all nodes' records once it is over: no password, and
-- nothing that reveals one. part_of is the attack on the whole site that continues it. due is
-- the report that the record waits for ('start', 'end'), and alerted is 1 if the start of an
-- attack on the whole site was reported.
CREATE TABLE attacks (
    id       TEXT   NOT NULL PRIMARY KEY,
    realm    TEXT   NOT NULL,
    kind     TEXT   NOT NULL CHECK (kind IN ('site', 'account', 'address', 'spray')),
    subject  TEXT   NOT NULL DEFAULT '',
    began_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    ended_at BIGINT NOT NULL DEFAULT 0,
    part_of  TEXT   NOT NULL DEFAULT '',
    summary  TEXT   NOT NULL DEFAULT '',
    detected_at BIGINT NOT NULL DEFAULT 0,
    due         TEXT   NOT NULL DEFAULT '',
    alerted     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX attacks_running ON attacks (realm, kind, subject) WHERE ended_at = 0;
CREATE INDEX attacks_began ON attacks (realm, began_at);
CREATE INDEX attacks_due ON attacks (due);

-- The record of each process: JSON that it replaces, so that a repeated write counts
-- nothing twice. The sum is in attacks.summary when the attack is over.
CREATE TABLE attack_parts (
    attack TEXT NOT NULL REFERENCES attacks (id) ON DELETE CASCADE,
    node   TEXT NOT NULL,
    data   TEXT NOT NULL,
    PRIMARY KEY (attack, node)
);

-- Logins from new clients during the attack. why has codes, separated by commas; '' if
-- nothing but the new client was unusual.
CREATE TABLE attack_logins (
    attack   TEXT   NOT NULL REFERENCES attacks (id) ON DELETE CASCADE,
    account  TEXT   NOT NULL,
    address  TEXT   NOT NULL,
    door     TEXT   NOT NULL DEFAULT '',
    why      TEXT   NOT NULL DEFAULT '',
    failures BIGINT NOT NULL DEFAULT 0,
    first_at BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    PRIMARY KEY (attack, account, address)
);

-- The last operation of each kind on an account, for any attack.
CREATE TABLE attack_operations (
    realm   TEXT   NOT NULL,
    account TEXT   NOT NULL,
    what    TEXT   NOT NULL CHECK (what IN ('sessions', 'known-clients', 'password')),
    at      BIGINT NOT NULL,
    who     TEXT   NOT NULL,
    why     TEXT   NOT NULL DEFAULT '',
    PRIMARY KEY (realm, account, what)
);
