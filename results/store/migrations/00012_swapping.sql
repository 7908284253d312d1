-- What swapping took in a run. NULL if its scheduler asked for no memory, and in older rows.
-- +goose Up
ALTER TABLE run ADD COLUMN swaps INTEGER CHECK (swaps >= 0);
ALTER TABLE run ADD COLUMN swaps_in_vain INTEGER CHECK (swaps_in_vain >= 0);
ALTER TABLE run ADD COLUMN swapped_out_bytes INTEGER CHECK (swapped_out_bytes >= 0);
ALTER TABLE run ADD COLUMN swapped_in_bytes INTEGER CHECK (swapped_in_bytes >= 0);
ALTER TABLE run ADD COLUMN swap_drain_s REAL CHECK (swap_drain_s >= 0);
ALTER TABLE run ADD COLUMN swap_copy_s REAL CHECK (swap_copy_s >= 0);
ALTER TABLE run ADD COLUMN swap_bookkeeping_s REAL CHECK (swap_bookkeeping_s >= 0);
ALTER TABLE run ADD COLUMN swap_host_peak_bytes INTEGER CHECK (swap_host_peak_bytes >= 0);
ALTER TABLE run ADD COLUMN host_mapped_slowdown_s REAL CHECK (host_mapped_slowdown_s >= 0);
