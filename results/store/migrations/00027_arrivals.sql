-- When the jobs of an open load arrived, and what it says. NULL where jobs arrived together or group by group, and in older rows.
-- +goose Up
ALTER TABLE run ADD COLUMN arrivals TEXT CHECK (arrivals <> '');
ALTER TABLE run ADD COLUMN steady_throughput_jobs_per_s REAL CHECK (steady_throughput_jobs_per_s >= 0);
ALTER TABLE run ADD COLUMN backlog_mean REAL CHECK (backlog_mean >= 0);
ALTER TABLE run ADD COLUMN backlog_peak INTEGER CHECK (backlog_peak >= 0);
ALTER TABLE run ADD COLUMN backlog_growth REAL;
