-- A row for each process of a job that has several ranks.
-- +goose Up
CREATE TABLE rank (
    run_id        INTEGER NOT NULL,
    job_index     INTEGER NOT NULL,
    rank          INTEGER NOT NULL CHECK (rank >= 0),
    pid           INTEGER CHECK (pid > 0),
    start_s       REAL    CHECK (start_s >= 0),
    end_s         REAL    CHECK (end_s >= start_s),
    user_s        REAL    CHECK (user_s >= 0),
    sys_s         REAL    CHECK (sys_s >= 0),
    max_rss_bytes INTEGER CHECK (max_rss_bytes >= 0),
    outcome       TEXT    CHECK (outcome IN ('ok', 'oom', 'fault', 'collateral', 'refused', 'crash', 'timeout', 'wrong',
                                             'cancelled', 'not-started', 'fault-suspect', 'not-scheduled', 'lost',
                                             'ok-after-oom')),
    exit_status   INTEGER,
    signal        TEXT,
    detail        TEXT    NOT NULL,
    PRIMARY KEY (run_id, job_index, rank),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
