// Package mixes holds what a run starts: jobs, the mixes they come in, the
// catalog of the CASE paper's mixes, the parsers of the user's own mixes and
// the generator of random ones. CASE, here and in the comments, is Chen et al.,
// "CASE: A Compiler-Assisted SchEduling Framework for Multi-GPU Systems",
// PPoPP 2022.
package mixes

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Job is one entry of a mix: one OS process with its children.
type Job struct {
	// Name labels the job in tables. It is not unique within a mix.
	Name string
	// Program is a suite's program or the path of the user's own executable, which
	// always contains a slash. A suite's is one of SuitePrograms, or the base name of
	// any other executable of the suite. A relative path is relative to the directory
	// that caserun was started in.
	Program string
	// Args are the arguments without the program.
	Args []string
	// Stdin is the file given as standard input, relative to the job's working
	// directory; "" is /dev/null.
	Stdin string
	// Dir is the working directory; "" is the suite's data directory.
	Dir string
	// Env holds KEY=VALUE entries added to the parent's environment.
	Env []string
	// Footprint is what is known of the job's device needs before it runs.
	Footprint Footprint
	// Class follows from Footprint.Bytes: ClassLarge, ClassSmall, or "" when
	// the bytes are unknown.
	Class string
	// Isolate gives the job a device that it shares with nobody.
	Isolate bool
	// KnownFault says that the program is known to fault, such as to read out of
	// bounds. A run may keep it away from the others (policies.Scheduler).
	KnownFault bool `json:",omitempty"`
	// Group is when the job arrives: a job of group 0 with the batch, others together
	// with their group when the last job of the group before has ended. A mix lists its
	// jobs by group.
	Group int `json:",omitempty"`
	// Priority orders waiting tasks under the priority queue orders; larger goes
	// first, 0 last.
	Priority int
	// Pin keeps the device that the job chooses itself, under a scheduler that
	// binds tasks. Where the whole job is bound it sees that device only.
	Pin bool
	// Binding says when the job's device is chosen.
	Binding Binding
	// Timeout ends the job after this long; 0 is the run's own limit.
	Timeout time.Duration
	// Wait is the longest that a request of the job waits for a device or for memory, in whole
	// milliseconds; nil: as long as the scheduler allows; 0: it does not wait.
	Wait *time.Duration `json:",omitempty"`
}

// Footprint is a job's largest need for one device. A zero field is unknown.
type Footprint struct {
	// Bytes is the largest device memory that one kernel of the job needs,
	// without the CUDA context.
	Bytes int64
	// Blocks is the grid of the job's main kernel, all dimensions multiplied.
	Blocks uint64
	// ThreadsPerBlock is the block of the same kernel, multiplied likewise.
	ThreadsPerBlock uint32
}

// Binding says when a job's device is chosen under a task-bound scheduler.
type Binding uint8

const (
	// BindProbe waits for the job's probe to ask, task by task.
	BindProbe Binding = iota
	// BindDeclared places the whole job by its declared footprint before exec,
	// for programs that the probe cannot serve.
	BindDeclared
)

// String is the spelling that the YAML key binding takes.
func (b Binding) String() string {
	switch b {
	case BindProbe:
		return "probe"
	case BindDeclared:
		return "declared"
	}
	return "Binding(" + strconv.Itoa(int(b)) + ")"
}

// The two classes of CASE section 5.2: a job is large if a kernel of it needs
// more than LargeThreshold bytes of device memory.
const (
	ClassLarge = "large"
	ClassSmall = "small"

	LargeThreshold int64 = 4 << 30
)

// SuitePrograms are the program names that a suite provides, spelled as in
// Table 1 and Table 5 of CASE.
func SuitePrograms() []string { return slices.Clone(suitePrograms) }

var suitePrograms = []string{
	"backprop", "bfs", "srad_v1/srad", "srad_v2/srad", "dwt2d", "needle", "lavaMD", "darknet",
}

// Command is the identity that pairs runs of the same command: program and
// arguments, then "< file" if the job reads one. Words that a reader could
// split or take for something else are quoted, so different commands have
// different identities.
func (j Job) Command() string {
	words := make([]string, 0, len(j.Args)+3)
	words = append(words, quoteWord(j.Program))
	for _, a := range j.Args {
		words = append(words, quoteWord(a))
	}
	if j.Stdin != "" {
		words = append(words, "<", quoteWord(j.Stdin))
	}
	return strings.Join(words, " ")
}

func quoteWord(w string) string {
	quoted := strconv.Quote(w)
	if w == "" || w == "<" || strings.ContainsAny(w, " \t\"") || quoted != `"`+w+`"` {
		return quoted
	}
	return w
}

// OfSuite reports whether the job's program is one of the suite's, whichever the
// suite is.
func (j Job) OfSuite() bool {
	return slices.Contains(suitePrograms, j.Program) || !strings.Contains(j.Program, "/")
}

// FromCommand is the job of a command line: a suite's program where the first word
// is exactly one's name, with what the catalog knows of the command, else the
// user's own program, which runs in the directory that caserun was started in.
func FromCommand(words []string) Job {
	program := words[0]
	j := Job{Name: labelOf(program), Program: program, Args: slices.Clone(words[1:])}
	if j.OfSuite() {
		return identify(j, builtin().jobs)
	}
	j.Dir = "."
	return j
}

// WithFootprint is the job with another footprint and the class that follows.
func (j Job) WithFootprint(f Footprint) Job {
	j.Footprint, j.Class = f, classOf(f.Bytes)
	return j
}

// clone copies the slices too, so that callers cannot change the catalog.
func (j Job) clone() Job {
	j.Args, j.Env = slices.Clone(j.Args), slices.Clone(j.Env)
	return j
}

func (j Job) equal(k Job) bool {
	return j.Name == k.Name && j.Program == k.Program && slices.Equal(j.Args, k.Args) &&
		j.Stdin == k.Stdin && j.Dir == k.Dir && slices.Equal(j.Env, k.Env) &&
		j.Footprint == k.Footprint && j.Class == k.Class && j.Isolate == k.Isolate &&
		j.KnownFault == k.KnownFault && j.Group == k.Group && j.Priority == k.Priority &&
		j.Pin == k.Pin && j.Binding == k.Binding && j.Timeout == k.Timeout &&
		(j.Wait == nil) == (k.Wait == nil) && (j.Wait == nil || *j.Wait == *k.Wait)
}

// Mix is a named list of jobs that arrive together, or group by group.
type Mix struct {
	Name        string
	Description string
	// Ratio is large:small, such as "3:1", or "" when the mix has none.
	Ratio string
	// Source is "catalog", the path of the file, or "generated: ...".
	Source string
	Jobs   []Job
	// Notes say what the file has that the jobs do not, one line each, with its place.
	Notes []string
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

// labelOf is a job's name when none is given: the program's base name, or for
// srad its directory, which tells the two versions apart.
func labelOf(program string) string {
	base := path.Base(program)
	if dir := path.Base(path.Dir(program)); base == "srad" && (dir == "srad_v1" || dir == "srad_v2") {
		return dir
	}
	return base
}
