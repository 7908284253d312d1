package bundle

import (
	"archive/tar"
	"bytes"
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
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
	"github.com/caserun/caserun/schedulers"
)

// stored is a store with a sweep (a warm-up and two runs) and a run outside the sweep.
func stored(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx := context.Background()
	sweep, err := s.CreateSweep(ctx, results.Sweep{Spec: `{"mixes":["W1"]}`, Node: "sim:1xV100", Mode: results.Simulated, Repetitions: 2},
		[]results.Cell{{Position: 0, Mix: "W1", Scheduler: "sa", Repetition: 1, Warmup: true},
			{Position: 1, Mix: "W1", Scheduler: "sa", Repetition: 1}, {Position: 2, Mix: "W1", Scheduler: "sa", Repetition: 2}})
	if err != nil {
		t.Fatal(err)
	}
	cells, err := s.Cells(ctx, sweep)
	if err != nil {
		t.Fatal(err)
	}
	about := results.Run{Mix: "W1", Scheduler: "sa", Node: "sim:1xV100", Mode: results.Simulated, Jobs: 1, Status: results.Complete,
		Provenance: results.Provenance{Configuration: `[{"Key":"seed","Value":1}]`, Binaries: "{}", Host: "node1", CPU: "Xeon", Version: "0.1"}}
	devices := []results.Device{{UUID: "sim/0", Name: "V100 (simulated)", MemoryBytes: 16 << 30}}
	finish := func(id int64, err error) {
		if err != nil {
			t.Fatal(err)
		}
		w := s.Writer(id)
		end, ok, value := float64(id), results.OK, 0.25
		w.Job(results.Job{Name: "needle", EndS: &end, Outcome: &ok})
		segments := 10
		if id == 3 {
			segments = 2000 // enough that some are packed
		}
		for i := range segments {
			w.Segment(results.Segment{Series: results.SeriesSimulated, FirstS: float64(i), LastS: float64(i), Samples: 1, Value: &value})
		}
		w.Kernel(results.Kernel{Name: "k", StartS: 1, EndS: 2, BusyS: 1})
		w.Task(results.Task{})
		w.Swap(results.Swap{Direction: schedulers.In, Outcome: schedulers.Done, EndS: float64(id), Bytes: 3})
		run := about
		stored, err := s.Run(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		run.Sweep, run.Warmup, run.Repetition, run.Metrics.OK, run.Metrics.MakespanS = stored.Sweep, stored.Warmup, stored.Repetition, 1, &end
		if err := w.Finish(ctx, run); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range cells {
		finish(s.BeginCell(ctx, c, 0, about, devices))
	}
	finish(s.BeginRun(ctx, about, devices))
	return s
}

func write(t *testing.T, s *store.Store, o Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.tar.gz")
	if _, err := Write(context.Background(), s, path, o); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("%v beside the bundle (%v)", left, err)
	}
	return path
}

// contents returns a bundle's members by name, and their names in order.
func contents(t *testing.T, path string) (map[string][]byte, []string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	compressed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	var names []string
	archive := tar.NewReader(compressed)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out, names
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		out[header.Name], names = text, append(names, header.Name)
	}
}

func TestBundleOpensWithTheSameRows(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	path := write(t, s, Options{})
	if !Is(path) || Is(s.Path()) || Is(path+"x") {
		t.Error("the bundle is not told from the store by its first bytes")
	}
	b, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if b.Path() != path {
		t.Errorf("its store is at %s, want the bundle's path %s", b.Path(), path)
	}
	all := store.Filter{Warmups: true}
	want, err := s.Runs(ctx, all)
	if err != nil {
		t.Fatal(err)
	}
	got, err := b.Runs(ctx, all)
	if err != nil || len(got) != 4 {
		t.Errorf("%d runs (%v), want 4", len(got), err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-store +bundle):\n%s", diff)
	}
	if diff := cmp.Diff(rows(t, s), rows(t, b.Store)); diff != "" {
		t.Errorf("rows (-store +bundle):\n%.3000s", diff)
	}
	dir := b.dir
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left (%v)", dir, err)
	}
}

// rows returns all rows of all tables as text.
func rows(t *testing.T, s *store.Store) []string {
	t.Helper()
	ctx := context.Background()
	tables, err := s.Tables(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, table := range tables {
		if err := s.Rows(ctx, table, store.Filter{Warmups: true}, func(cells []any) error {
			out = append(out, fmt.Sprintln(table.Name, cells))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func TestBundleHoldsWhatIsSelected(t *testing.T) {
	s := stored(t)
	ctx := context.Background()
	b, err := Open(t.Context(), write(t, s, Options{Filter: store.Filter{IDs: []int64{3}}}))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if runs, err := b.Runs(ctx, store.Filter{Warmups: true}); err != nil || len(runs) != 1 || runs[0].ID != 3 {
		t.Errorf("runs %v (%v), want run 3 alone", runs, err)
	}
	if jobs, err := b.Jobs(ctx, 4); err != nil || len(jobs) != 0 {
		t.Errorf("%d jobs of a run that was not selected (%v)", len(jobs), err)
	}
	cells, err := b.Cells(ctx, 1)
	if err != nil || len(cells) != 3 || cells[1].Run != nil || cells[2].Run == nil || *cells[2].Run != 3 {
		t.Errorf("cells %+v (%v), want three of which the last has run 3", cells, err)
	}
	if runs, err := b.Runs(ctx, store.Filter{}); err != nil || len(runs) != 1 {
		t.Errorf("%d runs (%v)", len(runs), err)
	}
	sweep, err := Open(t.Context(), write(t, s, Options{Filter: store.Filter{Sweep: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	defer sweep.Close()
	if runs, err := sweep.Runs(ctx, store.Filter{Warmups: true}); err != nil || len(runs) != 3 {
		t.Errorf("%d runs of the sweep (%v), want 3 with the warm-up", len(runs), err)
	}
	path := filepath.Join(t.TempDir(), "none.tar.gz")
	if _, err := Write(ctx, s, path, Options{Filter: store.Filter{Mix: "none"}}); !errors.Is(err, store.ErrNoRun) {
		t.Errorf("got error %v for no run, want ErrNoRun", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("a failed bundle left %v", left)
	}
}

func TestEqualRunsGiveEqualBytes(t *testing.T) {
	one, err := os.ReadFile(write(t, stored(t), Options{Writer: "test"}))
	if err != nil {
		t.Fatal(err)
	}
	two, err := os.ReadFile(write(t, stored(t), Options{Writer: "test"}))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(one, two) {
		t.Errorf("two bundles of equal runs differ (%d and %d bytes)", len(one), len(two))
	}
}

func TestMembers(t *testing.T) {
	path := write(t, stored(t), Options{Writer: "caserun 1", Figures: func(_ context.Context, _ *store.Store, dir string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "fig5.svg"), []byte("<svg/>"), 0o644)
	}})
	got, names := contents(t, path)
	want := []string{"manifest.json", "README.md", "caserun.db", "configuration.json", "provenance.json", "runs.md", "figures/fig5.svg"}
	if !slices.Equal(names, want) {
		t.Errorf("members are %v, want %v", names, want)
	}
	var m manifest
	if err := json.Unmarshal(got["manifest.json"], &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Members) != len(names)-1 || m.Writer != "caserun 1" || len(m.Runs) != 4 || len(m.Simulated) != 4 {
		t.Errorf("manifest %+v", m)
	}
	if !strings.Contains(string(got["README.md"]), "all SIMULATED") || !strings.Contains(string(got["runs.md"]), "SIMULATED") {
		t.Error("the README or the run table does not say that the figures are simulated")
	}
	var origins []struct {
		Host    string
		Devices []struct{ UUID string }
	}
	if err := json.Unmarshal(got["provenance.json"], &origins); err != nil || len(origins) != 4 ||
		origins[0].Host != "node1" || origins[0].Devices[0].UUID != "sim/0" {
		t.Errorf("provenance %+v (%v)", origins, err)
	}
	var c configurations
	if err := json.Unmarshal(got["configuration.json"], &c); err != nil || len(c.Runs) != 4 || len(c.Sweeps) != 1 {
		t.Errorf("configuration %+v (%v)", c, err)
	}
}

// repack writes a copy of a bundle, with members changed but the manifest unchanged.
func repack(t *testing.T, path string, change func(name string, text []byte) []byte) string {
	t.Helper()
	members, names := contents(t, path)
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	archive := tar.NewWriter(compressed)
	for _, name := range names {
		if text := change(name, members[name]); text != nil {
			if err := add(archive, name, int64(len(text)), bytes.NewReader(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	changed := filepath.Join(t.TempDir(), "changed.tar.gz")
	if err := os.WriteFile(changed, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return changed
}

func TestDamageIsNamed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	whole := write(t, stored(t), Options{})
	raw, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	flip := func(member string) func(string, []byte) []byte {
		return func(name string, text []byte) []byte {
			if name == member {
				text = bytes.Clone(text)
				text[len(text)/2] ^= 1
			}
			return text
		}
	}
	cases := map[string]struct{ path, want string }{
		"a changed store": {repack(t, whole, flip(storeName)), "member caserun.db: its SHA-256 is"},
		"a changed table": {repack(t, whole, flip("runs.md")), "member runs.md: its SHA-256 is"},
		"a missing member": {repack(t, whole, func(name string, text []byte) []byte {
			if name == "provenance.json" {
				return nil
			}
			return text
		}), "member provenance.json: the archive has runs.md"},
		"a longer member": {repack(t, whole, func(name string, text []byte) []byte {
			if name == "runs.md" {
				return append(bytes.Clone(text), 'x')
			}
			return text
		}), "member runs.md: the archive has runs.md with"},
		"a newer format": {repack(t, whole, func(name string, text []byte) []byte {
			return bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 9`), 1)
		}), "format 9 is newer"},
		"a key twice": {repack(t, whole, func(name string, text []byte) []byte {
			return bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 1, "Format": 1`), 1)
		}), `member manifest.json: the key "Format" must be written "format"`},
		"another archive": {repack(t, whole, func(name string, text []byte) []byte {
			if name == manifestName {
				return nil
			}
			return text
		}), `begins with "README.md"`},
	}
	ends := []int{12, 600, len(raw) / 2}
	for left := range 32 { // the archive's end, and the checksum of the whole
		ends = append(ends, len(raw)-1-left)
	}
	for _, end := range ends {
		path := filepath.Join(t.TempDir(), "short.tar.gz")
		if err := os.WriteFile(path, raw[:end], 0o644); err != nil {
			t.Fatal(err)
		}
		cases[fmt.Sprintf("cut at %d", end)] = struct{ path, want string }{path, "the archive ends within it or before it"}
	}
	for what, tail := range map[string][]byte{"a few bytes": []byte("junk\n"), "many bytes": bytes.Repeat([]byte("junk\n"), 9999), "a bundle": raw} {
		path := filepath.Join(t.TempDir(), "long.tar.gz")
		if err := os.WriteFile(path, slices.Concat(raw, tail), 0o644); err != nil {
			t.Fatal(err)
		}
		cases["followed by "+what] = struct{ path, want string }{path, "something follows the archive's end"}
	}
	for name, c := range cases {
		b, err := Open(t.Context(), c.path)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: error %q, want the path and %q", name, err, c.want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %q has several lines", name, err)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("failed opens left %v (%v)", left, err)
	}
}

// The size of a bundle's content is known and bounded before the bundle is unpacked.
func TestBundlesUnpackToWhatTheySay(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	whole := write(t, stored(t), Options{})
	claim := func(change func(*manifest)) string {
		return repack(t, whole, func(name string, text []byte) []byte {
			if name != manifestName {
				return text
			}
			var m manifest
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			change(&m)
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return text
		})
	}
	// padded has zeros after the archive's end, where they count as padding.
	padded := func(zeros int) string {
		raw, err := os.Open(whole)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		in, err := gzip.NewReader(raw)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		compressed := gzip.NewWriter(&out)
		if _, err := io.Copy(compressed, io.MultiReader(in, bytes.NewReader(make([]byte, zeros)))); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "padded.tar.gz")
		if err := errors.Join(compressed.Close(), os.WriteFile(path, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var begun bytes.Buffer // an endless manifest
	compressed := gzip.NewWriter(&begun)
	endless := filepath.Join(t.TempDir(), "endless.tar.gz")
	if err := errors.Join(tar.NewWriter(compressed).WriteHeader(&tar.Header{Name: manifestName, Size: largestManifest + 1, Mode: 0o644}),
		compressed.Close(), os.WriteFile(endless, begun.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ path, want string }{
		"one member":       {claim(func(m *manifest) { m.Members[1].Bytes = maxBytes + 1 }), "it unpacks to more than the 8 GiB that a bundle has at most"},
		"all members":      {claim(func(m *manifest) { m.Members[1].Bytes, m.Members[2].Bytes = 5<<30, 5<<30 }), "more than the 8 GiB"},
		"an overflow":      {claim(func(m *manifest) { m.Members[1].Bytes, m.Members[2].Bytes = 1<<63-1, 1<<63-1 }), "more than the 8 GiB"},
		"more than it can": {claim(func(m *manifest) { m.Members[1].Bytes = 1 << 30 }), "unpack to 1 GiB"},
		"a name twice":     {claim(func(m *manifest) { m.Members[1].Name = m.Members[2].Name }), `has "configuration.json" twice`},
		"a debt":           {claim(func(m *manifest) { m.Members[1].Bytes = -1 << 40 }), "more than the 8 GiB"},
		"many members":     {claim(func(m *manifest) { m.Members = make([]member, maxMembers+1) }), "it has 1001 members, and a bundle has 1000 at most"},
		"the manifest":     {endless, "manifest.json has 67108865 bytes, and 67108864 at most"},
		"what is behind":   {padded(2 << 20), "it unpacks to more than its manifest says"},
	} {
		b, err := Open(t.Context(), c.path)
		if err == nil {
			_ = b.Close()
			t.Errorf("%s: opened", name)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: error %q, want the path and %q", name, err, c.want)
		}
	}
	if b, err := Open(t.Context(), padded(64<<10)); err != nil {
		t.Errorf("with some padding: %v", err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
	target := filepath.Join(temporary, storeName)
	if err := unpack(t.Context(), whole, target, 100); err == nil || !strings.Contains(err.Error(), temporary+" has room for 100 bytes: name another directory with TMPDIR") {
		t.Errorf("without room: %v", err)
	}
	stopped := errors.New("told to stop")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if _, err := Open(ctx, whole); !errors.Is(err, stopped) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("after a signal: %v", err)
	}
	many := Options{Figures: func(_ context.Context, _ *store.Store, dir string) error {
		err := os.Mkdir(dir, 0o755)
		for i := range maxMembers {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o644))
		}
		return err
	}}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("what was refused left %v (%v)", left, err)
	}
	path := filepath.Join(t.TempDir(), "many.tar.gz")
	if _, err := Write(context.Background(), stored(t), path, many); err == nil || !strings.Contains(err.Error(), "members, and a bundle has 1000 at most: select fewer runs") {
		t.Errorf("written: %v", err)
	}
}

// What is not a store is not unpacked, and neither is a member of which the archive lacks bytes, although the manifest has
// its checksum.
func TestBundlesOfOthers(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	whole := write(t, stored(t), Options{})
	members, _ := contents(t, whole)
	db := members[storeName]
	bundleOf := func(h tar.Header, content []byte) string {
		sum := sha256.Sum256(content)
		text, err := json.Marshal(manifest{Format: format, Members: []member{{Name: storeName, Bytes: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}}})
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		compressed := gzip.NewWriter(&out)
		archive := tar.NewWriter(compressed)
		if err := add(archive, manifestName, int64(len(text)), bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
		h.Name, h.Mode = storeName, 0o644
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(content))
		} else {
			content = nil
		}
		err = archive.WriteHeader(&h)
		if _, failed := archive.Write(content); failed != nil || err != nil {
			t.Fatal(err, failed)
		}
		path := filepath.Join(t.TempDir(), "forged.tar.gz")
		if err := errors.Join(archive.Close(), compressed.Close(), os.WriteFile(path, out.Bytes(), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file := tar.Header{Typeflag: tar.TypeReg}
	longer := append(bytes.Clone(db), make([]byte, 1<<20)...)
	for name, c := range map[string]struct{ path, want string }{
		"zeros":               {bundleOf(file, make([]byte, 1<<20)), "not a store of caserun's"},
		"a short text":        {bundleOf(file, []byte("text")), "not a store of caserun's"},
		"a store with a tail": {bundleOf(file, longer), "its header is of"},
		"a link":              {bundleOf(tar.Header{Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}, nil), "is not a plain file"},
		"a hard link":         {bundleOf(tar.Header{Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}, nil), "is not a plain file"},
		"a device":            {bundleOf(tar.Header{Typeflag: tar.TypeChar}, nil), "is not a plain file"},
	} {
		b, err := Open(t.Context(), c.path)
		if err == nil {
			err = b.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("%s: %v, want the path and %q", name, err, c.want)
		}
	}
	if plain(&tar.Header{Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.size": "1"}}) {
		t.Error("a sparse file counts as plain")
	}
	if b, err := Open(t.Context(), bundleOf(file, db)); err != nil {
		t.Errorf("a bundle with a store alone: %v", err)
	} else if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) != 0 {
		t.Errorf("what was refused left %v (%v)", left, err)
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{"a.tar.gz": true, "dir/b.tgz": true, "a.zip": false, "a": false, "a.tar": false} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
