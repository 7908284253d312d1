-- Adds three outcomes: not-scheduled and lost, which are crashes, and ok-after-oom, which counts as ok.
-- Earlier runs have none of them. SQLite can remove a column's CHECK only together with the column.
-- +goose Up
ALTER TABLE job ADD COLUMN ended TEXT CHECK (ended IN ('ok', 'oom', 'fault', 'collateral', 'refused', 'crash',
                                                       'timeout', 'wrong', 'cancelled', 'not-started', 'fault-suspect',
                                                       'not-scheduled', 'lost', 'ok-after-oom'));
UPDATE job SET ended = outcome;
ALTER TABLE job DROP COLUMN outcome;
ALTER TABLE job RENAME COLUMN ended TO outcome;
