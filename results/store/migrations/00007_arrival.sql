-- Jobs of a mix arrive together, or group by group. NULL in older rows, whose jobs all arrived
-- with the batch.
-- +goose Up
ALTER TABLE job ADD COLUMN arrival_s REAL CHECK (arrival_s >= 0);
ALTER TABLE job DROP COLUMN turnaround_s;
ALTER TABLE job ADD COLUMN turnaround_s REAL GENERATED ALWAYS AS (end_s - coalesce(arrival_s, 0.0)) VIRTUAL;
