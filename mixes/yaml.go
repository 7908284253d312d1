package mixes

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/near"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/userfile/yamlfile"
)

// parseYAML reads a mix in YAML. Keys are case sensitive, and an unknown or repeated key is an
// error. Values are taken as they are written, so the argument 0.50 stays "0.50".
//
//	name: nightly            the file's base name if absent
//	description: text
//	ratio: 3:1               large:small, only for tables
//	credits: {ann: 2}        of users; see Job.Credits
//	arrivals: {every: 2s}    when the jobs arrive; see arrivals.go
//	jobs:
//	  - needle-32768         a catalog job
//	  - job: srad_v2-16384   a catalog job with keys: all below except program,
//	    isolate: true        args and stdin
//	    count: 2
//	  - program: ./my/solver a suite program, or a path with a slash
//	    args: -n 512 -v      split at spaces and tabs; a list keeps spaces
//	    stdin: input.txt     relative to dir
//	    dir: /data           the suite's data directory if absent
//	    env: [OMP_NUM_THREADS=4]
//	    memory: 1.5GiB       device memory; see size.ParseChosen
//	    blocks: 4096         grid of the main kernel, multiplied
//	    threads_per_block: 256
//	    isolate: true        exclusive use of its device
//	    faults: known        the program is known to fault; see Job.KnownFault
//	    check_status: 4      exit status after a failed output check; see Job.CheckStatus
//	    restartable: true    may be stopped and started again; see Job.Restartable
//	    restart_kernels: [k] may be stopped and begun again; see Job.RestartKernels
//	    until_others_end: true  it is ended when all others of its group have ended; see Job.UntilOthersEnd
//	    long: true           short jobs go before it; see Job.Long
//	    sensitive: computation  its ranks may be on several nodes; see Job.Computes
//	    at: 30s              arrives so long after the batch; see Job.At
//	    group: 1             arrives when all jobs of group 0 (the default) have ended
//	    ranks: 4             processes of the command, which start and end together; see Job.Ranks
//	    portions: 6          processes of the command, each of which starts when there is room for it; see Job.Portions
//	    pin: true            keeps its own device choice
//	    binding: declared    or probe, the default
//	    gpus: 2              devices that it has at once; see Job.GPUs
//	    share: 0.3           part of a device's time that it asks for; see Job.Share
//	    timeout: 10m
//	    max_wait: 5s         until others stop for its burst; see Job.MaxWait
//	    user: ann            whose job it is
//	    deadline: 30m        after its arrival; see Job.Deadline
//	    profile: {host: 5s, kernel: 2s}   what it does alone; see profile.go
//	    steps: own.jsonl     the same as a file, in place of profile; see Job.Steps
//	    count: 4
//	    name: solver-512     the program's base name if absent
//
// A program gets only the footprint that the file states. To get the catalog's footprint, refer
// to a catalog job.
func parseYAML(in *lines, jobs jobIndex, has func(string) bool) (Mix, error) {
	r := &yamlReader{file: in.file, jobs: jobs, has: has, wants: "jobs: and a list of jobs"}
	m := mixReader{yamlReader: r, mostJobs: in.limits.jobs, mix: Mix{Name: baseName(in.file), Source: in.file}}
	mix, err := readYAML(r, newPieces(in), m.add)
	if err != nil {
		return mix, err
	}
	if err := m.credit(mix); err != nil {
		return mix, err
	}
	return mix, m.checkArrivals(mix)
}

// readYAML calls read with the body of each piece of r's file and returns the last result, unless there
// was an error.
func readYAML[T any](r *yamlReader, in *pieces, read func(ast.Node) T) (out T, err error) {
	var all T
	for !r.full && len(r.errs) < maxErrors {
		p, more, err := in.read()
		if err != nil {
			return out, err
		}
		if !more {
			break
		}
		body := r.document(p)
		all = read(body)
		r.full = r.full || body == nil
	}
	slices.SortStableFunc(r.errs, func(a, b *InputError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if err := r.errs.asError(); err != nil {
		return out, err
	}
	return all, nil
}

// yamlReader collects every error of one file instead of stopping at the first.
type yamlReader struct {
	file  string
	jobs  jobIndex
	has   func(program string) bool // whether the suite has a program beside SuitePrograms; may be nil
	wants string                    // what the file should have, for the error if it is empty
	piece piece                     // that is read
	full  bool                      // nothing more is read
	errs  InputErrors

	firstAt  *InputError    // the place of the first key at; nil: no job has one
	referred map[string]Job // catalog jobs; those that the file names several times share their slices
}

// place is where a token is in the file.
func (r *yamlReader) place(t *token.Token) InputError {
	return InputError{File: r.file, Line: r.line(t), Column: t.Position.Column}
}

// line is the line of a token in the file.
func (r *yamlReader) line(t *token.Token) int {
	if r.piece.jobsLine > 0 && t.Position.Line == 1 {
		return r.piece.jobsLine
	}
	return r.piece.skipped + t.Position.Line
}

func (r *yamlReader) fail(at *token.Token, remedy, format string, args ...any) {
	e := &InputError{File: r.file, Line: 1, Column: 1, Msg: fmt.Sprintf(format, args...), Remedy: remedy}
	if at != nil && at.Position != nil {
		e.Line, e.Column = max(r.line(at), 1), max(at.Position.Column, 1)
	}
	r.errs = append(r.errs, e)
}

// document returns the body of the only document of a piece, or nil after an error.
func (r *yamlReader) document(p piece) ast.Node {
	r.piece = p
	tokens := lexer.Tokenize(string(p.text))
	if deep := yamlfile.TooDeep(tokens); deep != nil {
		r.fail(deep, "", "nested more than %d deep", yamlfile.MaxNesting)
		return nil
	}
	parsed, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var located interface {
			GetToken() *token.Token
			GetMessage() string
		}
		if errors.As(err, &located) {
			r.fail(located.GetToken(), "", "not valid YAML: %s", located.GetMessage())
		} else {
			r.fail(nil, "", "not valid YAML: %v", err)
		}
		return nil
	}
	var body ast.Node
	for _, doc := range parsed.Docs {
		if _, directive := doc.Body.(*ast.DirectiveNode); doc.Body == nil || directive {
			continue
		}
		if body != nil {
			r.fail(firstToken(doc.Body), "put each into its own file", "more than one YAML document")
			return nil
		}
		body = doc.Body
	}
	if body == nil {
		r.fail(nil, "write "+r.wants, "nothing in the file")
	}
	return body
}

func firstToken(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}

// field is one key of a mapping with its value.
type field struct {
	key   *token.Token
	value ast.Node
}

// fields reads a mapping with the given keys; n may be nil after an error.
func (r *yamlReader) fields(n ast.Node, what string, keys []string) map[string]field {
	return r.mapping(n, what, strings.Join(keys, ", "), func(name string) (unknown, remedy string) {
		if slices.Contains(keys, name) {
			return "", ""
		}
		return "key", near.OrKnown(name, keys)
	})
}

// mapping reads a mapping. For a name that is not a valid key, check returns what is unknown and
// what to write instead.
func (r *yamlReader) mapping(n ast.Node, what, keys string, check func(name string) (unknown, remedy string)) map[string]field {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		r.fail(firstToken(n), "write key: value, with keys from "+keys, "%s is %s", what, kindOf(n))
		return nil
	}
	fields := make(map[string]field, len(values))
	for _, v := range values {
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			r.fail(v.Key.GetToken(), "keys are plain words: "+keys, "bad key in %s", what)
			continue
		}
		unknown, remedy := check(key.Value)
		switch {
		case unknown != "":
			r.fail(key.GetToken(), remedy, "unknown %s %q in %s", unknown, key.Value, what)
		case fields[key.Value].key != nil:
			r.fail(key.GetToken(), "remove one", "duplicate key %q (first in line %d)", key.Value, r.line(fields[key.Value].key))
		default:
			fields[key.Value] = field{key.GetToken(), v.Value}
		}
	}
	return fields
}

// text reads a single value as it is written. It fails on an empty value.
func (r *yamlReader) text(n ast.Node, what string) (string, bool) {
	return r.value(n, what, `write "null" in quotes if that text is meant`)
}

// value is text for a key that does not take any text. instead says what to write for an empty value.
func (r *yamlReader) value(n ast.Node, what, instead string) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.NullNode:
		r.fail(n.GetToken(), "remove it, or "+instead, "%s has no value", what)
		return "", false
	}
	r.fail(firstToken(n), "write one value; lists, mappings, anchors and tags do not go here", "%s is %s", what, kindOf(n))
	return "", false
}

func kindOf(n ast.Node) string {
	switch n.Type() {
	case ast.MappingType, ast.MappingValueType:
		return "a mapping"
	case ast.SequenceType:
		return "a list"
	case ast.AnchorType:
		return "an anchor, which mixes do not support"
	case ast.AliasType:
		return "an alias, which mixes do not support"
	case ast.TagType:
		return "a tag, which mixes do not support"
	case ast.NullType:
		return "empty"
	}
	return "a single value"
}

var mixKeys = []string{"name", "description", "ratio", "credits", "arrivals", "jobs"}

// mixReader makes a mix of its pieces.
type mixReader struct {
	*yamlReader
	mostJobs int
	mix      Mix
	size     int            // bytes of all names and commands
	portions int            // of all jobs, beside the first of each
	lines    map[string]int // of keys of the mix in earlier pieces
	credits  map[string]credit
	arrivals InputError // the place of the key
}

// credit is what the key credits says of a user.
type credit struct {
	credits int
	at      InputError // the place
}

// add adds a piece to the mix, and returns the mix.
func (r *mixReader) add(body ast.Node) Mix {
	m := &r.mix
	fields := r.fields(body, "the mix", mixKeys)
	if fields == nil {
		return *m
	}
	if r.lines == nil {
		r.lines = map[string]int{}
	}
	for key, f := range fields {
		if first, again := r.lines[key]; again && r.line(f.key) != first {
			r.fail(f.key, "remove one", "duplicate key %q (first in line %d)", key, first)
		}
		r.lines[key] = r.line(f.key)
	}
	if f, found := fields["name"]; found {
		m.Name = r.label(f.value, "name")
	}
	if f, found := fields["description"]; found {
		s, ok := r.text(f.value, "description")
		if ok && strings.TrimSpace(s) == "" {
			r.fail(f.value.GetToken(), "give it a value, or remove the key", "description is empty")
		}
		m.Description = s
	}
	if f, found := fields["ratio"]; found {
		if s, ok := r.value(f.value, "ratio", "write large:small, such as 3:1"); ok {
			ratio, err := ParseRatio(s)
			if err != nil {
				r.fail(f.value.GetToken(), "", "%v", err)
			}
			m.Ratio = ratio.String()
		}
	}
	if f, found := fields["credits"]; found {
		r.readCredits(f.value)
	}
	if f, found := fields["arrivals"]; found {
		m.Arrivals, r.arrivals = r.readArrivals(f.value), r.place(f.key)
	}
	f, found := fields["jobs"]
	if !found {
		r.fail(firstToken(body), "write jobs: and a list of jobs", "the mix has no jobs")
		return *m
	}
	list, ok := f.value.(*ast.SequenceNode)
	if !ok || len(list.Values) == 0 {
		r.fail(f.key, "give it a list of catalog jobs or programs", "jobs is empty or not a list")
		return *m
	}
	for _, n := range list.Values {
		j, count := r.job(n)
		r.size += count * (len(j.Name) + len(j.Command()))
		r.portions += count * max(j.Portions-1, 0)
		if len(m.Jobs)+r.portions+count > r.mostJobs {
			what := "jobs"
			if r.portions > 0 {
				what = "jobs and portions"
			}
			r.fail(firstToken(n), "use a smaller count", "more than %d %s in the mix", r.mostJobs, what)
			r.full = true
			break
		}
		before := len(m.Jobs) - 1
		switch {
		case before < 0 || count == 0:
		case r.firstAt != nil && max(j.Group, m.Jobs[before].Group) > 0: // checkArrivals refuses it in any order
		case j.Group < m.Jobs[before].Group:
			r.fail(firstToken(n), "list the jobs by group", "a job of group %d after a job of group %d", j.Group, m.Jobs[before].Group)
		case j.At < m.Jobs[before].At:
			r.fail(firstToken(n), "list the jobs by the time of their arrival", "a job that arrives at %v after a job that arrives at %v", j.At, m.Jobs[before].At)
		}
		if r.size > maxTextBytes {
			r.fail(firstToken(n), "use a smaller count, or shorter names and arguments", "more than %s of names and commands in the mix", size.Format(maxTextBytes))
			r.full = true
			break
		}
		line := r.line(firstToken(n))
		for range count {
			m.Jobs, m.Lines = append(m.Jobs, j), append(m.Lines, line) // what the jobs share is never changed
		}
	}
	return *m
}

func (r *mixReader) readCredits(n ast.Node) {
	users := "the users of jobs, as in credits: {ann: 2, bob: 1}"
	for key, f := range r.mapping(n, "credits", users, func(name string) (unknown, remedy string) {
		if !input.IsName(name) {
			return "user", "write a word or a few on one line"
		}
		return "", ""
	}) {
		if r.credits == nil {
			r.credits = map[string]credit{}
		}
		r.credits[input.Name(key)] = credit{int(r.number(f.value, "credits of "+key, maxCredits)), r.place(f.key)}
	}
}

// credit gives the jobs the credits of their users. A user without a job is an error, because it is a misspelt one.
func (r *mixReader) credit(m Mix) error {
	if len(r.credits) == 0 {
		return nil
	}
	var users []string
	seen := map[string]bool{"": true}
	for i := range m.Jobs {
		j := &m.Jobs[i]
		if j.Credits = r.credits[j.User].credits; !seen[j.User] {
			seen[j.User] = true
			users = append(users, j.User)
		}
	}
	var errs InputErrors
	for user, c := range r.credits {
		if !seen[user] {
			c.at.Msg, c.at.Remedy = fmt.Sprintf("credits of %q, which is the user of no job", user), "write user: "+user+" for a job, or remove it"
			if len(users) > 0 {
				c.at.Remedy = near.OrKnown(user, users)
			}
			errs = append(errs, &c.at)
		}
	}
	slices.SortFunc(errs, func(a, b *InputError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return errs.asError()
}

var jobKeys = []string{
	"job", "program", "args", "stdin", "dir", "env", "memory", "blocks", "threads_per_block",
	"isolate", "faults", "check_status", "restartable", "restart_kernels", "until_others_end", "long", "sensitive", "group", "at", "priority", "ranks", "portions", "pin", "binding", "gpus", "share", "timeout", "wait", "max_wait", "user", "deadline", "profile", "steps", "count", "name",
}

// maxThreadsPerBlock is CUDA's limit since compute capability 2.0.
const maxThreadsPerBlock = 1024

// knownFault is the value of the key faults.
const knownFault = "known"

// noWait is the value of the key wait that means: requests do not wait.
const noWait = "none"

// maxWait is below the limit of libcase, which counts milliseconds in 32 bits.
const maxWait = 1000 * time.Hour

// maxDeadline catches typing errors.
const maxDeadline = 10000 * time.Hour

// maxCredits catches typing errors.
const maxCredits = 1000

// maxExitStatus is what wait(2) has room for.
const maxExitStatus = 255

// maxGPUs is the largest node that can be simulated.
const maxGPUs = 999

// LeastShare is the smallest share that counts.
const LeastShare = 1e-6

// MaxRanks is how many processes of one job can be connected to the scheduler (runner/probe).
const MaxRanks = 256

// MaxPortions bounds the rows of one job.
const MaxPortions = 1000

// maxPriority catches typing errors.
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
		count = int(r.number(f.value, "count", MaxJobs))
	}
	j.Class = classOf(j.Footprint.Bytes)
	return j, count
}

func (r *yamlReader) catalogJob(n ast.Node) Job {
	name, ok := r.text(n, "job")
	if !ok {
		return Job{}
	}
	if j, found := r.referred[name]; found {
		return j
	}
	j, found := r.jobs.byName[name]
	if !found {
		r.fail(n.GetToken(), near.OrKnown(name, r.jobs.names), "no catalog job %q", name)
		return j
	}
	if r.referred == nil {
		r.referred = map[string]Job{}
	}
	r.referred[name] = j.clone()
	return r.referred[name]
}

// ownCommand reads program, args and stdin. A job without a program has steps or a profile.
func (r *yamlReader) ownCommand(n ast.Node, fields map[string]field) (j Job) {
	f, found := fields["program"]
	_, steps := fields["steps"]
	if _, profile := fields["profile"]; !found && (steps || profile) {
		for _, key := range []string{"args", "stdin"} {
			if f, found := fields[key]; found {
				r.fail(f.key, "write program: beside it", "%s without a program", key)
			}
		}
		if _, named := fields["name"]; !steps && !named {
			r.fail(firstToken(n), "write name: beside the profile, or program: and a path", "a job with a profile and without a program has no name")
		}
		return j
	}
	if !found {
		r.fail(firstToken(n), "write program: and a path, or job: and a catalog job", "a job without a program")
		return j
	}
	if program, ok := r.text(f.value, "program"); ok {
		if strings.ContainsFunc(program, unicode.IsControl) {
			r.fail(f.value.GetToken(), "remove it", "program %q has a control character", program)
		}
		if !slices.Contains(suitePrograms, program) && !strings.Contains(program, "/") && (program == "" || r.has == nil || !r.has(program)) {
			r.fail(f.value.GetToken(), near.OrKnown(program, suitePrograms)+" ("+moreOfSuite(r.file, r.has)+"; your own executable needs a slash: ./"+program+")",
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

// settings reads the keys that a catalog job may have too.
func (r *yamlReader) settings(j *Job, fields map[string]field) {
	on := func(key string, read func(field)) {
		if f, found := fields[key]; found {
			read(f)
		}
	}
	on("name", func(f field) { j.Name = r.label(f.value, "name") })
	on("dir", func(f field) { j.Dir = r.filled(f.value, "dir") })
	on("env", func(f field) { j.Env = r.env(f.value) })
	on("memory", func(f field) { j.Footprint.Bytes = r.bytes(f.value, "memory") })
	on("blocks", func(f field) { j.Footprint.Blocks = r.number(f.value, "blocks", 1<<62) })
	on("threads_per_block", func(f field) {
		j.Footprint.ThreadsPerBlock = uint32(r.number(f.value, "threads_per_block", maxThreadsPerBlock))
	})
	on("profile", func(f field) {
		j.Profile = r.profile(f)
		j.Footprint = stated(j.Footprint, j.Profile)
	})
	on("steps", func(f field) {
		j.Steps = r.filled(f.value, "steps")
		if j.Profile != nil {
			r.fail(f.key, "remove one", "steps beside profile: both say what the job does")
		}
		if j.Name == "" {
			j.Name = input.Name(filepath.Base(j.Steps))
		}
	})
	on("isolate", func(f field) { j.Isolate = r.flag(f.value, "isolate") })
	on("faults", func(f field) { j.KnownFault = r.faults(f.value) })
	on("check_status", func(f field) { j.CheckStatus = int(r.number(f.value, "check_status", maxExitStatus)) })
	on("restartable", func(f field) { j.Restartable = new(r.flag(f.value, "restartable")) })
	on("restart_kernels", func(f field) { j.RestartKernels = r.kernels(f.value) })
	on("until_others_end", func(f field) { j.UntilOthersEnd = r.flag(f.value, "until_others_end") })
	on("long", func(f field) { j.Long = r.flag(f.value, "long") })
	on("sensitive", func(f field) {
		switch s, ok := r.value(f.value, "sensitive", sensitiveRemedy); {
		case !ok || s == toCommunication:
		case s == toComputation:
			j.Computes = true
		default:
			r.fail(f.value.GetToken(), sensitiveRemedy, "bad sensitive %q", s)
		}
	})
	on("group", func(f field) { j.Group = int(r.numberFrom(0, f.value, "group", MaxJobs)) })
	on("at", func(f field) { j.At = r.at(f) })
	on("priority", func(f field) { j.Priority = int(r.numberFrom(0, f.value, "priority", maxPriority)) })
	on("pin", func(f field) { j.Pin = r.flag(f.value, "pin") })
	on("ranks", func(f field) {
		j.Ranks = int(r.number(f.value, "ranks", MaxRanks))
		if j.Ranks > 1 && j.Pin {
			r.fail(f.key, "remove one", "ranks: %d beside pin: true: the scheduler places each rank", j.Ranks)
		}
		if j.Ranks > 1 && j.Restartable != nil && *j.Restartable {
			r.fail(f.key, "remove one", "ranks: %d beside restartable: true: jobs of several ranks are not started again", j.Ranks)
		}
	})
	on("portions", func(f field) {
		j.Portions = int(r.number(f.value, "portions", MaxPortions))
		switch {
		case j.Portions == 0: // that is an error already
		case j.Ranks > 0:
			r.fail(f.key, "remove one", "portions: %d beside ranks: %d: ranks start and end together, portions one after another", j.Portions, j.Ranks)
		case j.UntilOthersEnd:
			r.fail(f.key, "remove one", "portions: %d beside until_others_end: true: portions end by themselves", j.Portions)
		}
	})
	on("timeout", func(f field) { j.Timeout = r.timeout(f.value) })
	on("wait", func(f field) { j.Wait = r.wait(f.value) })
	on("max_wait", func(f field) { j.MaxWait = r.maxWait(f.value) })
	on("user", func(f field) { j.User = r.label(f.value, "user") })
	on("deadline", func(f field) { j.Deadline = r.deadline(f.value) })
	r.binding(j, fields)
}

// What a job's time depends on most.
const (
	toCommunication = "communication" // between its ranks, the default
	toComputation   = "computation"
	sensitiveRemedy = "write " + toCommunication + " or " + toComputation
)

// binding reads the keys that say how the job gets its devices.
func (r *yamlReader) binding(j *Job, fields map[string]field) {
	_, stated := fields["memory"]
	stated = stated || j.Footprint.Bytes != 0
	f, found := fields["binding"]
	if found {
		switch s, ok := r.value(f.value, "binding", "write probe or declared"); {
		case !ok || s == BindProbe.String():
		case s == BindDeclared.String():
			j.Binding = BindDeclared
			if !stated {
				r.fail(f.key, "add memory:, such as memory: 2GiB", "binding: declared needs the job's memory")
			}
		default:
			r.fail(f.value.GetToken(), "write probe or declared", "bad binding %q", s)
		}
	}
	share, shares := fields["share"]
	if shares {
		j.Share = r.share(share.value)
		if j.Isolate {
			r.fail(share.key, "remove one", "share beside isolate: true: a job that has its device alone shares no time")
		}
	}
	gpus, several := fields["gpus"]
	if !several {
		return
	}
	if j.GPUs = int(r.number(gpus.value, "gpus", maxGPUs)); j.GPUs <= 1 {
		j.GPUs = 0
		return
	}
	switch {
	case j.Pin:
		r.fail(gpus.key, "remove one", "gpus: %d beside pin: true: the scheduler chooses the devices of such a job", j.GPUs)
	case j.Ranks > 1:
		r.fail(gpus.key, "remove one", "gpus: %d beside ranks: %d: each rank has one device at a time", j.GPUs, j.Ranks)
	case j.Portions > 0:
		r.fail(gpus.key, "remove one", "gpus: %d beside portions: %d: each portion has one device at a time", j.GPUs, j.Portions)
	case shares:
		r.fail(share.key, "remove one", "share beside gpus: %d: a share is a part of one device's time", j.GPUs)
	case found && j.Binding == BindProbe:
		r.fail(f.key, "remove it", "binding: probe beside gpus: %d: the devices of such a job are chosen before it starts", j.GPUs)
	case !found && !stated:
		r.fail(gpus.key, "add memory:, such as memory: 2GiB", "gpus: %d needs the job's memory, on each of them", j.GPUs)
	}
	j.Binding = BindDeclared
}

// share reads a part of a device's time. It returns 0 after an error.
func (r *yamlReader) share(n ast.Node) float64 {
	const instead = "write a number above 0 and up to 1, such as 0.3"
	s, ok := r.value(n, "share", instead)
	if !ok {
		return 0
	}
	v, err := input.Float(s)
	if err != nil || !(v >= LeastShare && v <= 1) {
		r.fail(n.GetToken(), instead, "bad share %q", s)
		return 0
	}
	return v
}

// args reads a list of arguments, or one string that it splits at spaces and tabs. Quotes and
// escapes are not interpreted in the string, so they are errors.
func (r *yamlReader) args(n ast.Node) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		s, read := r.text(n, "args")
		if read && strings.TrimSpace(s) == "" {
			r.fail(n.GetToken(), "give it a value, or remove the key", "args is empty")
		}
		if strings.ContainsRune(s, 0) {
			r.fail(n.GetToken(), "remove it", "args has a NUL character")
		}
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
		case !assigned || key == "" || strings.TrimSpace(key) != key || strings.ContainsRune(s, 0):
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

// kernels reads names of kernels.
func (r *yamlReader) kernels(n ast.Node) []string {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		r.fail(firstToken(n), "write a list: restart_kernels: [NAME]", "restart_kernels is %s", kindOf(n))
		return nil
	}
	var names []string
	for _, item := range list.Values {
		if s, ok := r.text(item, "a kernel"); ok && !kernelName.MatchString(s) {
			r.fail(item.GetToken(), "write its name as in the source, without namespaces and template arguments", "bad kernel name %q", s)
		} else if ok {
			names = append(names, s)
		}
	}
	return names
}

var kernelName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// label reads a name that fits on one line of a table.
func (r *yamlReader) label(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if ok && !input.IsName(s) {
		r.fail(n.GetToken(), "write a word or a few on one line", "bad %s %q", what, s)
	}
	return input.Name(s)
}

func (r *yamlReader) filled(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	if ok && (strings.TrimSpace(s) == "" || strings.ContainsFunc(s, unicode.IsControl)) {
		r.fail(n.GetToken(), "write a path without control characters, or remove the key", "bad %s %q", what, s)
	}
	return s
}

// bytes reads a size. It returns 0 after an error.
func (r *yamlReader) bytes(n ast.Node, what string) int64 {
	s, ok := r.value(n, what, "write a size, such as 512MiB")
	if !ok {
		return 0
	}
	b, err := size.ParseChosen(s)
	switch {
	case err != nil:
		r.fail(n.GetToken(), "", "%s: %v", what, err)
	case b == 0:
		r.fail(n.GetToken(), "remove the key if it is unknown", "%s is 0", what)
	}
	return b
}

// number reads a whole number from 1 to limit. It returns 0 after an error.
func (r *yamlReader) number(n ast.Node, what string, limit uint64) uint64 {
	return r.numberFrom(1, n, what, limit)
}

// numberFrom reads a whole number from least to limit. It returns 0 after an error.
func (r *yamlReader) numberFrom(least uint64, n ast.Node, what string, limit uint64) uint64 {
	instead := fmt.Sprintf("write a whole number from %d to %d", least, limit)
	s, ok := r.value(n, what, instead)
	if !ok {
		return 0
	}
	v, err := input.Uint(s, 64)
	if err != nil || v < least || v > limit {
		r.fail(n.GetToken(), instead, "bad %s %q", what, s)
		return 0
	}
	return v
}

func (r *yamlReader) flag(n ast.Node, what string) bool {
	s, ok := r.value(n, what, "write true or false")
	if ok && s != "true" && s != "false" {
		r.fail(n.GetToken(), "write true or false", "bad %s %q", what, s)
	}
	return s == "true"
}

func (r *yamlReader) faults(n ast.Node) bool {
	s, ok := r.value(n, "faults", "write "+knownFault)
	if ok && s != knownFault {
		r.fail(n.GetToken(), "write "+knownFault+", or remove the key", "bad faults %q", s)
	}
	return s == knownFault
}

func (r *yamlReader) timeout(n ast.Node) time.Duration {
	s, ok := r.value(n, "timeout", "write a time with its unit, such as 10m")
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d <= 0 {
		r.fail(n.GetToken(), "write a positive time with its unit, such as 90s or 10m", "bad timeout %q", s)
		return 0
	}
	return d
}

func (r *yamlReader) deadline(n ast.Node) time.Duration {
	s, ok := r.value(n, "deadline", "write a time with its unit, such as 30m")
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d <= 0 || d > maxDeadline {
		r.fail(n.GetToken(), "write how long after the job's arrival it should have ended, such as 90s or 30m, up to 10000h", "bad deadline %q", s)
		return 0
	}
	return d
}

func (r *yamlReader) maxWait(n ast.Node) time.Duration {
	s, ok := r.value(n, "max_wait", "write a time with its unit, such as 5s")
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d < time.Millisecond || d > maxWait {
		r.fail(n.GetToken(), "write how long a burst waits until others are stopped for it, such as 500ms or 5s, from 1ms to 1000h", "bad max_wait %q", s)
		return 0
	}
	return d
}

// wait returns nil after an error.
func (r *yamlReader) wait(n ast.Node) *time.Duration {
	s, ok := r.value(n, "wait", "write a time with its unit, such as 30s, or "+noWait)
	if !ok {
		return nil
	}
	if s == noWait {
		return new(time.Duration(0))
	}
	d, err := input.Duration(s)
	if err != nil || d <= 0 || d > maxWait || d%time.Millisecond != 0 {
		r.fail(n.GetToken(), "write a time in whole milliseconds up to 1000h, such as 30s, or "+noWait+" for requests that do not wait", "bad wait %q", s)
		return nil
	}
	return &d
}
