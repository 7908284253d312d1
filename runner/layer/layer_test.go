package layer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caserun/caserun/schedulers/policies"
)

// write makes a file in a folder of its own.
func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "l.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The values of a job's variables are those of the job, and where it states nothing, of its device.
func TestFields(t *testing.T) {
	l, err := Read(t.Context(), write(t, `name: l
mps: false
env:
  GPU: "{device.uuid}={device.bytes}"
  JOB: "{job.index} {job.bytes} {share} {share.percent} {} {A} $HOME"
  RUN: "{devices}"
`))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Prepare([]string{"GPU-a", "GPU-b"}, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		job  Job
		want []string
	}{
		{Job{Index: 3, Bytes: 5, Share: 0.25, UUIDs: []string{"GPU-b"}, Devices: []int64{9}}, []string{"GPU=GPU-b=9", "JOB=3 5 0.25 25 {} {A} $HOME", "RUN=GPU-a,GPU-b"}},
		{Job{UUIDs: []string{"GPU-a", "GPU-b"}, Devices: []int64{9, 8}}, []string{"GPU=GPU-a,GPU-b=8", "JOB=0 8 1 100 {} {A} $HOME", "RUN=GPU-a,GPU-b"}},
	} {
		if got := r.Environment(c.job); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.job, got, c.want)
		}
	}
	if late, err := r.Stop(); late != nil || err != nil {
		t.Error(late, err)
	}
}

// What a file names is part of its content.
func TestContent(t *testing.T) {
	path := write(t, "name: l\npreload: [./a.so, ./b.so]\nschedulers: cg\nstop_within: 2s\nstart: sleep 1\n")
	for _, name := range []string{"a.so", "b.so"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := Read(t.Context(), path)
	if err != nil || len(l.Files()) != 4 || l.StopWithin != 2*time.Second || l.ReadyWithin != readyWithin {
		t.Fatalf("%+v, %v", l, err)
	}
	if err := os.WriteFile(l.Preload[1], []byte("c"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := policies.Parse("cg", 1)
	if err != nil {
		t.Fatal(err)
	}
	pinned, err := Pinned(policies.Layer{Path: path}, s)
	if err != nil || pinned.Name != "l" || pinned.SHA256 == "" || strings.HasPrefix(l.SHA256, pinned.SHA256) {
		t.Errorf("%+v, %v", pinned, err)
	}
	if _, err := Pinned(policies.Layer{Path: path, SHA256: l.SHA256[:policies.HashDigits]}, s); err == nil {
		t.Error("another content is taken")
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"name: l\nmps: true\n", "name: l\nstart: [/bin/true]\nready: /bin/true\n", "env: {A: '{share}'}", "- a", "a: &a {b: *a}", "? a\n: b", "name: !!str l\npreload: |\n  x\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := parse("l.yaml", []byte(text)); err == nil && !name.MatchString(l.Name) {
			t.Errorf("%q: name %q", text, l.Name)
		}
	})
}

// A daemon is ready when its command says so, ends when it is told to, and has said why if it ends before.
func TestDaemon(t *testing.T) {
	const file = "name: l\nstart: [sh, -c, 'echo hello; touch $1/ready; until test -e $1/die; do sleep 0.01; done; exit 3', l, '{dir}']\nready: test -e {dir}/ready\n"
	for _, dies := range []bool{false, true} {
		l, err := Read(t.Context(), write(t, file))
		if err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(t.TempDir(), "runs", "first")
		r, err := l.Prepare(nil, os.Environ(), log)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := r.Rename(log + "-kept"); err != nil {
			t.Error(err)
		}
		if dies {
			if err := os.WriteFile(filepath.Join(r.values["dir"], "die"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			<-r.Done()
		}
		late, err := r.Stop()
		if late != nil || dies != (err != nil) || dies && !strings.Contains(err.Error(), "(exit status 3)") {
			t.Errorf("%v, %v", late, err)
		}
		r.Forget()
		if said, err := os.ReadFile(log + "-kept"); err != nil || string(said) != "hello\n" {
			t.Errorf("%q, %v", said, err)
		}
		if _, err := os.Stat(r.values["dir"]); err == nil {
			t.Error("its directory is left")
		}
	}
}
