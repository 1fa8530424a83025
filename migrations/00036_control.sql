-- +goose Up
-- What each process has seen of an account that is guessed at, or of an address that
-- guesses, before that is an attack: the nodes add up what is too little on each. A row is
-- its node's own; one that is older than the quiet after which an attack is over counts
-- nothing.
CREATE TABLE attack_runs (
    realm    TEXT   NOT NULL,
    kind     TEXT   NOT NULL CHECK (kind IN ('account', 'address')),
    subject  TEXT   NOT NULL,
    node     TEXT   NOT NULL,
    attempts BIGINT NOT NULL,
    good     BIGINT NOT NULL,
    last_at  BIGINT NOT NULL,
    PRIMARY KEY (realm, kind, subject, node)
);
CREATE INDEX attack_runs_last ON attack_runs (last_at);

-- +goose Down
DROP TABLE attack_runs;
