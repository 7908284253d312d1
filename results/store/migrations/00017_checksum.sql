-- A complete run carries a checksum of its row and of its jobs' (checksum.go). Earlier runs have none. A later
-- migration may add columns. One that changes what is stored in the columns of the checksum has to make it anew.
-- +goose Up
ALTER TABLE run ADD COLUMN checksum TEXT;
