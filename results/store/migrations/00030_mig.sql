-- Of an instance of MIG: the GPU that it is a part of, where that is a real one, and its profile.
-- +goose Up
ALTER TABLE device ADD COLUMN mig_gpu_uuid TEXT;
ALTER TABLE device ADD COLUMN mig_profile TEXT;
