-- What a run's scheduler expected of its jobs. A prediction is known before the job has a row, so
-- only its run is a foreign key.
-- +goose Up
CREATE TABLE prediction (
    run_id    INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    job_index INTEGER NOT NULL CHECK (job_index >= 0),
    before_s  REAL    NOT NULL CHECK (before_s >= 0),
    held_s    REAL    NOT NULL CHECK (held_s >= 0),
    after_s   REAL    NOT NULL CHECK (after_s >= 0),
    bytes     INTEGER NOT NULL CHECK (bytes >= 0),
    kernels   REAL    CHECK (kernels BETWEEN 0 AND 1),
    sms       REAL    CHECK (sms BETWEEN 0 AND 1),
    source    TEXT    NOT NULL CHECK (source <> ''),
    PRIMARY KEY (run_id, job_index)
) STRICT, WITHOUT ROWID;
