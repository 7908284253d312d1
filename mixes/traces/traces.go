// Package traces makes mixes of the traces of clusters: CSV files with a row for each job.
package traces

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/mixes"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// Columns are the names of a trace's columns; "": it has none of that. Submit and either Duration or Start and End are needed.
type Columns struct {
	Name     string
	Submit   string // seconds
	Duration string // seconds
	Start    string // seconds, with End; empty in a row: the job never started
	End      string
	GPUs     string // none: each job has one
	Share    string // of a GPU, in units of Whole
	Memory   string // of each GPU, in units of MemoryUnit
	CPUs     string // in units of CPUUnit
}

// Options say how a trace is read.
type Options struct {
	Columns
	Whole      float64 // share of a whole GPU
	MemoryUnit int64   // bytes
	CPUUnit    float64 // value of one CPU

	From, To time.Duration // of the trace's time: only rows that were submitted in it; To 0: to the end
	Speed    float64       // how many times faster than in the trace jobs arrive and run
	Limit    int           // jobs at most, the first ones; 0: all

	NodeGPUs int     // that the node has
	NodeCPUs float64 // 0: any number
	LeaveOut bool    // rows that the node cannot serve are left out, instead of an error
}

// Default reads a trace of the columns submit_s and duration_s.
func Default() Options {
	return Options{Columns: Columns{Submit: "submit_s", Duration: "duration_s"}, Whole: 1, MemoryUnit: 1 << 20, CPUUnit: 1, Speed: 1, NodeGPUs: 8}
}

// Presets are the options for published traces, by name. openb is openb_pod_list_*.csv of Alibaba's cluster-trace-gpu-v2023. Its
// memory is that of the host, so it says nothing of a GPU's.
var Presets = map[string]Options{"openb": {
	Columns: Columns{Name: "name", Submit: "creation_time", Start: "scheduled_time", End: "deletion_time", GPUs: "num_gpu", Share: "gpu_milli", CPUs: "cpu_milli"},
	Whole:   1000, MemoryUnit: 1 << 20, CPUUnit: 1000, Speed: 1, NodeGPUs: 8}}

// Check refuses options that cannot be.
func (o Options) Check() error {
	switch {
	case o.Submit == "":
		return errors.New("--submit: name the column with the time at which jobs were submitted")
	case (o.Start == "") != (o.End == ""), (o.Duration == "") == (o.Start == ""):
		return errors.New("name the column of --duration, or those of --start and --end, and not both")
	case !(o.Speed > 0 && o.Speed <= maxSpeed):
		return fmt.Errorf("--speed %g: want a number above 0, up to %g", o.Speed, float64(maxSpeed))
	case o.From < 0 || o.To < 0 || o.To > 0 && o.To <= o.From:
		return fmt.Errorf("--from %v, --to %v: want times of the trace that are not negative, the second after the first", o.From, o.To)
	case o.Limit < 0:
		return fmt.Errorf("--limit %d: want the most jobs, or 0 for all", o.Limit)
	case o.NodeGPUs < 1:
		return fmt.Errorf("--node-gpus %d: want the GPUs of the node, 1 or more", o.NodeGPUs)
	case !(o.NodeCPUs >= 0):
		return fmt.Errorf("--node-cpus %g: want the CPUs of the node, or 0 for any number", o.NodeCPUs)
	case !(o.Whole > 0) || !(o.CPUUnit > 0) || o.MemoryUnit <= 0:
		return errors.New("--whole, --cpu-unit, --memory-unit: want numbers above 0")
	}
	return nil
}

const (
	maxSpeed = 1e6
	// longest is the longest phase of a profile. A longer job has several.
	longest = 1000 * time.Hour
	// leastMemory stands for that of jobs of several GPUs, which must state one, if the trace says nothing.
	leastMemory = 1 << 20
)

// row is what a row says of a job.
type row struct {
	name             string
	submit, duration float64
	started          bool
	gpus             int
	share            float64
	memory           int64
	cpus             float64
}

// reader makes a mix of rows.
type reader struct {
	Options
	file  string
	jobs  []mixes.Job
	rows  int
	began float64 // the time of the trace from which arrivals count
	last  float64 // submission of the row before
	line  int     // of it
	unfit []unfit
}

// unfit are rows of one kind that the node cannot serve.
type unfit struct {
	why         string
	count, line int // the first
}

// errEnough ends the reading.
var errEnough = errors.New("enough")

// Load is Read of a file.
func Load(file string, o Options) (m mixes.Mix, notes []string, err error) {
	f, err := userfile.Open(file, 0)
	if err != nil {
		return m, nil, err
	}
	defer f.Close()
	return Read(file, f, o)
}

// Read makes a mix of a trace. notes say which rows it leaves out. An error names the line.
func Read(file string, from io.Reader, o Options) (m mixes.Mix, notes []string, err error) {
	if err := o.Check(); err != nil {
		return m, nil, err
	}
	r := &reader{Options: o, file: file}
	var names []string
	for _, name := range r.columns() {
		names = append(names, *name)
	}
	err = csvfile.Rows(file, from, names, r.take)
	if err != nil && !errors.Is(err, errEnough) {
		return m, nil, err
	}
	for _, u := range r.unfit {
		notes = append(notes, fmt.Sprintf("%s:%d: %s %s, this one first", file, u.line, size.Count(u.count, "row"), u.why))
	}
	switch {
	case len(notes) > 0 && !o.LeaveOut:
		return m, nil, fmt.Errorf("one node of %d GPUs cannot serve all rows: %s; --leave-out leaves them out, and --node-gpus and --node-cpus say what the node has", o.NodeGPUs, strings.Join(notes, "; "))
	case r.rows == 0:
		return m, nil, fmt.Errorf("%s: no row behind the header: want a row for each job", file)
	case len(r.jobs) == 0:
		return m, nil, fmt.Errorf("%s", strings.Join(append([]string{fmt.Sprintf("%s: no job is left of %s: choose another --from and --to", file, size.Count(r.rows, "row"))}, notes...), "; "))
	}
	m = mixes.Mix{Name: "trace", Source: "generated: trace " + file, Jobs: r.jobs,
		Description: fmt.Sprintf("%d of %d rows of %s, from %s s of it on, %g times as fast", len(r.jobs), r.rows, file, strconv.FormatFloat(r.began, 'f', -1, 64), o.Speed)}
	return m, notes, nil
}

// columns are the names that the trace has, in the order in which fields reads them.
func (o *Options) columns() (names []*string) {
	for _, name := range []*string{&o.Name, &o.Submit, &o.Duration, &o.Start, &o.End, &o.GPUs, &o.Share, &o.Memory, &o.CPUs} {
		if *name != "" {
			names = append(names, name)
		}
	}
	return names
}

func (r *reader) take(line int, fields []string) error {
	r.rows++
	job, err := r.read(line, fields)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", r.file, line, err)
	}
	if r.rows > 1 && job.submit < r.last {
		return fmt.Errorf("%s:%d: %s %g is before that of line %d: sort the file by it", r.file, line, r.Submit, job.submit, r.line)
	}
	if r.rows == 1 {
		r.began = job.submit
		if r.From > 0 {
			r.began = r.From.Seconds()
		}
	}
	r.last, r.line = job.submit, line
	switch why := r.unserved(job); {
	case job.submit < r.began:
		return nil
	case r.To > 0 && job.submit >= r.To.Seconds(), r.Limit > 0 && len(r.jobs) == r.Limit:
		return errEnough
	case why != "":
		r.leave(why, line)
		return nil
	}
	made, err := r.make(job)
	if err != nil {
		return fmt.Errorf("%s:%d: %w", r.file, line, err)
	}
	if len(r.jobs) == mixes.MaxJobs {
		return fmt.Errorf("%s:%d: more than %d jobs: set --limit, or --to", r.file, line, mixes.MaxJobs)
	}
	r.jobs = append(r.jobs, made)
	return nil
}

// read reads a row. Its errors name the column.
func (r *reader) read(line int, fields []string) (job row, err error) {
	job = row{name: fmt.Sprintf("row-%d", line), started: true, gpus: 1}
	var start, end float64
	number := func(to *float64, text string) error {
		v, err := input.Measured(text)
		if err != nil || !(v >= 0 && v <= mostOf) {
			return fmt.Errorf("want a number from 0 to %g", float64(mostOf))
		}
		*to = v
		return nil
	}
	var gpus, memory float64
	for i, column := range r.columns() {
		text := fields[i]
		var err error
		switch column {
		case &r.Name:
			if job.name = input.Name(text); !input.IsName(text) {
				err = errors.New("want a word or a few on one line")
			}
		case &r.Submit:
			err = number(&job.submit, text)
		case &r.Duration:
			err = number(&job.duration, text)
		case &r.Start:
			if job.started = text != ""; job.started {
				err = number(&start, text)
			}
		case &r.End:
			if text != "" || job.started {
				err = number(&end, text)
			}
		case &r.GPUs:
			if err = number(&gpus, text); err == nil && gpus != math.Trunc(gpus) {
				err = errors.New("want a whole number")
			}
			job.gpus = int(gpus)
		case &r.Share:
			err = number(&job.share, text)
			job.share /= r.Whole
		case &r.Memory:
			err = number(&memory, text)
			job.memory = int64(memory * float64(r.MemoryUnit))
		case &r.CPUs:
			err = number(&job.cpus, text)
			job.cpus /= r.CPUUnit
		}
		if err != nil {
			return job, fmt.Errorf("bad %s %q: %w", *column, text, err)
		}
	}
	if r.Start != "" && job.started {
		if job.duration = end - start; end < start || start < job.submit {
			return job, fmt.Errorf("%s, %s and %s are %g, %g and %g: want times in this order", r.Submit, r.Start, r.End, job.submit, start, end)
		}
	}
	return job, nil
}

// mostOf catches typing errors. Times in seconds since 1970 are below it.
const mostOf = 1e12

// unserved says why a node cannot serve a job; "": it can.
func (r *reader) unserved(job row) string {
	switch {
	case !job.started:
		return "without a start"
	case job.gpus == 0 || r.Share != "" && job.share == 0:
		return "without a GPU"
	case job.gpus > r.NodeGPUs:
		return fmt.Sprintf("with more than %d GPUs", r.NodeGPUs)
	case job.share > 1:
		return "with a share of more than a whole GPU"
	case r.NodeCPUs > 0 && job.cpus > r.NodeCPUs:
		return fmt.Sprintf("with more than %g CPUs", r.NodeCPUs)
	case job.duration/r.Speed*float64(time.Second) < 1:
		return "without a duration"
	}
	return ""
}

func (r *reader) leave(why string, line int) {
	for i := range r.unfit {
		if r.unfit[i].why == why {
			r.unfit[i].count++
			return
		}
	}
	r.unfit = append(r.unfit, unfit{why, 1, line})
}

// time is so many seconds of the trace in the mix, in milliseconds if they are that many.
func (r *reader) time(seconds float64) time.Duration {
	d := time.Duration(seconds / r.Speed * float64(time.Second))
	if d > time.Second {
		return d.Round(time.Millisecond)
	}
	return d
}

func (r *reader) make(job row) (j mixes.Job, err error) {
	if (job.submit-r.began)/r.Speed > mixes.MaxArrival.Seconds() { // before it overflows

		return j, fmt.Errorf("%s %g is more than a year after the first job: set --to, or a larger --speed", r.Submit, job.submit)
	}
	if job.duration/r.Speed > (mixes.MaxPhases * longest).Seconds() {
		return j, fmt.Errorf("the job takes %g s: want %v at most: set a larger --speed", job.duration, mixes.MaxPhases*longest)
	}
	j = mixes.Job{Name: job.name, At: r.time(job.submit - r.began), Profile: &mixes.Profile{Rounds: 1}}
	for left := r.time(job.duration); left > 0; left -= longest {
		j.Profile.Phases = append(j.Profile.Phases, mixes.Phase{Kernel: min(left, longest)})
	}
	if job.memory > 0 {
		j.Footprint.Bytes = max(job.memory, leastMemory)
	}
	switch {
	case job.gpus > 1:
		j.GPUs, j.Binding, j.Isolate = job.gpus, mixes.BindDeclared, true
		j.Footprint.Bytes = max(j.Footprint.Bytes, leastMemory)
	case r.Share != "":
		j.Share = max(job.share, mixes.LeastShare)
	}
	if job.cpus > 0 {
		j.Env = []string{CPUs + "=" + strconv.FormatFloat(job.cpus, 'f', -1, 64)}
	}
	return j.WithFootprint(j.Footprint), nil
}

// CPUs is the variable that keeps how many CPUs a job asks for. No scheduler knows of them.
const CPUs = "TRACE_CPUS"
