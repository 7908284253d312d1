-- Runs and sweeps have names that hold in every store, so that stores can be merged. The function
-- case_uid is the program's (uid.go). A run knows its cell, because several runs of a cell can come
-- together: the run that counts is the cell's, and other complete runs are duplicates.
-- +goose Up
ALTER TABLE sweep ADD COLUMN uid TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN uid TEXT NOT NULL DEFAULT '';
ALTER TABLE run ADD COLUMN cell_position INTEGER CHECK (cell_position >= 0);
ALTER TABLE run ADD COLUMN duplicate INTEGER NOT NULL DEFAULT 0 CHECK (duplicate IN (0, 1));

UPDATE sweep SET uid = case_uid('old sweep', id, name, tag, spec, node, mode, seed, created_at);

-- A cell's seed tells the earlier runs of the cell from those of others.
CREATE INDEX cell_by_seed ON cell (sweep_id, seed);
UPDATE run SET cell_position = (SELECT min(position) FROM cell
    WHERE cell.sweep_id = run.sweep_id AND cell.seed = run.seed AND cell.mix = run.mix AND cell.repetition = run.repetition);
UPDATE run SET cell_position = cell.position FROM cell WHERE cell.run_id = run.id;
DROP INDEX cell_by_seed;

UPDATE run SET uid = case_uid('old run', id, mix, scheduler, parameters, probe, node, mode, repetition, seed, configuration,
    version, revision, host, pid, started_at);
UPDATE run SET uid = case_uid('run', sweep.uid, cell.position)
    FROM cell JOIN sweep ON sweep.id = cell.sweep_id
    WHERE cell.run_id = run.id AND run.status = 'complete' AND run.mode = 'sim';

CREATE UNIQUE INDEX sweep_by_uid ON sweep (uid);
CREATE UNIQUE INDEX run_by_uid ON run (uid);
CREATE INDEX run_by_cell ON run (sweep_id, cell_position);
