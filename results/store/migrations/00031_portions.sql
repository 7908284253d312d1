-- A portion of a job has a row as a rank has, with the device that it ran on.
-- +goose Up
ALTER TABLE rank ADD COLUMN portion INTEGER NOT NULL DEFAULT 0 CHECK (portion IN (0, 1));
ALTER TABLE rank ADD COLUMN device_index INTEGER CHECK (device_index >= 0);
