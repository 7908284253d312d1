package profiles

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
)

const everyStep = `{"step": "host", "seconds": 0.5}
{"step": "allocate", "object": "a", "bytes": "1.5GiB"}

{"step": "allocate", "object": "m", "bytes": 4096, "managed": true}
{"step": "allocate", "object": "b", "bytes": 1, "binds": true}
{"step": "copy", "object": "a", "direction": "in"}
{"step": "copy", "object": "a", "direction": "out", "bytes": "1KiB", "seconds": 2e-3}
{"step": "kernel", "blocks": 264, "threads": 96, "seconds": 1}
{"step": "kernel", "blocks": 1, "threads": 1024, "seconds": 1, "blocks_per_sm": 2, "reads": ["a"], "writes": [], "stoppable": true}
{"step": "kernel", "blocks": 1, "threads": 1, "seconds": 1, "access": {"a": "cyclic 2.5", "m": "hot 0.9, 0.1"}}
{"step": "kernel", "blocks": 1, "threads": 1, "seconds": 1, "access": {"a": "stream", "m": "random 3"}, "times": 2}
{"step": "free", "object": "a"}
{"step": "allocate", "object": "a", "bytes": 7}
{"step": "barrier"}
{"step": "message", "from": 0, "to": "all", "bytes": "4KiB"}
`

func TestReadSteps(t *testing.T) {
	listing, err := readSteps("own.jsonl", []byte(strings.ReplaceAll(everyStep, "\n", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	got := listing.of(1)
	want := []Step{
		{Kind: Host, S: 0.5},
		{Kind: Allocate, Object: "a", Bytes: 3 << 29},
		{Kind: Allocate, Object: "m", Bytes: 4096, Managed: true, Binds: true},
		{Kind: Allocate, Object: "b", Bytes: 1, Binds: true},
		{Kind: CopyIn, Object: "a", Bytes: 3 << 29},
		{Kind: CopyOut, Object: "a", Bytes: 1024, S: 2e-3},
		{Kind: Kernel, S: 1, Blocks: 264, ThreadsPerBlock: 96},
		{Kind: Kernel, S: 1, Blocks: 1, ThreadsPerBlock: 1024, BlocksPerSM: 2, Reads: []string{"a"}, Writes: []string{}, Stoppable: true},
		{Kind: Kernel, S: 1, Blocks: 1, ThreadsPerBlock: 1, Access: map[string]Access{"a": {Sweeps: 2.5}, "m": {Random: true, HotShare: 0.9, HotPart: 0.1}}},
		{Kind: Kernel, S: 1, Blocks: 1, ThreadsPerBlock: 1, Access: map[string]Access{"a": {}, "m": {Sweeps: 3, Random: true}}},
		{Kind: Kernel, S: 1, Blocks: 1, ThreadsPerBlock: 1, Access: map[string]Access{"a": {}, "m": {Sweeps: 3, Random: true}}},
		{Kind: Free, Object: "a"},
		{Kind: Allocate, Object: "a", Bytes: 7},
		{Kind: Barrier},
		{Kind: Message, Bytes: 4096, From: []int{0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestReadStepsErrors(t *testing.T) {
	const first = `{"step": "allocate", "object": "a", "bytes": 8}` + "\n" + `{"step": "allocate", "object": "m", "bytes": 8, "managed": true}` + "\n"
	for _, c := range []struct{ line, want string }{
		{`{"step": "host", "seconds": 1, "scale": "host"}`, `scale is "host": write "device", as kernels last, "memory", as the memory of the device is fast, or "none", as long on each node`},
		{`{"step": "barriers"}`, `unknown step "barriers": use one of allocate, barrier, copy, free, host, kernel, message`},
		{`{"seconds": 1}`, `unknown step "": use one of allocate, barrier, copy, free, host, kernel, message`},
		{`host 1`, `not a JSON object: invalid character 'h' looking for beginning of value; write a step such as {"step": "host", "seconds": 1}`},
		{`[1]`, `not a JSON object: it is an array: want an object; write a step such as {"step": "host", "seconds": 1}`},
		{`null`, `not a JSON object: it is null; write a step such as {"step": "host", "seconds": 1}`},
		{`{"step": "host", "seconds": 1} {}`, `not a JSON object: invalid character '{' after top-level value; write a step such as {"step": "host", "seconds": 1}`},
		{`{"step": "host"}`, "host without seconds: add it"},
		{`{"step": "host", "seconds": "1"}`, "seconds is a string: want a number"},
		{`{"step": "host", "seconds": -1}`, "seconds is -1: write a number from 0 to 10000000"},
		{`{"step": "host", "seconds": 1e9}`, "seconds is 1e+09: write a number from 0 to 10000000"},
		{`{"step": "host", "seconds": 1, "seconds": 2}`, `key "seconds" twice: remove one`},
		{`{"step": "host", "seconds": null}`, `key "seconds" is null: remove it, or give it a value`},
		{`{"step": "host", "Seconds": 1}`, "host without seconds: add it"},
		{`{"step": "host", "seconds": 1, "object": "a"}`, `key "object" of a step host: use seconds, scale, rank`},
		{`{"step": "allocate", "object": "a", "bytes": 8}`, `object "a" is allocated already: use another name, or free it first`},
		{`{"step": "allocate", "object": "", "bytes": 8}`, `object is "": give it a name`},
		{`{"step": "allocate", "object": "b", "bytes": 0}`, "bytes is 0: write a number from 1 to 70368744177664"},
		{`{"step": "allocate", "object": "b", "bytes": "1GB"}`, `bad size "1GB": write plain bytes or a number with KiB, MiB, GiB or TiB, such as 512MiB`},
		{`{"step": "allocate", "object": "b", "bytes": "65TiB"}`, "bytes is 71468255805440: write a number from 1 to 70368744177664"},
		{`{"step": "copy", "object": "b", "direction": "in"}`, `object "b" is not allocated: allocate it in a line above`},
		{`{"step": "copy", "object": "a", "direction": "up"}`, `direction is "up": write in, which is to the device, or out`},
		{`{"step": "copy", "object": "a", "direction": "in", "bytes": 9}`, `a copy of 9 bytes, but object "a" has 8: copy fewer`},
		{`{"step": "copy", "object": "m", "direction": "in"}`, `object "m" is managed memory, which moves by itself: remove the copy`},
		{`{"step": "kernel", "blocks": 0, "threads": 32, "seconds": 1}`, "a kernel of 0 blocks of 32 threads for 1 seconds: each must be more than 0, and threads 1024 at most"},
		{`{"step": "kernel", "blocks": 1, "threads": 2048, "seconds": 1}`, "a kernel of 1 blocks of 2048 threads for 1 seconds: each must be more than 0, and threads 1024 at most"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 0}`, "a kernel of 1 blocks of 32 threads for 0 seconds: each must be more than 0, and threads 1024 at most"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "writes": ["b"]}`, `object "b" is not allocated: allocate it in a line above`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "reads": [1]}`, "reads is a number: want a string"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "stoppable": 1}`, "stoppable is a number: want true or false"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "times": 2, "endless": true}`, "an endless kernel of 1 seconds, 2 times: write the seconds of one round, and leave times out"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "times": 0}`, "times is 0: write a number from 1 to 1000"},
		{`{"step": "host", "seconds": 1, "stoppable": true}`, `key "stoppable" of a step host: use seconds, scale, rank`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "pressure": -1}`, "pressure is -1: write a number from 0 to 1000"},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "sensitivity": 1001}`, "sensitivity is 1001: write a number from 0 to 1000"},
		{`{"step": "allocate", "object": "a", "bytes": 1, "movable_seconds": -1}`, "movable_seconds is -1: write a number from 0 to 1000"},
		{`{"step": "host", "seconds": 1, "times": 2}`, `key "times" of a step host: use seconds, scale, rank`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "cyclic"}}`, `access "cyclic": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "cyclic 0"}}`, `access "cyclic 0": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "random 2e9"}}`, `access "random 2e9": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "stream 2"}}`, `access "stream 2": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "hot 0.5"}}`, `access "hot 0.5": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "hot 1,0.5"}}`, `access "hot 1,0.5": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "often 2"}}`, `access "often 2": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": "cyclic NaN"}}`, `access "cyclic NaN": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"a": 3}}`, `access "3": write stream, cyclic N, random N (N sweeps, above 0 and up to 1e+09), or hot F,H (two numbers above 0 and below 1)`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "access": {"b": "stream"}}`, `access to object "b", which is not allocated: allocate it in a line above`},
		{`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "writes": ["m"], "access": {"a": "stream"}}`, `access to object "a", which the kernel neither reads nor writes: add it to reads or writes`},
		{`{"step": "free", "object": "b"}`, `object "b" is not allocated: allocate it in a line above`},
	} {
		if _, err := readSteps("own.jsonl", []byte(first+c.line+"\n")); err == nil || err.Error() != "own.jsonl:3: "+c.want {
			t.Errorf("%s\n got %v\nwant own.jsonl:3: %s", c.line, err, c.want)
		}
	}
	if _, err := readSteps("own.jsonl", []byte("\n")); err == nil || !strings.HasPrefix(err.Error(), "own.jsonl:1: no steps: write") {
		t.Errorf("an empty file: %v", err)
	}
	many := strings.Repeat(`{"step": "host", "seconds": 1}`+"\n", maxSteps+1)
	if _, err := readSteps("own.jsonl", []byte(many)); err == nil || err.Error() != "own.jsonl:100001: more than 100000 steps: leave some out" {
		t.Errorf("a long file: %v", err)
	}
	many = `{"step": "allocate", "object": "a", "bytes": 8}` + strings.Repeat("\n"+`{"step": "kernel", "blocks": 1, "threads": 32, "seconds": 1, "times": 1000}`, 100)
	if _, err := readSteps("own.jsonl", []byte(many)); err == nil || err.Error() != "own.jsonl:101: more than 100000 steps: leave some out" {
		t.Errorf("many repeated steps: %v", err)
	}
}

var stepsPlace = regexp.MustCompile(`^f:(\d+): .`)

// Whatever the file, an error names a line of it; and steps use only what is allocated, so that a
// simulated node need not check.
func FuzzSteps(f *testing.F) {
	f.Add([]byte(everyStep))
	f.Add([]byte(`{"step": "kernel", "blocks": 1, "threads": 1, "seconds": 1e-300}` + "\n\n" + `{"step": null}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		listing, err := readSteps("f", text)
		if err != nil {
			if !stepsPlace.MatchString(err.Error()) {
				t.Fatalf("error without its place: %v", err)
			}
			return
		}
		for rank := range mixes.MaxRanks {
			if rank <= listing.highest+1 && listing.reader(rank).err == nil {
				checkSteps(t, listing.of(rank))
			}
		}
	})
}

func checkSteps(t *testing.T, steps []Step) {
	t.Helper()
	objects := map[string]int64{}
	sum := int64(0)
	for i, s := range steps {
		size, there := objects[s.Object]
		ok := s.S >= 0
		switch s.Kind {
		case Host:
		case Allocate:
			ok = ok && !there && s.Bytes > 0 && s.Object != ""
			objects[s.Object] = s.Bytes
			sum += s.Bytes
		case CopyIn, CopyOut:
			ok = ok && there && s.Bytes > 0 && s.Bytes <= size
		case Kernel:
			ok = s.S > 0 && s.Blocks > 0 && s.ThreadsPerBlock > 0
		case Free:
			ok = ok && there
			sum -= size
			delete(objects, s.Object)
		}
		if !ok || sum < 0 {
			t.Fatalf("step %d: %+v", i, s)
		}
	}
}

// One row is six steps beside the allocation's end; each class of kernels is one.
func TestStepsOfARow(t *testing.T) {
	f := mixes.Footprint{Bytes: 100, Blocks: 7, ThreadsPerBlock: 64}
	row := Profile{HostBeforeS: 1, HostHeldS: 2, HostAfterS: 3, CopyInBytes: 40, CopyInS: 4, KernelS: 5, CopyOutBytes: 60, CopyOutS: 6}
	want := []Step{
		{Kind: Host, S: 1},
		{Kind: Allocate, Object: "memory", Bytes: 100, Binds: true},
		{Kind: CopyIn, Object: "memory", Bytes: 40, S: 4},
		{Kind: Kernel, S: 5, Blocks: 7, ThreadsPerBlock: 64},
		{Kind: CopyOut, Object: "memory", Bytes: 60, S: 6},
		{Kind: Host, S: 2},
		{Kind: Free, Object: "memory"},
		{Kind: Host, S: 3},
	}
	if diff := cmp.Diff(want, row.Steps(f, 0)); diff != "" {
		t.Error(diff)
	}
	row.KernelPhases = []KernelPhase{{SMs: 0.5, S: 2}, {SMs: 200, S: 3}}
	want = append(append(want[:3:3], Step{Kind: Kernel, S: 2, SMs: 0.5}, Step{Kind: Kernel, S: 3, SMs: 200}), want[4:]...)
	if diff := cmp.Diff(want, row.Steps(f, 0)); diff != "" {
		t.Error(diff)
	}
}

// A steps file counts before the profile of its job's command, and is read once for all its jobs.
func TestStepsOfAJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "own.jsonl")
	if err := os.WriteFile(path, []byte(everyStep), 0o600); err != nil {
		t.Fatal(err)
	}
	j := mixes.Job{Name: "n", Program: "needle", Args: []string{"16384", "10"}, Steps: path}
	if _, err := Catalog().Lookup(j); err == nil || !strings.Contains(err.Error(), path+" was not read") {
		t.Errorf("before it was read: %v", err)
	}
	set, err := Catalog().WithSteps(t.Context(), []mixes.Job{{Program: "./other"}, j, j})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if set, err = set.WithSteps(t.Context(), []mixes.Job{j}); err != nil {
		t.Fatalf("it was read again: %v", err)
	}
	p, err := set.With(Catalog()).Lookup(j)
	if err != nil || len(p.Listed.of(0)) != 15 || len(p.Steps(j.Footprint, 0)) != 15 || p.Command != "needle 16384 10" || p.WallS() != 0.5+2e-3+5 {
		t.Errorf("%+v, %v", p, err)
	}
	j.Steps = ""
	if p, err = set.Lookup(j); err != nil || p.Listed != nil {
		t.Errorf("without the file: %+v, %v", p, err)
	}
	j.Steps = path + ".not"
	if _, err = set.WithSteps(t.Context(), []mixes.Job{j}); err == nil || !strings.HasPrefix(err.Error(), "the steps of job n: "+path+".not: no such file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Steps may be of some ranks, which must be ranks of each job.
func TestStepsOfRanks(t *testing.T) {
	text := `{"step": "allocate", "object": "a", "bytes": 8, "rank": 0}
{"step": "allocate", "object": "a", "bytes": 9, "rank": [2, 1]}
{"step": "barrier"}
{"step": "kernel", "blocks": 1, "threads": 1, "seconds": 1, "writes": ["a"]}
`
	l, err := readSteps("f", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for rank, bytes := range []int64{8, 9, 9} {
		if steps := l.of(rank); len(steps) != 3 || steps[0].Bytes != bytes || steps[1].Kind != Barrier {
			t.Errorf("rank %d: %+v", rank, steps)
		}
	}
	for ranks, want := range map[int]string{
		2: "f:2: rank 2 of a job with 2: use ranks from 0 to 1, or give the job ranks: 3",
		3: "",
		4: `f:4: object "a" is not allocated: allocate it in a line above (rank 3)`,
	} {
		if err := l.check(&mixes.Job{Ranks: ranks}); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%d ranks: %v, want %q", ranks, err, want)
		}
	}
	for line, want := range map[string]string{
		`{"step": "barrier", "rank": 0}`:                                 "a barrier of some ranks, which waits for all of them: remove rank",
		`{"step": "barrier", "seconds": 1}`:                              `key "seconds" of a step barrier: use step alone`,
		`{"step": "message", "from": 0, "to": 1}`:                        "message without bytes: add it",
		`{"step": "message", "from": 0, "to": 1, "bytes": 0}`:            "bytes is 0: write a number from 1 to 70368744177664",
		`{"step": "message", "from": 0, "to": 0, "bytes": 1}`:            "a message of rank 0 to itself: write another rank",
		`{"step": "message", "from": 0, "to": 1, "bytes": 1, "rank": 0}`: "rank of a message: its ranks are in from and to: remove rank",
		`{"step": "host", "seconds": 1, "rank": -1}`:                     "rank -1: write one from 0 to 255",
		`{"step": "host", "seconds": 1, "rank": 256}`:                    "rank 256: write one from 0 to 255",
		`{"step": "host", "seconds": 1, "rank": [1, 1]}`:                 "rank 1 twice: remove one",
		`{"step": "host", "seconds": 1, "rank": []}`:                     `no ranks: write a number, a list of numbers, or "all"`,
		`{"step": "host", "seconds": 1, "rank": "most"}`:                 `bad ranks "most": write a number, a list of numbers, or "all"`,
		`{"step": "host", "seconds": 1, "rank": 0.5}`:                    `bad ranks 0.5: write a number, a list of numbers, or "all"`,
	} {
		if _, err := readSteps("f", []byte(line)); err == nil || err.Error() != "f:1: "+want {
			t.Errorf("%s: %v\nwant %s", line, err, want)
		}
	}
}

// Each pair of ranks has the message that one sends and the other gets.
func TestSends(t *testing.T) {
	for _, c := range []struct {
		from, to, sends, gets []int
	}{
		{[]int{0}, nil, nil, []int{0}},
		{nil, []int{1}, nil, []int{0, 2}},
		{nil, nil, []int{0, 2}, []int{0, 2}},
		{[]int{1, 2}, []int{0, 1}, []int{0}, []int{2}},
	} {
		s := Step{Kind: Message, From: c.from, To: c.to}
		if to, from := s.Sends(1, 3); !slices.Equal(to, c.sends) || !slices.Equal(from, c.gets) {
			t.Errorf("%v to %v: rank 1 sends to %v and gets from %v, want %v and %v", c.from, c.to, to, from, c.sends, c.gets)
		}
	}
}
