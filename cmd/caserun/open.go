package main

import (
	"context"
	"fmt"
	"os"

	"github.com/caserun/caserun/results/bundle"
	"github.com/caserun/caserun/results/store"
)

// spareStore refuses a file to write that is one of the store's.
func (c config) spareStore(path string) error {
	target, err := os.Stat(path)
	for _, own := range []string{c.DB, c.DB + "-wal", c.DB + "-shm"} {
		if info, failed := os.Stat(own); err == nil && failed == nil && os.SameFile(target, info) {
			return usageError(fmt.Errorf("write %s: that is the store %s: name another file", path, c.DB))
		}
	}
	return nil
}

// openForReading opens the store that --db names for reading: a store's file, or
// a bundle of caserun export, which is told by its first bytes. The caller must
// call done, also in order to remove what a bundle was unpacked to.
func openForReading(ctx context.Context, c config) (s *store.Store, done func() error, err error) {
	if bundle.Is(c.DB) {
		b, err := bundle.Open(ctx, c.DB)
		if err != nil {
			return nil, nil, infrastructureError(err)
		}
		return b.Store, func() error { return infrastructureError(b.Close()) }, nil
	}
	s, err = store.OpenUpdated(c.DB)
	if err != nil {
		return nil, nil, infrastructureError(err)
	}
	return s, func() error { return infrastructureError(s.Close()) }, nil
}
