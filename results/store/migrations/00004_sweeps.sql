-- A sweep is planned as a whole before its first run: a cell for each run, in the
-- order of execution. A cell whose run is complete is done.
-- +goose Up
CREATE TABLE sweep (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    name        TEXT,
    tag         TEXT,
    spec        TEXT    NOT NULL,
    node        TEXT    NOT NULL CHECK (node <> ''),
    mode        TEXT    NOT NULL CHECK (mode IN ('live', 'sim')),
    seed        TEXT    NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9]*'),
    repetitions INTEGER NOT NULL CHECK (repetitions >= 1),
    created_at  TEXT    CHECK (mode = 'live' OR created_at IS NULL),
    status      TEXT    NOT NULL CHECK (status IN ('planned', 'running', 'complete', 'interrupted')),
    host        TEXT,
    pid         INTEGER CHECK (pid > 0 AND (pid IS NOT NULL) = (status = 'running')),
    note        TEXT
) STRICT;

CREATE TABLE cell (
    sweep_id   INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
    position   INTEGER NOT NULL CHECK (position >= 0),
    mix        TEXT    NOT NULL CHECK (mix <> ''),
    mix_source TEXT    NOT NULL,
    scheduler  TEXT    NOT NULL CHECK (scheduler <> ''),
    repetition INTEGER NOT NULL CHECK (repetition >= 1),
    warmup     INTEGER NOT NULL CHECK (warmup IN (0, 1)),
    seed       TEXT    NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9]*'),
    run_id     INTEGER REFERENCES run (id) ON DELETE SET NULL,
    PRIMARY KEY (sweep_id, position)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX cell_by_run ON cell (run_id);

ALTER TABLE run ADD COLUMN sweep_id INTEGER REFERENCES sweep (id) ON DELETE SET NULL;
ALTER TABLE run ADD COLUMN warmup INTEGER NOT NULL DEFAULT 0 CHECK (warmup IN (0, 1));
ALTER TABLE run ADD COLUMN tag TEXT;

CREATE INDEX run_by_sweep ON run (sweep_id);
CREATE INDEX run_by_tag ON run (tag);
