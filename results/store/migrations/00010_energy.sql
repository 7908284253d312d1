-- What the devices of a live run used. NULL in older rows and in simulated runs.
-- +goose Up
ALTER TABLE run ADD COLUMN energy_j REAL CHECK (energy_j >= 0);
ALTER TABLE run ADD COLUMN energy_idle_j REAL CHECK (energy_idle_j >= 0);
ALTER TABLE run ADD COLUMN energy_per_ok_job_j REAL CHECK (energy_per_ok_job_j >= 0);
ALTER TABLE run ADD COLUMN energy_source TEXT CHECK (energy_source IN ('counter', 'power', 'none'));
ALTER TABLE device ADD COLUMN energy_j REAL CHECK (energy_j >= 0);
ALTER TABLE device ADD COLUMN energy_idle_j REAL CHECK (energy_idle_j >= 0);
ALTER TABLE device ADD COLUMN energy_source TEXT CHECK (energy_source IN ('counter', 'power', 'none'));
ALTER TABLE job ADD COLUMN energy_estimate_j REAL CHECK (energy_estimate_j >= 0);
