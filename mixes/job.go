// Package mixes has jobs and mixes, the catalog of the CASE paper's mixes, the parsers of users'
// mixes, and the generator of random mixes. In comments, CASE is Chen et al., "CASE: A
// Compiler-Assisted SchEduling Framework for Multi-GPU Systems", PPoPP 2022.
package mixes

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
)

// Job is one entry of a mix: one OS process with its children, or several (Ranks).
type Job struct {
	// Name labels the job in tables. It need not be unique in a mix.
	Name string
	// Program is a program of the suite, or the path of the user's own executable. A path
	// contains a slash and is relative to the directory in which caserun was started. A program
	// of the suite is one of SuitePrograms, or the base name of another executable of the suite.
	// "": the job has Steps or a Profile only, and runs on simulated nodes only.
	Program string
	// Args are the arguments without the program.
	Args []string
	// Stdin is the file used as standard input, relative to the job's working directory; "" is
	// /dev/null.
	Stdin string
	// Dir is the working directory; "" is the suite's data directory.
	Dir string
	// Env holds KEY=VALUE entries added to the parent's environment.
	Env []string
	// Footprint is what is known before the run about the job's need for device resources, on each of its devices.
	Footprint Footprint
	// Class follows from Footprint.Bytes: ClassLarge, ClassSmall, or "" if the bytes are
	// unknown.
	Class string
	// Isolate gives the job exclusive use of its device.
	Isolate bool
	// Long says that the job runs for long, so that short ones go before it on a cluster (policy latency of schedulers/cluster).
	Long bool `json:",omitzero"`
	// Computes says that the job's time depends on what each rank computes more than on messages between ranks, so that its ranks may
	// be on several nodes of a cluster (policies coloc and latency of schedulers/cluster).
	Computes bool `json:",omitzero"`
	// KnownFault says that the program is known to fault, for example to read out of bounds. A
	// run may keep it away from other jobs (policies.Scheduler).
	KnownFault bool `json:",omitempty"`
	// CheckStatus is the exit status with which the program says that its own output check failed;
	// 0: it declares no check (suites.Checks).
	CheckStatus int `json:",omitempty"`
	// Restartable says whether the job does the same if it is stopped and started again. nil: as its suite says
	// (suites.Restartable). Not beside Ranks.
	Restartable *bool `json:",omitempty"`
	// RestartKernels are names of kernels, as in their source without namespaces, that give the same result when they are begun
	// again. So they may be stopped (docs/design/movable-memory.md).
	RestartKernels []string `json:",omitempty"`
	// UntilOthersEnd makes the job a companion: it is ended once all jobs of its group that are not companions have ended.
	UntilOthersEnd bool `json:",omitempty"`
	// Group says when the job arrives. Group 0 arrives with the batch. Every other group arrives
	// when the last job of the preceding group has ended. A mix lists its jobs by group.
	Group int `json:",omitempty"`
	// At is when the job arrives, since the batch's arrival. A mix lists its jobs by it. Not beside groups.
	At time.Duration `json:",omitempty"`
	// Priority orders waiting tasks under the priority queue orders; the largest goes first, 0
	// last.
	Priority int
	// Ranks is how many processes of the command the job has; they start and end together. 0: one that
	// knows nothing of ranks. The footprint is that of each.
	Ranks int `json:",omitempty"`
	// Portions is how many processes of the command do the job. Each starts where and when the scheduler has room for it, as a job
	// of one process does. 0: one that knows nothing of portions. The footprint, Timeout and Wait are those of each.
	Portions int `json:",omitempty"`
	// Portion is which of them the job is, from 1 on, in a mix of portions (Mix.Apart); 0: it is all of them.
	Portion int `json:",omitempty"`
	// Pin keeps the device that the job chooses itself, if the scheduler binds tasks. If the
	// whole job is bound, it sees only the device to which it is bound.
	Pin bool
	// Binding says when the job's device is chosen.
	Binding Binding
	// GPUs is how many devices the job has at once, from two on; 0: it has one. Its binding is BindDeclared.
	GPUs int `json:",omitempty"`
	// Share is the part of a device's time that the job asks for, above 0 and up to 1; 0: it asks for none.
	Share float64 `json:",omitempty"`
	// Timeout is the longest run time of the job; 0: the run's own limit.
	Timeout time.Duration
	// Wait is the longest time that a request of the job waits for a device or for memory, in
	// whole milliseconds; nil: as long as the scheduler allows; 0: it does not wait.
	Wait *time.Duration `json:",omitempty"`
	// MaxWait is how long a burst of the job waits until others are stopped for it, where the scheduler stops them; 0: as
	// long as the scheduler says.
	MaxWait time.Duration `json:",omitempty"`
	// Deadline is how long after its arrival the job should have ended; 0: it has no deadline.
	Deadline time.Duration `json:",omitempty"`
	// User is whose job it is; "": nobody says. Credits are that user's in the mix; 0: one.
	User    string `json:",omitempty"`
	Credits int    `json:",omitempty"`
	// Profile says what the job does alone, for simulated nodes; nil: its measured profile counts.
	Profile *Profile `json:",omitempty"`
	// Steps is a file with the steps that the job does alone, for simulated nodes, relative to the
	// directory in which caserun was started; "": Profile counts, or the measured profile.
	Steps string `json:",omitempty"`
}

// Check is what a job's exit status says of its output.
type Check struct {
	Failed int  // the exit status with which a check of the output failed; 0: no status says that
	Passes bool // with exit status 0 a check has passed
}

// Footprint is a job's largest need for one device. A zero field is unknown.
type Footprint struct {
	// Bytes is the largest device memory that one kernel of the job needs, without the CUDA
	// context.
	Bytes int64
	// Blocks is the number of blocks of the job's main kernel: the product of the grid's
	// dimensions.
	Blocks uint64
	// ThreadsPerBlock is the number of threads in a block of that kernel.
	ThreadsPerBlock uint32
}

// Binding says when a job's device is chosen under a task-bound scheduler.
type Binding uint8

const (
	// BindProbe places each task when the job's probe asks for it.
	BindProbe Binding = iota
	// BindDeclared places the whole job before exec, by its declared footprint. It is for
	// programs that the probe cannot serve.
	BindDeclared
)

// String returns the spelling for the YAML key binding.
func (b Binding) String() string {
	switch b {
	case BindProbe:
		return "probe"
	case BindDeclared:
		return "declared"
	}
	return "Binding(" + strconv.Itoa(int(b)) + ")"
}

// The two classes of CASE section 5.2. A job is large if one of its kernels needs more than
// LargeThreshold bytes of device memory.
const (
	ClassLarge = "large"
	ClassSmall = "small"

	LargeThreshold int64 = 4 << 30
)

// SuitePrograms returns the names of the programs that every suite has, spelled as in Tables 1
// and 5 of CASE, of the programs of benchmarks/pilot, benchmarks/node and benchmarks/cluster, and of the PyTorch programs.
func SuitePrograms() []string { return slices.Clone(suitePrograms) }

var suitePrograms = []string{
	"backprop", "bfs", "srad_v1/srad", "srad_v2/srad", "dwt2d", "needle", "lavaMD", "darknet",
	"pilot/pagedos", "pilot/vectoradd", "pilot/backprop", "pilot/bfs", "pilot/hs3d", "pilot/partfilter", "pilot/lavamd",
	"pilot/nn", "pilot/gaussian", "pilot/corr", "pilot/gesummv", "pilot/2dconvol",
	"node/bp", "node/bfs", "node/hs", "node/nw", "node/sp", "node/mt", "node/pr", "node/sc", "node/bs", "node/va", "node/mm", "node/synth",
	"cluster/mm", "cluster/nw", "cluster/adfa",
	"torch/cnn.py", "torch/decode.py", "torch/diffusion.py", "torch/embedding.py",
	"torch/graphnet.py", "torch/graphs.py", "torch/tabular.py", "torch/transformer.py",
}

// distinct are folders of programs that have names of other programs, too.
var distinct = []string{"pilot", "node", "cluster"}

// OnlySimulated reports whether no GPU can run the job.
func (j Job) OnlySimulated() bool { return j.Program == "" }

// Processes is how many processes of the job's command start.
func (j *Job) Processes() int { return max(j.Ranks, 1) }

// Single returns the job with one process on one device, which is what profiles tell of. It still hears of ranks or portions if j
// does.
func (j Job) Single() Job {
	j.Ranks, j.GPUs = min(j.Ranks, 1), 0
	j.Portions, j.Portion = min(j.Portions, 1), min(j.Portions, 1)
	return j
}

// Command returns the program and its arguments, then "< file" if the job reads a file. It
// identifies jobs that run the same command. Ambiguous words are quoted, so different commands
// have different identities. Of a job without a program it is "steps: file", or "profile: name". A job of several
// ranks begins with their number, as in "4 ranks: ./solver", one of several portions as in "6 portions: ./solver", a portion of
// it as in "a portion of 6: ./solver", and one of several devices as in "2 GPUs: ./solver".
func (j Job) Command() string {
	var buffer [128]byte
	return string(j.AppendCommand(buffer[:0]))
}

// AppendCommand appends Command to b.
func (j *Job) AppendCommand(b []byte) []byte {
	if j.Ranks > 1 {
		b = append(strconv.AppendInt(b, int64(j.Ranks), 10), " ranks: "...)
	}
	switch {
	case j.Portions <= 1:
	case j.Portion > 0:
		b = append(strconv.AppendInt(append(b, "a portion of "...), int64(j.Portions), 10), ": "...)
	default:
		b = append(strconv.AppendInt(b, int64(j.Portions), 10), " portions: "...)
	}
	if j.GPUs > 1 {
		b = append(strconv.AppendInt(b, int64(j.GPUs), 10), " GPUs: "...)
	}
	if j.Program == "" && j.Steps != "" {
		return appendWord(append(b, "steps: "...), j.Steps)
	}
	if j.Program == "" && j.Profile != nil {
		return appendWord(append(b, "profile: "...), j.Name)
	}
	b = appendWord(b, j.Program)
	for _, a := range j.Args {
		b = appendWord(append(b, ' '), a)
	}
	if j.Stdin != "" {
		b = appendWord(append(b, " < "...), j.Stdin)
	}
	return b
}

// appendWord appends a word, quoted where it must be.
func appendWord(b []byte, w string) []byte {
	plain := w != "" && w != "<"
	for i := 0; i < len(w) && plain; i++ {
		plain = w[i] > ' ' && w[i] < 0x7f && w[i] != '"' && w[i] != '\\'
	}
	if plain {
		return append(b, w...)
	}
	quoted := strconv.Quote(w)
	if w == "" || w == "<" || strings.ContainsAny(w, " \t\"") || quoted != `"`+w+`"` {
		return append(b, quoted...)
	}
	return append(b, w...) // printable, beyond ASCII
}

// OfSuite reports whether the job's program is a program of the suite.
func (j Job) OfSuite() bool {
	return slices.Contains(suitePrograms, j.Program) || j.Program != "" && !strings.Contains(j.Program, "/")
}

// OfTorch reports whether the job's program is one of the PyTorch programs, which every suite has, because they need no build.
func (j Job) OfTorch() bool { return strings.HasPrefix(j.Program, "torch/") && j.OfSuite() }

// ReadsNone reports whether the job's program is one of PILOT's, of benchmarks/node or of benchmarks/cluster, which read no files.
func (j Job) ReadsNone() bool { return slices.Contains(distinct, path.Dir(j.Program)) && j.OfSuite() }

// FromCommand returns the job of a command line. A first word without a slash, or equal to one
// of SuitePrograms, is a program of the suite; the job then has what the catalog knows of the
// command. Any other program is the user's own and runs in the directory in which caserun was
// started.
func FromCommand(words []string) Job {
	program := words[0]
	j := Job{Name: labelOf(program), Program: program, Args: slices.Clone(words[1:])}
	if j.OfSuite() {
		return identify(j, builtin().jobs)
	}
	j.Dir = "."
	return j
}

// WithFootprint returns the job with another footprint and the class that follows from it.
func (j Job) WithFootprint(f Footprint) Job {
	j.Footprint, j.Class = f, classOf(f.Bytes)
	return j
}

// clone also copies the slices, so that callers cannot change the catalog.
func (j Job) clone() Job {
	j.Args, j.Env, j.RestartKernels, j.Profile = slices.Clone(j.Args), slices.Clone(j.Env), slices.Clone(j.RestartKernels), j.Profile.clone()
	return j
}

func (j Job) equal(k Job) bool {
	return j.Name == k.Name && j.Program == k.Program && slices.Equal(j.Args, k.Args) &&
		j.Stdin == k.Stdin && j.Dir == k.Dir && slices.Equal(j.Env, k.Env) &&
		j.Footprint == k.Footprint && j.Class == k.Class && j.Isolate == k.Isolate && j.Long == k.Long && j.Computes == k.Computes &&
		j.KnownFault == k.KnownFault && j.CheckStatus == k.CheckStatus && j.Group == k.Group && j.At == k.At && j.Priority == k.Priority &&
		j.Ranks == k.Ranks && j.Portions == k.Portions && j.Portion == k.Portion && j.Pin == k.Pin && j.Binding == k.Binding && j.GPUs == k.GPUs && j.Share == k.Share && j.Timeout == k.Timeout && j.Deadline == k.Deadline && j.MaxWait == k.MaxWait && j.User == k.User && j.Credits == k.Credits &&
		same(j.Wait, k.Wait) && same(j.Restartable, k.Restartable) && j.UntilOthersEnd == k.UntilOthersEnd && slices.Equal(j.RestartKernels, k.RestartKernels) && j.Profile.equal(k.Profile) && j.Steps == k.Steps
}

// same reports whether both are nil, or point to the same value.
func same[T comparable](a, b *T) bool { return a == b || a != nil && b != nil && *a == *b }

// Mix is a named list of jobs that arrive together, group by group, or at times of their own.
type Mix struct {
	Name        string
	Description string
	// Ratio is large:small, such as "3:1", or "" if the mix has none.
	Ratio string
	// Source is "catalog", the path of the file, or "generated: ...".
	Source string
	Jobs   []Job
	// Arrivals say when the jobs arrive; nil: each job says that itself.
	Arrivals *Arrivals
	// Lines are the lines of the jobs in the file; nil if the jobs are not from a file.
	Lines []int
	// Notes say what of the file the jobs leave out, one line for each note, with the place in
	// the file.
	Notes []string
}

// Where says where a job is in the mix's file, or "" if it is in none.
func (m Mix) Where(job int) string {
	if job >= len(m.Lines) {
		return ""
	}
	return m.Source + ":" + strconv.Itoa(m.Lines[job])
}

func (m Mix) clone() Mix {
	jobs := make([]Job, len(m.Jobs))
	for i, j := range m.Jobs {
		jobs[i] = j.clone()
	}
	m.Jobs = jobs
	return m
}

func classOf(bytes int64) string {
	switch {
	case bytes <= 0:
		return ""
	case bytes > LargeThreshold:
		return ClassLarge
	}
	return ClassSmall
}

// labelOf returns the default name of a job: the program's base name. For srad it is the
// directory, which distinguishes the two versions.
func labelOf(program string) string {
	base, dir := path.Base(program), path.Dir(program)
	if slices.Contains(distinct, dir) {
		return dir + "-" + input.Name(base)
	}
	if dir = path.Base(dir); base == "srad" && (dir == "srad_v1" || dir == "srad_v2") {
		return dir
	}
	return input.Name(base)
}

// Distinct are the mix's jobs with different commands, in its order.
func (m Mix) Distinct() []Job {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(m.Jobs), func(j Job) bool {
		again := seen[j.Command()]
		seen[j.Command()] = true
		return again
	})
}
