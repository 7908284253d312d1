package traces

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/mixes"
)

// pods are rows in the form of the openb trace.
const pods = `name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,1000,,LS,Running,0,7200000,0
pod-1,6000,12288,1,460,,LS,Succeeded,100,130,110
pod-2,1500,12288,0,0,,LS,Succeeded,100,130,110
pod-3,6000,12288,1,460,,BE,Pending,150,160,
pod-4,96000,12288,2,1000,V100,LS,Succeeded,200.5,300,200.5
pod-5,6000,12288,16,1000,,LS,Succeeded,200.5,300,200.5
pod-6,6000,12288,1,500,,LS,Succeeded,900,901,900
`

// read is the mix of a trace as YAML, with its notes.
func read(t *testing.T, text string, o Options) (yaml string, notes []string, err error) {
	t.Helper()
	m, notes, err := Read("pods.csv", strings.NewReader(text), o)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if err := mixes.WriteYAML(&b, m); err != nil {
		t.Fatal(err)
	}
	_, jobs, _ := strings.Cut(b.String(), "jobs:\n")
	return jobs, notes, nil
}

func TestTraceOfACluster(t *testing.T) {
	o := Presets["openb"]
	o.LeaveOut = true
	jobs, notes, err := read(t, pods, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`  - name: pod-0
    env: [TRACE_CPUS=12]
    share: 1
    profile: {rounds: 1, phases: [{kernel: 1000h0m0s}, {kernel: 1000h0m0s}]}
  - name: pod-1
    env: [TRACE_CPUS=6]
    at: 1m40s
    share: 0.46
    profile: {rounds: 1, phases: [{kernel: 20s}]}
  - name: pod-4
    memory: 1MiB
    env: [TRACE_CPUS=96]
    isolate: true
    at: 3m20.5s
    binding: declared
    gpus: 2
    profile: {rounds: 1, phases: [{kernel: 1m39.5s}]}
  - name: pod-6
    env: [TRACE_CPUS=6]
    at: 15m0s
    share: 0.5
    profile: {rounds: 1, phases: [{kernel: 1s}]}
`, jobs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"pods.csv:4: 1 row without a GPU, this one first", "pods.csv:5: 1 row without a start, this one first",
		"pods.csv:7: 1 row with more than 8 GPUs, this one first"}, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	o.From, o.To, o.Speed, o.Limit, o.NodeCPUs = 100e9, 800e9, 10, 1, 64
	jobs, notes, err = read(t, pods, o)
	if want := "  - name: pod-1\n    env: [TRACE_CPUS=6]\n    share: 0.46\n    profile: {rounds: 1, phases: [{kernel: 2s}]}\n"; err != nil || jobs != want || len(notes) != 0 {
		t.Errorf("a window of the trace, 10 times as fast, of one job: %q, notes %q, %v", jobs, notes, err)
	}
	o.Limit = 0
	if _, notes, _ = read(t, pods, o); len(notes) != 4 || !strings.Contains(notes[2], "with more than 64 CPUs") {
		t.Errorf("on a node of 64 CPUs: %q", notes)
	}
}

func TestColumnsOfATrace(t *testing.T) {
	o := Default()
	o.Memory, o.MemoryUnit = "mem", 1<<30
	jobs, _, err := read(t, "mem, submit_s,duration_s\n2,\" 1e3\", 0.25\n0,1000,4\n", o)
	if want := "  - name: row-2\n    memory: 2GiB\n    profile: {rounds: 1, phases: [{kernel: 250ms}]}\n  - name: row-3\n    profile: {rounds: 1, phases: [{kernel: 4s}]}\n"; err != nil || jobs != want {
		t.Errorf("%q, %v", jobs, err)
	}
}

func TestBadTraces(t *testing.T) {
	o := Default()
	for _, c := range []struct{ text, want string }{
		{"", "pods.csv:1: an empty file"},
		{"submit_s,duration_s\n", "no row behind the header"},
		{strings.Repeat("x", 1e5) + "\n1\n", "xxx … (100000 bytes)"},
		{"submit_s,duration_s,duration_s\n1,2,3\n", `pods.csv:1: two columns "duration_s"`},
		{"submit_s\n1\n", `pods.csv:1: no column "duration_s"`},
		{"submit_s,duration_s\n5,1\n4,1\n", "pods.csv:3: submit_s 4 is before that of line 2: sort the file by it"},
		{"submit_s,duration_s\n-1,1\n", `pods.csv:2: bad submit_s "-1": want a number from 0 to 1e+12`},
		{"submit_s,duration_s\n1,NaN\n", `pods.csv:2: bad duration_s "NaN"`},
		{"submit_s,duration_s\ninf,1\n", `pods.csv:2: bad submit_s "inf"`},
		{"submit_s,duration_s\n1,\n", `pods.csv:2: bad duration_s ""`},
		{"submit_s,duration_s\n0,1\n4e7,1\n", "pods.csv:3: submit_s 4e+07 is more than a year after the first job: set --to, or a larger --speed"},
		{"submit_s,duration_s\n0,1e9\n", "pods.csv:2: the job takes 1e+09 s"},
		{"submit_s,duration_s\n0,0\n", "pods.csv:2: 1 row without a duration"},
		{"submit_s,duration_s\n0,1,2\n", "pods.csv:2: not CSV: wrong number of fields"},
	} {
		if _, _, err := read(t, c.text, o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.text, err, c.want)
		}
	}
	openb := Presets["openb"]
	for row, want := range map[string]string{
		"a,1000,1,1.5,1000,,,,0,2,1\n":  `bad num_gpu "1.5": want a whole number`,
		"a,1000,1,1,1000,,,,5,2,1\n":    "creation_time, scheduled_time and deletion_time are 5, 1 and 2: want times in this order",
		"a,1000,1,1,1500,,,,0,2,1\n":    "with a share of more than a whole GPU",
		"\"\",1000,1,1,1500,,,,0,2,1\n": `bad name ""`,
		"a,1000,1,1,1000,,,,0,,1\n":     `bad deletion_time ""`,
		"a,1000,1,9,1000,,,,0,2,1\n":    "one node of 8 GPUs cannot serve all rows: pods.csv:2: 1 row with more than 8 GPUs, this one first; --leave-out leaves them out",
	} {
		header, _, _ := strings.Cut(pods, "\n")
		if _, _, err := read(t, header+"\n"+row, openb); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", row, err, want)
		}
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Submit = "" }, func(o *Options) { o.Duration = "" }, func(o *Options) { o.Start, o.End = "a", "b" }, func(o *Options) { o.Start = "a" }, func(o *Options) { o.End = "b" }, func(o *Options) { o.Speed = 0 },
		func(o *Options) { o.Limit = -1 }, func(o *Options) { o.From, o.To = 5, 5 }, func(o *Options) { o.NodeGPUs = 0 }, func(o *Options) { o.NodeCPUs = -1 }, func(o *Options) { o.Whole = 0 },
	} {
		bad := Default()
		change(&bad)
		if _, _, err := read(t, "submit_s,duration_s\n0,1\n", bad); err == nil {
			t.Errorf("options %+v", bad)
		}
	}
}

func TestTimesBeyondAYear(t *testing.T) {
	for text, want := range map[string]string{
		"0,5\n1e12,5\n": "pods.csv:3: submit_s 1e+12 is more than a year after the first job",
		"0,1e11\n":      "pods.csv:2: the job takes 1e+11 s: want 100000h0m0s at most",
		"0,1e18\n":      `pods.csv:2: bad duration_s "1e18": want a number from 0 to 1e+12`,
	} {
		if _, _, err := read(t, "submit_s,duration_s\n"+text, Default()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
