-- A traced run has up to millions of launches of few kernels, so what launches have in common
-- is stored once. Users read the view kernel. Tables whose names begin with an underscore are
-- not part of the interface.
-- +goose Up
ALTER TABLE run ADD COLUMN traced INTEGER NOT NULL DEFAULT 0 CHECK (traced IN (0, 1));
ALTER TABLE run ADD COLUMN tracer_processes INTEGER CHECK (tracer_processes >= 0);
ALTER TABLE run ADD COLUMN tracer_kernels INTEGER CHECK (tracer_kernels >= 0);
ALTER TABLE run ADD COLUMN tracer_copies INTEGER CHECK (tracer_copies >= 0);
ALTER TABLE run ADD COLUMN tracer_lost_records INTEGER CHECK (tracer_lost_records >= 0);
ALTER TABLE run ADD COLUMN tracer_cut_processes INTEGER CHECK (tracer_cut_processes >= 0);
ALTER TABLE run ADD COLUMN tracer_untraced_jobs INTEGER CHECK (tracer_untraced_jobs >= 0);

CREATE TABLE _kernel_shape (
    run_id               INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    shape_id             INTEGER NOT NULL CHECK (shape_id >= 0),
    name                 TEXT    NOT NULL,
    grid                 TEXT    NOT NULL,
    block                TEXT    NOT NULL,
    registers            INTEGER CHECK (registers >= 0),
    static_shared_bytes  INTEGER CHECK (static_shared_bytes >= 0),
    dynamic_shared_bytes INTEGER CHECK (dynamic_shared_bytes >= 0),
    PRIMARY KEY (run_id, shape_id)
) STRICT, WITHOUT ROWID;

-- busy_s is NULL where the kernel was busy from start to end.
CREATE TABLE _launch (
    run_id       INTEGER NOT NULL,
    job_index    INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL CHECK (ordinal >= 0),
    shape_id     INTEGER NOT NULL,
    task_seq     INTEGER,
    device_index INTEGER NOT NULL,
    start_s      REAL    NOT NULL,
    end_s        REAL    NOT NULL CHECK (end_s >= start_s),
    busy_s       REAL    CHECK (busy_s >= 0),
    pid          INTEGER,
    stream       INTEGER,
    PRIMARY KEY (run_id, job_index, ordinal),
    FOREIGN KEY (run_id, shape_id) REFERENCES _kernel_shape (run_id, shape_id) ON DELETE CASCADE,
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

INSERT INTO _kernel_shape
SELECT run_id, row_number() OVER (PARTITION BY run_id ORDER BY name, grid, block) - 1, name, grid, block, NULL, NULL, NULL
FROM (SELECT DISTINCT run_id, name, grid, block FROM kernel);

INSERT INTO _launch
SELECT k.run_id, k.job_index, k.ordinal, s.shape_id, k.task_seq, k.device_index, k.start_s, k.end_s, k.busy_s, NULL, NULL
FROM kernel k JOIN _kernel_shape s USING (run_id, name, grid, block);

DROP TABLE kernel;

CREATE VIEW kernel AS
SELECT l.run_id, l.job_index, l.ordinal, l.task_seq, l.device_index, s.name, s.grid, s.block, l.start_s, l.end_s,
       CAST(coalesce(l.busy_s, l.end_s - l.start_s) AS REAL) AS busy_s,
       s.registers, s.static_shared_bytes, s.dynamic_shared_bytes, l.pid, l.stream
FROM _launch l JOIN _kernel_shape s ON s.run_id = l.run_id AND s.shape_id = l.shape_id;

CREATE TABLE copy (
    run_id       INTEGER NOT NULL,
    job_index    INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL CHECK (ordinal >= 0),
    device_index INTEGER NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind <> ''),
    bytes        INTEGER NOT NULL CHECK (bytes >= 0),
    start_s      REAL    NOT NULL,
    end_s        REAL    NOT NULL CHECK (end_s >= start_s),
    pid          INTEGER NOT NULL,
    stream       INTEGER NOT NULL,
    PRIMARY KEY (run_id, job_index, ordinal),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
