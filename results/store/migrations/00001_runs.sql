-- docs/reference/store.md describes every column; a test compares the two.
-- +goose Up
PRAGMA application_id = 1128354629; -- "CASE"

CREATE TABLE run (
    id                             INTEGER PRIMARY KEY AUTOINCREMENT,
    mix                            TEXT    NOT NULL CHECK (mix <> ''),
    mix_source                     TEXT    NOT NULL,
    scheduler                      TEXT    NOT NULL CHECK (scheduler <> ''),
    parameters                     TEXT    NOT NULL,
    node                           TEXT    NOT NULL CHECK (node <> ''),
    mode                           TEXT    NOT NULL CHECK (mode IN ('live', 'sim')),
    suite                          TEXT    NOT NULL,
    repetition                     INTEGER NOT NULL CHECK (repetition >= 0),
    seed                           TEXT    NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9]*'),
    workers                        INTEGER NOT NULL CHECK (workers >= 0),
    started_at                     TEXT    CHECK (mode = 'live' OR started_at IS NULL),
    status                         TEXT    NOT NULL CHECK (status IN ('running', 'complete', 'interrupted')),
    jobs                           INTEGER NOT NULL CHECK (jobs >= 0),
    jobs_ok                        INTEGER CHECK (jobs_ok >= 0),
    jobs_oom                       INTEGER CHECK (jobs_oom >= 0 AND jobs_oom <= jobs_crashed),
    jobs_crashed                   INTEGER CHECK (jobs_crashed >= 0),
    jobs_cancelled                 INTEGER CHECK (jobs_cancelled >= 0),
    makespan_s                     REAL    CHECK (makespan_s >= 0),
    throughput_jobs_per_s          REAL    CHECK (throughput_jobs_per_s >= 0),
    attempted_throughput_jobs_per_s REAL   CHECK (attempted_throughput_jobs_per_s >= 0),
    turnaround_mean_s              REAL    CHECK (turnaround_mean_s >= 0),
    turnaround_p95_s               REAL    CHECK (turnaround_p95_s >= 0),
    wait_mean_s                    REAL    CHECK (wait_mean_s >= 0),
    utilization_mean               REAL    CHECK (utilization_mean >= 0),
    utilization_peak               REAL    CHECK (utilization_peak >= utilization_mean),
    kernel_utilization_mean        REAL    CHECK (kernel_utilization_mean >= 0),
    sampler_period_s               REAL    CHECK (sampler_period_s >= 0),
    sampler_samples                INTEGER CHECK (sampler_samples >= 0),
    sampler_missed_deadlines       INTEGER CHECK (sampler_missed_deadlines >= 0),
    sampler_longest_gap_s          REAL    CHECK (sampler_longest_gap_s >= 0),
    sampler_cpu_s                  REAL    CHECK (sampler_cpu_s >= 0),
    sampler_errors                 INTEGER CHECK (sampler_errors >= 0),
    sampler_first_error            TEXT,
    version                        TEXT    NOT NULL,
    revision                       TEXT    NOT NULL,
    configuration                  TEXT    NOT NULL,
    host                           TEXT    NOT NULL,
    pid                            INTEGER CHECK (pid > 0),
    kernel                         TEXT    NOT NULL,
    cpu                            TEXT    NOT NULL,
    cores                          INTEGER NOT NULL,
    memory_bytes                   INTEGER NOT NULL,
    driver                         TEXT,
    cuda                           TEXT,
    binaries                       TEXT    NOT NULL
) STRICT;

CREATE INDEX run_by_arm ON run (mix, scheduler, parameters);

CREATE TABLE device (
    run_id              INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    device_index        INTEGER NOT NULL CHECK (device_index >= 0),
    uuid                TEXT    NOT NULL,
    name                TEXT    NOT NULL,
    memory_bytes        INTEGER NOT NULL CHECK (memory_bytes >= 0),
    used_at_start_bytes INTEGER NOT NULL CHECK (used_at_start_bytes >= 0),
    capacity_bytes      INTEGER NOT NULL CHECK (capacity_bytes >= 0),
    context_bytes       INTEGER NOT NULL CHECK (context_bytes >= 0),
    sms                 INTEGER NOT NULL CHECK (sms >= 0),
    warps_per_sm        INTEGER NOT NULL CHECK (warps_per_sm >= 0),
    blocks_per_sm       INTEGER NOT NULL CHECK (blocks_per_sm >= 0),
    sm_clock_start_hz   INTEGER CHECK (sm_clock_start_hz >= 0),
    sm_clock_end_hz     INTEGER CHECK (sm_clock_end_hz >= 0),
    throttle_start      TEXT,
    throttle_end        TEXT,
    refresh_s           REAL    CHECK (refresh_s >= 0),
    peak_used_bytes     INTEGER CHECK (peak_used_bytes >= 0),
    utilization_mean    REAL    CHECK (utilization_mean >= 0),
    utilization_peak    REAL    CHECK (utilization_peak >= utilization_mean),
    resident_mean       REAL    CHECK (resident_mean >= 0),
    PRIMARY KEY (run_id, device_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE job (
    run_id          INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    job_index       INTEGER NOT NULL CHECK (job_index >= 0),
    name            TEXT    NOT NULL,
    command         TEXT    NOT NULL,
    class           TEXT    NOT NULL,
    footprint_bytes INTEGER CHECK (footprint_bytes >= 0),
    device_index    INTEGER,
    start_s         REAL    CHECK (start_s >= 0),
    end_s           REAL    CHECK (end_s >= 0 AND (start_s IS NULL OR end_s >= start_s)),
    turnaround_s    REAL    GENERATED ALWAYS AS (end_s) VIRTUAL,
    wait_s          REAL    CHECK (wait_s >= 0),
    user_s          REAL    CHECK (user_s >= 0),
    sys_s           REAL    CHECK (sys_s >= 0),
    max_rss_bytes   INTEGER CHECK (max_rss_bytes >= 0),
    outcome         TEXT    CHECK (outcome IN ('ok', 'oom', 'fault', 'collateral', 'refused', 'crash',
                                               'timeout', 'wrong', 'cancelled')),
    exit_status     INTEGER,
    signal          TEXT,
    detail          TEXT    NOT NULL,
    stderr_tail     TEXT    NOT NULL,
    PRIMARY KEY (run_id, job_index),
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE task (
    run_id            INTEGER NOT NULL,
    job_index         INTEGER NOT NULL,
    task_seq          INTEGER NOT NULL CHECK (task_seq >= 0),
    bytes             INTEGER NOT NULL CHECK (bytes >= 0),
    heap_bytes        INTEGER NOT NULL CHECK (heap_bytes >= 0),
    grown_bytes       INTEGER NOT NULL CHECK (grown_bytes >= 0),
    blocks            INTEGER NOT NULL CHECK (blocks >= 0),
    threads_per_block INTEGER NOT NULL CHECK (threads_per_block >= 0),
    device_index      INTEGER,
    submit_s          REAL    NOT NULL CHECK (submit_s >= 0),
    grant_s           REAL    CHECK (grant_s >= submit_s),
    release_s         REAL    CHECK (release_s >= submit_s),
    refusal           TEXT,
    passed            INTEGER NOT NULL CHECK (passed >= 0),
    PRIMARY KEY (run_id, job_index, task_seq),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- task_seq has no foreign key: a process-bound scheduler traces kernels of jobs
-- that have no tasks.
CREATE TABLE kernel (
    run_id       INTEGER NOT NULL,
    job_index    INTEGER NOT NULL,
    ordinal      INTEGER NOT NULL CHECK (ordinal >= 0),
    task_seq     INTEGER NOT NULL,
    device_index INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    grid         TEXT    NOT NULL,
    block        TEXT    NOT NULL,
    start_s      REAL    NOT NULL,
    end_s        REAL    NOT NULL CHECK (end_s >= start_s),
    busy_s       REAL    NOT NULL CHECK (busy_s >= 0),
    PRIMARY KEY (run_id, job_index, ordinal),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE utilization (
    run_id       INTEGER NOT NULL,
    device_index INTEGER NOT NULL,
    series       TEXT    NOT NULL CHECK (series <> ''),
    first_s      REAL    NOT NULL,
    last_s       REAL    NOT NULL CHECK (last_s >= first_s),
    samples      INTEGER NOT NULL CHECK (samples >= 1),
    value        REAL    CHECK (value >= 0),
    PRIMARY KEY (run_id, device_index, series, first_s),
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    run_id       INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
    event_seq    INTEGER NOT NULL CHECK (event_seq >= 0),
    at_s         REAL    NOT NULL,
    kind         TEXT    NOT NULL CHECK (kind <> ''),
    job_index    INTEGER,
    device_index INTEGER,
    detail       TEXT    NOT NULL,
    PRIMARY KEY (run_id, event_seq),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
