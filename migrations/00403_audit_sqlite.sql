-- +goose Up
-- place is a sortable form of address (internal/audit). Rows from before have none: a search by
-- IP address does not find them. Each index ends with the row number, in the order of time.
ALTER TABLE audit ADD COLUMN place TEXT NOT NULL DEFAULT '';
DROP INDEX audit_address;
DROP INDEX audit_succeeded;
DROP INDEX audit_failed;
DROP INDEX audit_rest;
CREATE INDEX audit_account ON audit (account, part, realm);
CREATE INDEX audit_place ON audit (place, realm);
