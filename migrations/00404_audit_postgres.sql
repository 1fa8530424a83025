-- +goose Up
-- See 00403. The page of all rows needs their order across parts, so the key is id alone.
ALTER TABLE audit ADD COLUMN place TEXT COLLATE "C" NOT NULL DEFAULT '';
DROP INDEX audit_address;
DROP INDEX audit_succeeded;
DROP INDEX audit_failed;
DROP INDEX audit_rest;
ALTER TABLE audit DROP CONSTRAINT audit_pkey;
ALTER TABLE audit ADD PRIMARY KEY (id);
CREATE INDEX audit_part ON audit (part, id);
CREATE INDEX audit_account ON audit (account, part, realm, id);
CREATE INDEX audit_place ON audit (place, realm, id);
