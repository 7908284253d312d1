package bundle

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/userfile/output"
)

// Options say what Write puts into a bundle.
type Options struct {
	Filter store.Filter // warm-up runs and duplicates are always included
	Policy output.Policy
	Writer string // name and version of the program
	// Figures fills a directory with figures and their data; nil: the bundle has no figures.
	Figures func(ctx context.Context, s *store.Store, dir string) error
}

// Write writes the selected runs to a new bundle at path and returns their number. The file
// gets its name when it is complete.
func Write(ctx context.Context, s *store.Store, path string, o Options) (count int, err error) {
	if err := CheckName(path); err != nil {
		return 0, err
	}
	file, err := output.Create(ctx, path, o.Policy)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	dir, err := os.MkdirTemp(file.Directory(), output.Temporary+"*")
	if err != nil {
		return 0, fmt.Errorf("bundle %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o.Filter.Warmups, o.Filter.Duplicates, o.Filter.Excluded = true, true, true
	m, err := fill(ctx, s, dir, o)
	if err != nil {
		return 0, fmt.Errorf("bundle %s: %w", path, err)
	}
	if err := pack(file, dir, m); err != nil {
		return 0, fmt.Errorf("bundle %s: %w", path, err)
	}
	return len(m.Runs), file.Commit()
}

// fill writes all members except the manifest to dir.
func fill(ctx context.Context, s *store.Store, dir string, o Options) (m manifest, err error) {
	m = manifest{Format: format, Writer: o.Writer, Runs: []int64{}, Simulated: []int64{}}
	if err := s.CopyRuns(ctx, filepath.Join(dir, storeName), o.Filter); err != nil {
		return m, err
	}
	own, err := store.OpenReadOnly(filepath.Join(dir, storeName))
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	all := store.Filter{Warmups: true, Duplicates: true, Excluded: true}
	runs, err := own.Runs(ctx, all)
	if err != nil {
		return m, err
	}
	if len(runs) == 0 {
		return m, fmt.Errorf("store %s: %w: no run is selected", s.Path(), store.ErrNoRun)
	}
	for _, r := range runs {
		m.Runs = append(m.Runs, r.ID)
		if r.Mode == results.Simulated {
			m.Simulated = append(m.Simulated, r.ID)
		}
	}
	if err := describe(ctx, own, runs, dir); err != nil {
		return m, err
	}
	if o.Figures != nil {
		if err := o.Figures(ctx, own, filepath.Join(dir, "figures")); err != nil {
			return m, fmt.Errorf("figures: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), readme(m), 0o644); err != nil {
		return m, err
	}
	if m.Members, err = members(dir); err != nil {
		return m, err
	}
	if _, err := m.size(); err != nil {
		return m, fmt.Errorf("%w: select fewer runs", err)
	}
	return m, nil
}

// members lists the files below dir in the order in which a reader opens them.
func members(dir string) ([]member, error) {
	var out []member
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		n, err := io.Copy(sum, f)
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		name, err := filepath.Rel(dir, path)
		out = append(out, member{Name: filepath.ToSlash(name), Bytes: n, SHA256: hex.EncodeToString(sum.Sum(nil))})
		return err
	})
	slices.SortFunc(out, func(a, b member) int {
		return strings.Compare(order(a.Name)+a.Name, order(b.Name)+b.Name)
	})
	return out, err
}

func order(name string) string {
	switch {
	case name == "README.md":
		return "0"
	case name == storeName:
		return "1"
	case !strings.Contains(name, "/"):
		return "2"
	}
	return "3"
}

// pack writes the archive.
func pack(w io.Writer, dir string, m manifest) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", manifestName, err)
	}
	text = append(text, '\n')
	compressed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	if err := add(archive, manifestName, int64(len(text)), strings.NewReader(string(text))); err != nil {
		return err
	}
	for _, member := range m.Members {
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(member.Name)))
		if err != nil {
			return err
		}
		err = add(archive, member.Name, member.Bytes, f)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

func add(archive *tar.Writer, name string, size int64, r io.Reader) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644, ModTime: time.Unix(0, 0),
		Format: tar.FormatUSTAR}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("write member %s: %w", name, err)
	}
	if _, err := io.Copy(archive, r); err != nil {
		return fmt.Errorf("write member %s: %w", name, err)
	}
	return nil
}
