-- pinned_device_index has no foreign key: a task may ask for a device that the
-- node does not have, and is refused.
-- +goose Up
ALTER TABLE task ADD COLUMN blocks_per_sm INTEGER CHECK (blocks_per_sm > 0);
ALTER TABLE task ADD COLUMN managed INTEGER CHECK (managed IN (0, 1));
ALTER TABLE task ADD COLUMN pinned_device_index INTEGER;
