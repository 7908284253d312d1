package bundle

import (
	"context"

	"github.com/caserun/caserun/results/store"
)

// OpenWith opens a bundle, or a store with open.
func OpenWith(ctx context.Context, path string, open func(string) (*store.Store, error)) (s *store.Store, done func() error, err error) {
	if Is(path) {
		b, err := Open(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		return b.Store, b.Close, nil
	}
	if s, err = open(path); err != nil {
		return nil, nil, err
	}
	return s, s.Close, nil
}

// OpenStore opens a bundle or a store for reading.
func OpenStore(ctx context.Context, path string) (s *store.Store, done func() error, err error) {
	return OpenWith(ctx, path, store.OpenUpdated)
}
