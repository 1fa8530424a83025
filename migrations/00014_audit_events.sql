-- +goose Up
-- Rows about limits on events can be caused by anybody, and so belong to what is
-- deleted first. The index's expression is that of internal/audit.
DROP INDEX audit_part;
CREATE INDEX audit_part ON audit ((CASE WHEN kind NOT IN ('attempt', 'event', 'more') THEN 3 WHEN decision = 'succeeded' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END), id);

-- +goose Down
DROP INDEX audit_part;
CREATE INDEX audit_part ON audit ((CASE WHEN kind NOT IN ('attempt', 'more') THEN 3 WHEN decision = 'succeeded' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END), id);
