-- The memory that a job's tasks used, beside what its mix declares. NULL in older rows.
-- +goose Up
ALTER TABLE job ADD COLUMN used_bytes INTEGER CHECK (used_bytes >= 0);
