-- Allows three more actions: advise, move and stop. SQLite can change a column's CHECK only together with its table, and
-- the columns keep their order, which exports show.
-- +goose Up
CREATE TABLE swap_new (
    run_id         INTEGER NOT NULL,
    job_index      INTEGER NOT NULL,
    ordinal        INTEGER NOT NULL CHECK (ordinal >= 0),
    task_seq       INTEGER NOT NULL,
    device_index   INTEGER NOT NULL,
    direction      TEXT    NOT NULL CHECK (direction IN ('out', 'in')),
    action         TEXT    CHECK ((action IS NULL) = (direction = 'in') AND action IN ('yield', 'evict', 'advise', 'move', 'stop')),
    outcome        TEXT    NOT NULL CHECK (outcome IN ('done', 'busy', 'unable')),
    why            TEXT,
    start_s        REAL    NOT NULL,
    end_s          REAL    NOT NULL CHECK (end_s >= start_s),
    bytes          INTEGER NOT NULL CHECK (bytes >= 0),
    drain_s        REAL    NOT NULL CHECK (drain_s >= 0),
    copy_s         REAL    NOT NULL CHECK (copy_s >= 0),
    bookkeeping_s  REAL    NOT NULL CHECK (bookkeeping_s >= 0),
    resident_bytes INTEGER CHECK (resident_bytes >= 0),
    fixed_bytes    INTEGER CHECK (fixed_bytes BETWEEN 0 AND resident_bytes),
    for_job_index  INTEGER,
    for_task_seq   INTEGER CHECK (for_task_seq IS NULL OR for_job_index IS NOT NULL),
    PRIMARY KEY (run_id, job_index, ordinal),
    FOREIGN KEY (run_id, job_index, task_seq) REFERENCES task (run_id, job_index, task_seq) ON DELETE CASCADE,
    FOREIGN KEY (run_id, for_job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO swap_new SELECT * FROM swap;
DROP TABLE swap;
ALTER TABLE swap_new RENAME TO swap;
