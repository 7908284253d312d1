-- How often a job was started again to end a deadlock. NULL if it never was, and in older rows.
-- +goose Up
ALTER TABLE job ADD COLUMN restarts INTEGER CHECK (restarts > 0);
