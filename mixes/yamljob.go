package mixes

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

var jobKeys = []string{
	"job", "program", "args", "stdin", "dir", "env", "memory", "blocks", "threads_per_block",
	"isolate", "faults", "group", "priority", "pin", "binding", "timeout", "wait", "count", "name",
}

// maxThreadsPerBlock is CUDA's limit since compute capability 2.0.
const maxThreadsPerBlock = 1024

// knownFault is the value of the key faults.
const knownFault = "known"

// noWait is the value of the key wait for a job whose requests do not wait.
const noWait = "none"

// maxWait is what libcase can say, which counts milliseconds in 32 bits, or less.
const maxWait = 1000 * time.Hour

// maxPriority keeps a typo from being one.
const maxPriority = 1000

// job reads one entry of jobs and how often it is repeated.
func (r *yamlReader) job(n ast.Node) (j Job, count int) {
	switch n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return r.catalogJob(n), 1
	case *ast.NullNode:
		r.fail(n.GetToken(), "remove the dash or write a job after it", "a job is empty")
		return Job{}, 0
	}
	fields := r.fields(n, "a job", jobKeys)
	if fields == nil {
		return Job{}, 0
	}
	if ref, found := fields["job"]; found {
		j = r.catalogJob(ref.value)
		for _, key := range []string{"program", "args", "stdin"} {
			if f, found := fields[key]; found {
				r.fail(f.key, "use program: instead of job: for another command", "%s beside job: a catalog job has its own command", key)
			}
		}
	} else {
		j = r.ownCommand(n, fields)
	}
	r.settings(&j, fields)
	count = 1
	if f, found := fields["count"]; found {
		count = int(r.number(f.value, "count", maxJobs))
	}
	j.Class = classOf(j.Footprint.Bytes)
	return j, count
}

func (r *yamlReader) catalogJob(n ast.Node) Job {
	name, ok := r.text(n, "job")
	if !ok {
		return Job{}
	}
	j, found := r.jobs.byName[name]
	if !found {
		r.fail(n.GetToken(), didYouMean(name, r.jobs.names), "no catalog job %q", name)
	}
	return j.clone()
}

// ownCommand reads program, args and stdin.
func (r *yamlReader) ownCommand(n ast.Node, fields map[string]field) (j Job) {
	f, found := fields["program"]
	if !found {
		r.fail(firstToken(n), "write program: and a path, or job: and a catalog job", "a job without a program")
		return j
	}
	if program, ok := r.text(f.value, "program"); ok {
		if !slices.Contains(suitePrograms, program) && !strings.Contains(program, "/") && (program == "" || r.has == nil || !r.has(program)) {
			r.fail(f.value.GetToken(), didYouMean(program, suitePrograms)+" ("+moreOfSuite(r.has)+"; your own executable needs a slash: ./"+program+")",
				"no suite program %q", program)
		}
		j.Program, j.Name = program, labelOf(program)
	}
	if f, found := fields["args"]; found {
		j.Args = r.args(f.value)
	}
	if f, found := fields["stdin"]; found {
		j.Stdin = r.filled(f.value, "stdin")
	}
	return j
}

// settings reads the keys that a catalog job may carry too.
func (r *yamlReader) settings(j *Job, fields map[string]field) {
	if f, found := fields["name"]; found {
		j.Name = r.label(f.value, "name")
	}
	if f, found := fields["dir"]; found {
		j.Dir = r.filled(f.value, "dir")
	}
	if f, found := fields["env"]; found {
		j.Env = r.env(f.value)
	}
	if f, found := fields["memory"]; found {
		j.Footprint.Bytes = r.memory(f.value)
	}
	if f, found := fields["blocks"]; found {
		j.Footprint.Blocks = r.number(f.value, "blocks", 1<<62)
	}
	if f, found := fields["threads_per_block"]; found {
		j.Footprint.ThreadsPerBlock = uint32(r.number(f.value, "threads_per_block", maxThreadsPerBlock))
	}
	if f, found := fields["isolate"]; found {
		j.Isolate = r.flag(f.value, "isolate")
	}
	if f, found := fields["faults"]; found {
		j.KnownFault = r.faults(f.value)
	}
	if f, found := fields["group"]; found {
		j.Group = int(r.number(f.value, "group", maxJobs))
	}
	if f, found := fields["priority"]; found {
		j.Priority = int(r.number(f.value, "priority", maxPriority))
	}
	if f, found := fields["pin"]; found {
		j.Pin = r.flag(f.value, "pin")
	}
	if f, found := fields["timeout"]; found {
		j.Timeout = r.timeout(f.value)
	}
	if f, found := fields["wait"]; found {
		j.Wait = r.wait(f.value)
	}
	f, found := fields["binding"]
	if !found {
		return
	}
	switch s, ok := r.text(f.value, "binding"); {
	case !ok || s == BindProbe.String():
	case s == BindDeclared.String():
		j.Binding = BindDeclared
		if _, stated := fields["memory"]; !stated && j.Footprint.Bytes == 0 {
			r.fail(f.key, "add memory:, such as memory: 2GiB", "binding: declared needs the job's memory")
		}
	default:
		r.fail(f.value.GetToken(), "write probe or declared", "bad binding %q", s)
	}
}

// args is a list of arguments, or one string that is split at spaces and tabs.
// The string knows no quotes and no escapes, so it may not contain any.
func (r *yamlReader) args(n ast.Node) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		s, _ := r.text(n, "args")
		if strings.ContainsAny(s, "\"'\\") {
			r.fail(n.GetToken(), `write a list: args: [-m, "two words"]`, "args as one string has quotes or a backslash, which it does not interpret")
		}
		return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(" \t\r\n", c) })
	}
	var args []string
	for _, item := range list.Values {
		if s, ok := r.text(item, "an item of args"); ok {
			if strings.ContainsRune(s, 0) {
				r.fail(item.GetToken(), "remove it", "an item of args has a NUL character")
			}
			args = append(args, s)
		}
	}
	return args
}

func (r *yamlReader) env(n ast.Node) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(firstToken(n), "write a list: env: [KEY=VALUE]", "env is %s", kindOf(n))
		return nil
	}
	var env []string
	seen := map[string]bool{}
	for _, item := range list.Values {
		s, ok := r.text(item, "an item of env")
		key, _, assigned := strings.Cut(s, "=")
		switch {
		case !ok:
		case !assigned || key == "" || strings.ContainsRune(s, 0):
			r.fail(item.GetToken(), "write KEY=VALUE", "bad environment entry %q", s)
		case seen[key]:
			r.fail(item.GetToken(), "remove one", "environment variable %q again", key)
		default:
			seen[key] = true
			env = append(env, s)
		}
	}
	return env
}

// label is a name that fits on one line of a table.
func (r *yamlReader) label(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if ok && (s == "" || strings.TrimSpace(s) != s || strings.ContainsFunc(s, isControl)) {
		r.fail(n.GetToken(), "write a word or a few on one line", "bad %s %q", what, s)
	}
	return s
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }

func (r *yamlReader) filled(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if ok && (s == "" || strings.ContainsRune(s, 0)) {
		r.fail(n.GetToken(), "write a path or remove the key", "bad %s %q", what, s)
	}
	return s
}

func (r *yamlReader) memory(n ast.Node) int64 {
	s, ok := r.text(n, "memory")
	if !ok {
		return 0
	}
	b, err := ParseBytes(s)
	switch {
	case err != nil:
		r.fail(n.GetToken(), "", "memory: %v", err)
	case b == 0:
		r.fail(n.GetToken(), "remove the key if it is unknown", "memory is 0")
	}
	return b
}

// number is a whole number from 1 to limit; it is 0 after an error.
func (r *yamlReader) number(n ast.Node, what string, limit uint64) uint64 {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	v, err := strconv.ParseUint(s, 10, 64)
	if err != nil || v < 1 || v > limit {
		r.fail(n.GetToken(), "write a whole number from 1 to "+strconv.FormatUint(limit, 10), "bad %s %q", what, s)
		return 0
	}
	return v
}

func (r *yamlReader) flag(n ast.Node, what string) bool {
	s, ok := r.text(n, what)
	if ok && s != "true" && s != "false" {
		r.fail(n.GetToken(), "write true or false", "bad %s %q", what, s)
	}
	return s == "true"
}

func (r *yamlReader) faults(n ast.Node) bool {
	s, ok := r.text(n, "faults")
	if ok && s != knownFault {
		r.fail(n.GetToken(), "write "+knownFault+", or remove the key", "bad faults %q", s)
	}
	return s == knownFault
}

func (r *yamlReader) timeout(n ast.Node) time.Duration {
	s, ok := r.text(n, "timeout")
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		r.fail(n.GetToken(), "write a positive time with its unit, such as 90s or 10m", "bad timeout %q", s)
		return 0
	}
	return d
}

// wait is nil after an error.
func (r *yamlReader) wait(n ast.Node) *time.Duration {
	s, ok := r.text(n, "wait")
	if !ok {
		return nil
	}
	if s == noWait {
		return new(time.Duration(0))
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 || d > maxWait || d%time.Millisecond != 0 {
		r.fail(n.GetToken(), "write a time in whole milliseconds up to 1000h, such as 30s, or "+noWait+" for requests that do not wait", "bad wait %q", s)
		return nil
	}
	return &d
}
