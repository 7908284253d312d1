package scratch

import (
	"path/filepath"
	"strings"
	"testing"
)

// MakeLocal takes the first directory that can be used, and none that machines share.
func TestMakeLocal(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	parent := func() (string, error) {
		t.Helper()
		d, err := MakeLocal("test")
		if err != nil {
			return "", err
		}
		return filepath.Dir(d.Path()), d.Remove()
	}
	for _, c := range []struct{ slurm, tmp, want string }{
		{first, second, first},
		{"", second, second},
		{filepath.Join(first, "missing"), second, second},
		{"", "", "/tmp"},
	} {
		t.Setenv("SLURM_TMPDIR", c.slurm)
		t.Setenv("TMPDIR", c.tmp)
		if got, err := parent(); err != nil || got != c.want {
			t.Errorf("SLURM_TMPDIR=%s TMPDIR=%s: %s, %v; want %s", c.slurm, c.tmp, got, err, c.want)
		}
	}

	t.Setenv("SLURM_TMPDIR", first)
	t.Setenv("TMPDIR", second)
	_, err := makeLocal("test", func(string) (string, error) { return "NFS", nil })
	if err == nil || !strings.Contains(err.Error(), first+": it is on NFS, which machines share") || !strings.Contains(err.Error(), "name one with TMPDIR") {
		t.Errorf("on NFS: %v", err)
	}
}
