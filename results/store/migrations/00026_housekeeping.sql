-- Runs that a user has excluded, and what users have noted of runs and sweeps. None is of a checksum.
-- +goose Up
ALTER TABLE run ADD COLUMN excluded INTEGER NOT NULL DEFAULT 0 CHECK (excluded IN (0, 1));
ALTER TABLE run ADD COLUMN remark TEXT CHECK (remark <> '');
ALTER TABLE sweep ADD COLUMN remark TEXT CHECK (remark <> '');
