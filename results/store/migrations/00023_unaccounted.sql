-- The most memory that a job's processes had on devices at one time beside what they were charged. NULL if that was not compared, and
-- in older rows.
-- +goose Up
ALTER TABLE job ADD COLUMN unaccounted_bytes INTEGER CHECK (unaccounted_bytes >= 0);
