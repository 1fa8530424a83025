-- +goose Up
-- Rows of all parts share the pages of an index of id alone. When the guesses in it are
-- deleted and the sums are not, a page keeps a few entries and is never filled again: that
-- index grew without an end while the number of rows did not. By part, pages empty as a
-- whole. The part comes from the row, so id stays as good as unique (see Log.id).
ALTER TABLE audit DROP CONSTRAINT audit_pkey;
DROP INDEX audit_part;
ALTER TABLE audit ADD PRIMARY KEY (part, id);

-- +goose Down
ALTER TABLE audit DROP CONSTRAINT audit_pkey;
ALTER TABLE audit ADD PRIMARY KEY (id);
CREATE INDEX audit_part ON audit (part, id);
