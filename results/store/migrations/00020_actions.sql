-- Adds three actions: advise, move and stop. Earlier runs have none of them. SQLite can remove a column's CHECK only
-- together with the column.
-- +goose Up
ALTER TABLE swap ADD COLUMN asked TEXT CHECK (asked IN ('yield', 'evict', 'advise', 'move', 'stop'));
UPDATE swap SET asked = action;
ALTER TABLE swap DROP COLUMN action;
ALTER TABLE swap RENAME COLUMN asked TO action;
