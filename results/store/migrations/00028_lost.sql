-- How long kernels had run that were stopped, by swap, job and run. NULL if it is not known, of jobs also if it is nothing, and in
-- older rows.
-- +goose Up
ALTER TABLE swap ADD COLUMN lost_s REAL CHECK (lost_s >= 0);
ALTER TABLE job ADD COLUMN lost_s REAL CHECK (lost_s >= 0);
ALTER TABLE run ADD COLUMN swap_lost_s REAL CHECK (swap_lost_s >= 0);
