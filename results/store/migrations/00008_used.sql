-- What a job's tasks had in use, beside what its mix declares. NULL in rows from before.
-- +goose Up
ALTER TABLE job ADD COLUMN used_bytes INTEGER CHECK (used_bytes >= 0);
