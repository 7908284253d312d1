-- How the jobs' programs ask for tasks. All older runs are lazy.
-- +goose Up
ALTER TABLE run ADD COLUMN probe TEXT NOT NULL DEFAULT 'lazy' CHECK (probe IN ('lazy', 'static', 'explicit'));
ALTER TABLE cell ADD COLUMN probe TEXT NOT NULL DEFAULT 'lazy' CHECK (probe IN ('lazy', 'static', 'explicit'));
