-- On which node of a cluster a device is; 0 where there is one node, and in older rows.
-- +goose Up
ALTER TABLE device ADD COLUMN node_index INTEGER NOT NULL DEFAULT 0 CHECK (node_index >= 0);
