-- +goose Up
-- Wrong and right passwords of one account, newest first: who asks why somebody cannot
-- log in waits for them, and the rows of attempts that were stopped can be millions.
CREATE INDEX audit_succeeded ON audit (realm, account, at) WHERE decision = 'succeeded';
CREATE INDEX audit_failed ON audit (realm, account, at) WHERE decision = 'failed';

-- +goose Down
DROP INDEX audit_failed;
DROP INDEX audit_succeeded;
