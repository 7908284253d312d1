-- What of its caller and its machine can change a run, as a JSON object, and why a run is doubtful, a reason on each line.
-- Earlier runs have neither.
-- +goose Up
ALTER TABLE run ADD COLUMN surroundings TEXT;
ALTER TABLE run ADD COLUMN doubts TEXT NOT NULL DEFAULT '';
