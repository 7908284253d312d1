-- The devices of a job that has several at once, such as 0,2. NULL: it has one, or none.
-- +goose Up
ALTER TABLE job ADD COLUMN devices TEXT;
