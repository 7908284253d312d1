-- Whose job it is, and the credits of that user in the mix. NULL where the mix does not say, and in older rows.
-- +goose Up
ALTER TABLE job ADD COLUMN user_name TEXT CHECK (user_name <> '');
ALTER TABLE job ADD COLUMN credits INTEGER CHECK (credits > 0);
