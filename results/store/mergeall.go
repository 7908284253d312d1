package store

import (
	"context"
	"errors"
	"slices"
)

// sweepParts is one sweep with the parts that have it.
type sweepParts struct {
	sweep string // uid; "": the latest of the first part
	parts []string
}

// MergeAll merges one sweep, the latest of the first part, or if it adds all sweeps of all parts one after another, up to
// the first error. show takes how many of all parts are merged.
func MergeAll(ctx context.Context, out string, parts []string, how Merging, show func(done, all int)) (merged []Merged, err error) {
	merges := []sweepParts{{parts: parts}}
	if how.Add {
		if merges, err = sweepsOf(ctx, parts, how); err != nil {
			return nil, err
		}
	}
	done, all := 0, 0
	for _, m := range merges {
		all += len(m.parts)
	}
	how.Progress = func(int) {
		done++
		show(done, all)
	}
	for _, m := range merges {
		how.Sweep = m.sweep
		one, err := Merge(ctx, out, m.parts, how)
		if err != nil {
			return merged, err
		}
		merged = append(merged, one)
	}
	return merged, nil
}

// sweepsOf are the sweeps of all parts, in the order in which the parts name them.
func sweepsOf(ctx context.Context, parts []string, how Merging) (out []sweepParts, err error) {
	for _, path := range parts {
		uids, err := sweepUIDs(ctx, path, how)
		if err != nil {
			return nil, err
		}
		for _, uid := range uids {
			i := slices.IndexFunc(out, func(m sweepParts) bool { return m.sweep == uid })
			if i < 0 {
				i = len(out)
				out = append(out, sweepParts{sweep: uid})
			}
			out[i].parts = append(out[i].parts, path)
		}
	}
	return out, nil
}

func sweepUIDs(ctx context.Context, path string, how Merging) (uids []string, err error) {
	s, done, err := how.open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	sweeps, err := s.Sweeps(ctx)
	if err == nil && len(sweeps) == 0 {
		_, err = s.LatestSweep(ctx) // which says that there is none
	}
	for _, w := range sweeps {
		uid, failed := s.SweepUID(ctx, w.ID)
		uids, err = append(uids, uid), errors.Join(err, failed)
	}
	return uids, err
}
