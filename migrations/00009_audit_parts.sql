-- +goose Up
-- last_at is the last of the like events that a row stands for, 0 if there was
-- one. The index is for the purge: its expression is that of internal/audit.
ALTER TABLE audit ADD COLUMN last_at BIGINT NOT NULL DEFAULT 0;
CREATE INDEX audit_part ON audit ((CASE WHEN kind NOT IN ('attempt', 'more') THEN 3 WHEN decision = 'succeeded' THEN 2 WHEN decision = 'failed' THEN 1 ELSE 0 END), id);

-- +goose Down
DROP INDEX audit_part;
ALTER TABLE audit DROP COLUMN last_at;
