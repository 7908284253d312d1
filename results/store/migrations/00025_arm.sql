-- The name that the user gave the run's scheduler with its parameters. NULL without, and in older rows.
-- +goose Up
ALTER TABLE run ADD COLUMN arm TEXT CHECK (arm <> '');
