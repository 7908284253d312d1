-- A series that changes with every sample takes 42 bytes for each sample in a table. Its
-- complete segments are packed into blocks, at about two bytes each (pack.go). Users read the
-- view utilization, which has the rows of the table and of the blocks.
-- +goose Up
ALTER TABLE utilization RENAME TO _segment;

-- Each of the n rows is packed as four numbers: a, b, c and d. Row i (from 0) begins at
-- first_us + i * step_ns / 1000 + a, lasts hold_us + b, has samples + c samples and the value
-- (code + d) / scale. The columns *_bits have the widths of a, b, c and d. packed has the rows
-- in order, most significant bit first. from_s and to_s are the first and the last first_s
-- before rounding.
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

-- +goose StatementBegin
CREATE TRIGGER _segment_packed AFTER INSERT ON _segment_block BEGIN
    DELETE FROM _segment
    WHERE run_id = NEW.run_id AND device_index = NEW.device_index AND series = NEW.series
        AND first_s BETWEEN NEW.from_s AND NEW.to_s;
END;
-- +goose StatementEnd

-- Each row's bits lie within eight bytes, which the view reads as one number; bits after the
-- row's own are ignored. instr gives the value of a byte. json_each keeps SQLite from computing
-- the number again for each column.
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
