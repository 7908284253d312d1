-- Adds two outcomes: fault-suspect, and not-started, which is not a crash. SQLite can remove a
-- column's CHECK only together with the column.
-- +goose Up
ALTER TABLE job ADD COLUMN ended TEXT CHECK (ended IN ('ok', 'oom', 'fault', 'collateral', 'refused', 'crash',
                                                       'timeout', 'wrong', 'cancelled', 'not-started', 'fault-suspect'));
UPDATE job SET ended = outcome;
ALTER TABLE job DROP COLUMN outcome;
ALTER TABLE job RENAME COLUMN ended TO outcome;

ALTER TABLE run ADD COLUMN jobs_not_started INTEGER CHECK (jobs_not_started >= 0);
UPDATE run SET jobs_not_started = 0 WHERE jobs_cancelled IS NOT NULL;
