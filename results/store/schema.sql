-- Written by TestSchema from the migrations: go test ./results/store -run TestSchema -update
PRAGMA application_id = 1128354629;
CREATE TABLE goose_db_version (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL,
		tstamp TIMESTAMP DEFAULT (datetime('now'))
	);
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
, traced INTEGER NOT NULL DEFAULT 0 CHECK (traced IN (0, 1)), tracer_processes INTEGER CHECK (tracer_processes >= 0), tracer_kernels INTEGER CHECK (tracer_kernels >= 0), tracer_copies INTEGER CHECK (tracer_copies >= 0), tracer_lost_records INTEGER CHECK (tracer_lost_records >= 0), tracer_cut_processes INTEGER CHECK (tracer_cut_processes >= 0), tracer_untraced_jobs INTEGER CHECK (tracer_untraced_jobs >= 0), sweep_id INTEGER REFERENCES sweep (id) ON DELETE SET NULL, warmup INTEGER NOT NULL DEFAULT 0 CHECK (warmup IN (0, 1)), tag TEXT, jobs_not_started INTEGER CHECK (jobs_not_started >= 0), probe TEXT NOT NULL DEFAULT 'lazy' CHECK (probe IN ('lazy', 'static', 'explicit')), energy_j REAL CHECK (energy_j >= 0), energy_idle_j REAL CHECK (energy_idle_j >= 0), energy_per_ok_job_j REAL CHECK (energy_per_ok_job_j >= 0), energy_source TEXT CHECK (energy_source IN ('counter', 'power', 'none')), swaps INTEGER CHECK (swaps >= 0), swaps_in_vain INTEGER CHECK (swaps_in_vain >= 0), swapped_out_bytes INTEGER CHECK (swapped_out_bytes >= 0), swapped_in_bytes INTEGER CHECK (swapped_in_bytes >= 0), swap_drain_s REAL CHECK (swap_drain_s >= 0), swap_copy_s REAL CHECK (swap_copy_s >= 0), swap_bookkeeping_s REAL CHECK (swap_bookkeeping_s >= 0), swap_host_peak_bytes INTEGER CHECK (swap_host_peak_bytes >= 0), host_mapped_slowdown_s REAL CHECK (host_mapped_slowdown_s >= 0), uid TEXT NOT NULL DEFAULT '', cell_position INTEGER CHECK (cell_position >= 0), duplicate INTEGER NOT NULL DEFAULT 0 CHECK (duplicate IN (0, 1)), surroundings TEXT, doubts TEXT NOT NULL DEFAULT '', checksum TEXT, deadlines_met REAL CHECK (deadlines_met BETWEEN 0 AND 1), arm TEXT CHECK (arm <> ''), excluded INTEGER NOT NULL DEFAULT 0 CHECK (excluded IN (0, 1)), remark TEXT CHECK (remark <> ''), arrivals TEXT CHECK (arrivals <> ''), steady_throughput_jobs_per_s REAL CHECK (steady_throughput_jobs_per_s >= 0), backlog_mean REAL CHECK (backlog_mean >= 0), backlog_peak INTEGER CHECK (backlog_peak >= 0), backlog_growth REAL, swap_lost_s REAL CHECK (swap_lost_s >= 0)) STRICT;
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
    resident_mean       REAL    CHECK (resident_mean >= 0), energy_j REAL CHECK (energy_j >= 0), energy_idle_j REAL CHECK (energy_idle_j >= 0), energy_source TEXT CHECK (energy_source IN ('counter', 'power', 'none')), node_index INTEGER NOT NULL DEFAULT 0 CHECK (node_index >= 0), mig_gpu_uuid TEXT, mig_profile TEXT,
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
    wait_s          REAL    CHECK (wait_s >= 0),
    user_s          REAL    CHECK (user_s >= 0),
    sys_s           REAL    CHECK (sys_s >= 0),
    max_rss_bytes   INTEGER CHECK (max_rss_bytes >= 0),
    exit_status     INTEGER,
    signal          TEXT,
    detail          TEXT    NOT NULL,
    stderr_tail     TEXT    NOT NULL, arrival_s REAL CHECK (arrival_s >= 0), turnaround_s REAL GENERATED ALWAYS AS (end_s - coalesce(arrival_s, 0.0)) VIRTUAL, used_bytes INTEGER CHECK (used_bytes >= 0), energy_estimate_j REAL CHECK (energy_estimate_j >= 0), outcome TEXT CHECK (outcome IN ('ok', 'oom', 'fault', 'collateral', 'refused', 'crash',
                                                       'timeout', 'wrong', 'cancelled', 'not-started', 'fault-suspect',
                                                       'not-scheduled', 'lost', 'ok-after-oom')), deadline_s REAL CHECK (deadline_s > 0), devices TEXT, user_name TEXT CHECK (user_name <> ''), credits INTEGER CHECK (credits > 0), unaccounted_bytes INTEGER CHECK (unaccounted_bytes >= 0), restarts INTEGER CHECK (restarts > 0), lost_s REAL CHECK (lost_s >= 0),
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
    passed            INTEGER NOT NULL CHECK (passed >= 0), blocks_per_sm INTEGER CHECK (blocks_per_sm > 0), managed INTEGER CHECK (managed IN (0, 1)), pinned_device_index INTEGER,
    PRIMARY KEY (run_id, job_index, task_seq),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE "_segment" (
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
, uid TEXT NOT NULL DEFAULT '', remark TEXT CHECK (remark <> '')) STRICT;
CREATE TABLE cell (
    sweep_id   INTEGER NOT NULL REFERENCES sweep (id) ON DELETE CASCADE,
    position   INTEGER NOT NULL CHECK (position >= 0),
    mix        TEXT    NOT NULL CHECK (mix <> ''),
    mix_source TEXT    NOT NULL,
    scheduler  TEXT    NOT NULL CHECK (scheduler <> ''),
    repetition INTEGER NOT NULL CHECK (repetition >= 1),
    warmup     INTEGER NOT NULL CHECK (warmup IN (0, 1)),
    seed       TEXT    NOT NULL CHECK (seed <> '' AND seed NOT GLOB '*[^0-9]*'),
    run_id     INTEGER REFERENCES run (id) ON DELETE SET NULL, probe TEXT NOT NULL DEFAULT 'lazy' CHECK (probe IN ('lazy', 'static', 'explicit')),
    PRIMARY KEY (sweep_id, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX cell_by_run ON cell (run_id);
CREATE INDEX run_by_sweep ON run (sweep_id);
CREATE INDEX run_by_tag ON run (tag);
CREATE TABLE _segment_block (
    run_id       INTEGER NOT NULL,
    device_index INTEGER NOT NULL,
    series       TEXT    NOT NULL CHECK (series <> ''),
    from_s       REAL    NOT NULL,
    to_s         REAL    NOT NULL CHECK (to_s >= from_s),
    n            INTEGER NOT NULL CHECK (n BETWEEN 1 AND 4096),
    first_us     INTEGER NOT NULL,
    step_ns      INTEGER NOT NULL,
    hold_us      INTEGER NOT NULL CHECK (hold_us >= 0),
    samples      INTEGER NOT NULL CHECK (samples >= 1),
    code         INTEGER NOT NULL CHECK (code >= 0),
    scale        INTEGER NOT NULL CHECK (scale IN (1, 100)),
    first_bits   INTEGER NOT NULL CHECK (first_bits >= 0),
    hold_bits    INTEGER NOT NULL CHECK (hold_bits >= 0),
    samples_bits INTEGER NOT NULL CHECK (samples_bits >= 0),
    code_bits    INTEGER NOT NULL CHECK (code_bits >= 0 AND first_bits + hold_bits + samples_bits + code_bits <= 56),
    packed       BLOB    NOT NULL,
    UNIQUE (run_id, device_index, series, from_s),
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT;
CREATE TRIGGER _segment_packed AFTER INSERT ON _segment_block BEGIN
    DELETE FROM _segment
    WHERE run_id = NEW.run_id AND device_index = NEW.device_index AND series = NEW.series
        AND first_s BETWEEN NEW.from_s AND NEW.to_s;
END;
CREATE VIEW utilization AS
WITH RECURSIVE
    place (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM place WHERE i < 4095),
    octet (s) AS (SELECT x'000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff')
SELECT run_id, device_index, series, first_s, last_s, samples, value FROM _segment
UNION ALL
SELECT run_id, device_index, series,
       (head + ((word >> (64 - at - first_bits)) & ((1 << first_bits) - 1))) / 1000000.0,
       (head + ((word >> (64 - at - first_bits)) & ((1 << first_bits) - 1))
           + hold_us + ((word >> (64 - at - first_bits - hold_bits)) & ((1 << hold_bits) - 1))) / 1000000.0,
       samples + ((word >> (64 - at - width + code_bits)) & ((1 << samples_bits) - 1)),
       (code + ((word >> (64 - at - width)) & ((1 << code_bits) - 1))) / CAST(scale AS REAL)
FROM (
    SELECT b.*, j.value AS word, (i * width) & 7 AS at, first_us + i * step_ns / 1000 AS head
    FROM (SELECT *, first_bits + hold_bits + samples_bits + code_bits AS width FROM _segment_block) b
    CROSS JOIN place CROSS JOIN octet
    CROSS JOIN json_each(json_array(
            ((instr(s, substr(packed, ((i * width) >> 3) + 1, 1)) - 1) << 56)
          | CASE WHEN ((i * width) & 7) + width > 8 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 2, 1)) - 1) << 48) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 16 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 3, 1)) - 1) << 40) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 24 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 4, 1)) - 1) << 32) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 32 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 5, 1)) - 1) << 24) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 40 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 6, 1)) - 1) << 16) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 48 THEN ((instr(s, substr(packed, ((i * width) >> 3) + 7, 1)) - 1) << 8) ELSE 0 END
          | CASE WHEN ((i * width) & 7) + width > 56 THEN (instr(s, substr(packed, ((i * width) >> 3) + 8, 1)) - 1) ELSE 0 END
    )) j
    WHERE i < n
);
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
CREATE UNIQUE INDEX sweep_by_uid ON sweep (uid);
CREATE UNIQUE INDEX run_by_uid ON run (uid);
CREATE INDEX run_by_cell ON run (sweep_id, cell_position);
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
    detail        TEXT    NOT NULL, portion INTEGER NOT NULL DEFAULT 0 CHECK (portion IN (0, 1)), device_index INTEGER CHECK (device_index >= 0),
    PRIMARY KEY (run_id, job_index, rank),
    FOREIGN KEY (run_id, job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE "swap" (
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
    for_task_seq   INTEGER CHECK (for_task_seq IS NULL OR for_job_index IS NOT NULL), lost_s REAL CHECK (lost_s >= 0),
    PRIMARY KEY (run_id, job_index, ordinal),
    FOREIGN KEY (run_id, job_index, task_seq) REFERENCES task (run_id, job_index, task_seq) ON DELETE CASCADE,
    FOREIGN KEY (run_id, for_job_index) REFERENCES job (run_id, job_index) ON DELETE CASCADE,
    FOREIGN KEY (run_id, device_index) REFERENCES device (run_id, device_index) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (9, 1), (10, 1), (11, 1), (12, 1), (13, 1), (14, 1), (15, 1), (16, 1), (17, 1), (18, 1), (19, 1), (20, 1), (21, 1), (22, 1), (23, 1), (24, 1), (25, 1), (26, 1), (27, 1), (28, 1), (29, 1), (30, 1), (31, 1);
