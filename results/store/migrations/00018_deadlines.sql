-- How long after its arrival a job should have ended, and the share of such jobs that did. NULL without a deadline, and in
-- older rows.
-- +goose Up
ALTER TABLE run ADD COLUMN deadlines_met REAL CHECK (deadlines_met BETWEEN 0 AND 1);
ALTER TABLE job ADD COLUMN deadline_s REAL CHECK (deadline_s > 0);
