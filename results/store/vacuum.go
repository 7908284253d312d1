package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caserun/caserun/internal/size"
)

// Vacuumed says how long the file of a store was before a vacuum, and is after it.
type Vacuumed struct{ Before, After int64 }

// Vacuuming is what a vacuum of a store needs.
type Vacuuming struct {
	Size  int64 // of the file, in bytes
	Needs int64 // bytes on the store's file system until it is done, at most
	Has   int64 // bytes that this user can write there
}

// Vacuuming looks at what a vacuum of the store needs. It copies what is in use.
func (s *Store) Vacuuming(ctx context.Context) (v Vacuuming, err error) {
	space, err := s.Space(ctx)
	if err != nil {
		return v, err
	}
	v = Vacuuming{Size: space.Used + space.Free, Needs: space.Used}
	path := s.file()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	var disk unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(path), &disk); err != nil {
		return v, fmt.Errorf("store %s: the space of its file system: %w", s.path, err)
	}
	v.Has = int64(disk.Bavail) * disk.Bsize
	return v, nil
}

// Enough refuses a vacuum for which the disk has no room.
func (v Vacuuming) Enough() error {
	if v.Has < v.Needs {
		return fmt.Errorf("%w: a vacuum needs %s beside the file until it is done, and the file system has %s", ErrFull, size.Text(v.Needs), size.Text(v.Has))
	}
	return nil
}

// Vacuum writes the store at path anew without the pages that hold nothing, and replaces its file at the end. So the store
// is as it was whatever happens. It waits until no other program has the store open, and refuses while a process works on
// a run or a sweep. progress takes the bytes that are written, of about so many. tell takes what is waited for.
func Vacuum(ctx context.Context, path string, progress func(done, all int64), tell func(what string)) (v Vacuumed, err error) {
	if path, err = filepath.Abs(path); err == nil {
		path, err = filepath.EvalSymlinks(path) // and keep the link
	}
	if err != nil {
		return v, fmt.Errorf("vacuum: %w", err)
	}
	w, err := openWorkplace("vacuum "+path, path)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.make(mergedFile); err != nil {
		return v, err
	}
	h, err := holdStore(ctx, "vacuum", path, tell)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, h.release()) }()
	if err := unheld(ctx, h.tx, "true", "true"); err != nil {
		return v, explain(path, "vacuum", err)
	}
	needs, err := h.Vacuuming(ctx)
	if err == nil {
		err = needs.Enough()
	}
	if err != nil {
		return v, explain(path, "vacuum", err)
	}
	reach(vacuumBegun)
	made := w.file(mergedFile)
	stop := watch(made, func(done int64) { progress(done, max(done, needs.Needs)) })
	_, err = h.read.ExecContext(ctx, "VACUUM INTO "+quote(made))
	stop()
	if err != nil {
		return v, explain(path, "vacuum", err)
	}
	reach(vacuumCopied)
	info, err := os.Stat(made)
	if err == nil {
		v = Vacuumed{Before: needs.Size, After: info.Size()}
		err = w.replace(true)
	}
	reach(vacuumRenamed)
	return v, err
}

// watch tells now and then how long a file is that grows, until stop.
func watch(path string, tell func(bytes int64)) (stop func()) {
	ticker, done, ended := time.NewTicker(100*time.Millisecond), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ticker.C:
				if info, err := os.Stat(path); err == nil {
					tell(info.Size())
				}
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}
