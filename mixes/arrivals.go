package mixes

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/caserun/caserun/internal/input"
	"github.com/caserun/caserun/userfile"
	"github.com/caserun/caserun/userfile/csvfile"
)

// Arrivals say when the jobs of a mix arrive, one after another in their order. One of Poisson, Every and Trace is set.
type Arrivals struct {
	Poisson string        `json:",omitempty"` // the rate, as in 0.5/s: the times between two arrivals are drawn
	Seed    *uint64       `json:",omitempty"` // of the draw; nil: that of the run
	Every   time.Duration `json:",omitempty"` // between two arrivals; the first job arrives with the batch
	Trace   string        `json:",omitempty"` // a CSV file that has the times
	Column  string        `json:",omitempty"` // of Trace; "": ArrivalColumn
	Times   []time.Duration
}

// ArrivalColumn is the column of a trace that has the times, unless the mix names another. It is that of exported jobs.
const ArrivalColumn = "arrival_s"

// MaxArrival catches typing errors, and traces whose times are dates.
const MaxArrival = 365 * 24 * time.Hour

// maxRate catches typing errors.
const maxRate = 1e6

// errLate is the error of a job that would arrive after MaxArrival.
var errLate = errors.New("would arrive after more than a year")

// String is the arrivals in one line, such as "poisson 0.5/s, seed 7".
func (a *Arrivals) String() string {
	switch {
	case a.Every > 0:
		return "every " + a.Every.String()
	case a.Trace != "":
		return "trace " + a.Trace
	case a.Seed != nil:
		return fmt.Sprintf("poisson %s, seed %d", a.Poisson, *a.Seed)
	}
	return "poisson " + a.Poisson
}

// yaml is the value of the key arrivals.
func (a *Arrivals) yaml() string {
	switch {
	case a.Every > 0:
		return "{every: " + a.Every.String() + "}"
	case a.Trace != "" && a.Column != "":
		return "{trace: " + quoted(a.Trace) + ", column: " + quoted(a.Column) + "}"
	case a.Trace != "":
		return "{trace: " + quoted(a.Trace) + "}"
	case a.Seed != nil:
		return fmt.Sprintf("{poisson: %s, seed: %d}", a.Poisson, *a.Seed)
	}
	return "{poisson: " + a.Poisson + "}"
}

// OpenLoad says when the jobs of a mix arrive whose arrival does not wait for other jobs: as Arrivals.String, or "at" if
// each job says it. "": they arrive together, or group by group.
func (m Mix) OpenLoad() string {
	if m.Arrivals != nil {
		return m.Arrivals.String()
	}
	if n := len(m.Jobs); n > 0 && m.Jobs[n-1].At > 0 { // they are listed by it
		return "at"
	}
	return ""
}

// Chance reports whether the mix leaves something to the seed of its run.
func (m Mix) Chance() bool {
	if a := m.Arrivals; a != nil && a.Poisson != "" && a.Seed == nil {
		return true
	}
	for i := range m.Jobs {
		if p := m.Jobs[i].Profile; p != nil && p.Exponential {
			return true
		}
	}
	return false
}

// Content is what of the mix its runs depend on, for a digest. Of a mix without arrivals it is its jobs.
func (m Mix) Content() any {
	if m.Arrivals == nil {
		return m.Jobs
	}
	return struct {
		Jobs     []Job
		Arrivals *Arrivals
	}{m.Jobs, m.Arrivals}
}

// Arriving returns the mix with the times at which its jobs arrive in a run with this seed.
func (m Mix) Arriving(seed uint64) (Mix, error) {
	a := m.Arrivals
	if a == nil {
		return m, nil
	}
	m.Jobs = append([]Job(nil), m.Jobs...)
	next := a.times(seed)
	for i := range m.Jobs {
		if m.Jobs[i].At = next(i); m.Jobs[i].At > MaxArrival {
			return m, fmt.Errorf("mix %s: arrivals: %s: job %d of %d %w: write fewer jobs or a shorter time between them", m.Name, a, i, len(m.Jobs), errLate)
		}
	}
	return m, nil
}

// times returns the time of each job when it is called for one after another.
func (a *Arrivals) times(seed uint64) func(job int) time.Duration {
	switch {
	case a.Every > 0:
		return func(i int) time.Duration {
			if i > int(MaxArrival/a.Every) {
				return MaxArrival + 1
			}
			return time.Duration(i) * a.Every
		}
	case a.Trace != "":
		return func(i int) time.Duration { return a.Times[i] }
	}
	if a.Seed != nil {
		seed = *a.Seed
	}
	rate, _ := parseRate(a.Poisson)
	random, at := rand.New(rand.NewPCG(seed, arrivalStream)), 0.0
	return func(int) time.Duration {
		at = min(at+random.ExpFloat64()/rate, MaxArrival.Seconds()+1)
		return time.Duration(at * float64(time.Second))
	}
}

// arrivalStream is the second word of the generator of arrivals, so that nothing else of a run draws the same numbers.
const arrivalStream = 0x61727269

// parseRate reads a rate, such as 0.5/s or 30/m, and returns it in 1/s.
func parseRate(s string) (perS float64, err error) {
	number, unit, _ := strings.Cut(s, "/")
	v, err := input.Float(number)
	per, known := map[string]float64{"s": 1, "m": 60, "h": 3600}[unit]
	if perS = v / per; err != nil || !known || !(perS > 0 && perS <= maxRate) {
		return 0, errors.New("not a rate")
	}
	return perS, nil
}

var arrivalKeys = []string{"poisson", "seed", "every", "trace", "column"}

// readArrivals reads the key arrivals. It returns nil after an error.
func (r *yamlReader) readArrivals(n ast.Node) *Arrivals {
	const forms = "write {poisson: 0.5/s, seed: 7}, {every: 2s} or {trace: FILE.csv}"
	fields := r.fields(n, "arrivals", arrivalKeys)
	if fields == nil {
		return nil
	}
	before, a := len(r.errs), &Arrivals{}
	rate, poisson := fields["poisson"]
	every, regular := fields["every"]
	trace, traced := fields["trace"]
	kinds := 0
	for _, has := range []bool{poisson, regular, traced} {
		if has {
			kinds++
		}
	}
	if kinds != 1 {
		r.fail(firstToken(n), forms, "arrivals have %d of poisson, every and trace", kinds)
		return nil
	}
	if f, found := fields["seed"]; found {
		if !poisson {
			r.fail(f.key, "remove it", "seed without poisson: nothing is drawn")
		}
		a.Seed = r.seed(f.value)
	}
	if f, found := fields["column"]; found {
		if !traced {
			r.fail(f.key, "remove it", "column without trace")
		}
		a.Column = r.label(f.value, "column")
	}
	switch {
	case poisson:
		a.Poisson = r.rate(rate.value)
	case regular:
		a.Every = r.every(every.value)
	default:
		a.Trace = r.filled(trace.value, "trace")
	}
	if len(r.errs) > before {
		return nil
	}
	return a
}

func (r *yamlReader) rate(n ast.Node) string {
	const instead = "write a number above 0 and a unit, /s, /m or /h, such as 0.5/s, up to 1000000/s"
	s, ok := r.value(n, "poisson", instead)
	if !ok {
		return ""
	}
	if _, err := parseRate(s); err != nil {
		r.fail(n.GetToken(), instead, "bad poisson %q", s)
	}
	return s
}

func (r *yamlReader) every(n ast.Node) time.Duration {
	const instead = "write a time above 0 with its unit, such as 2s, up to a year"
	s, ok := r.value(n, "every", instead)
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d <= 0 || d > MaxArrival {
		r.fail(n.GetToken(), instead, "bad every %q", s)
		return 0
	}
	return d
}

func (r *yamlReader) seed(n ast.Node) *uint64 {
	const instead = "write a whole number from 0 to 18446744073709551615, such as 7; without it, the seed of the run counts"
	s, ok := r.value(n, "seed", instead)
	if !ok {
		return nil
	}
	v, err := input.Uint(s, 64)
	if err != nil {
		r.fail(n.GetToken(), instead, "bad seed %q", s)
		return nil
	}
	return &v
}

// at reads when a job arrives. It returns 0 after an error.
func (r *yamlReader) at(f field) time.Duration {
	const instead = "write a time with its unit from the arrival of the batch, such as 90s or 1h30m, up to a year"
	if r.firstAt == nil {
		r.firstAt = new(r.place(f.key))
	}
	s, ok := r.value(f.value, "at", instead)
	if !ok {
		return 0
	}
	d, err := input.Duration(s)
	if err != nil || d < 0 || d > MaxArrival {
		r.fail(f.value.GetToken(), instead, "bad at %q", s)
		return 0
	}
	return d
}

// checkArrivals finds what of a mix does not go with its arrivals, and reads their trace.
func (r *mixReader) checkArrivals(m Mix) error {
	wrong := func(at InputError, remedy, format string, args ...any) error {
		at.Msg, at.Remedy = fmt.Sprintf(format, args...), remedy
		return InputErrors{&at}
	}
	a, at := m.Arrivals, r.firstAt
	what := "at"
	if a != nil {
		what, at = "arrivals", cmp.Or(at, &r.arrivals)
	}
	switch {
	case at == nil:
		return nil
	case a != nil && r.firstAt != nil:
		return wrong(*at, "remove one", "at beside arrivals of the mix, which say when each job arrives")
	case slices.ContainsFunc(m.Jobs, func(j Job) bool { return j.Group > 0 }):
		return wrong(*at, "remove group, or "+what, "%s in a mix with groups: a group arrives when the jobs before it have ended", what)
	case a == nil:
		return nil
	}
	if a.Trace != "" {
		if err := a.readTrace(len(m.Jobs)); err != nil {
			return wrong(r.arrivals, "", "trace: %v", err)
		}
	}
	if rate, err := parseRate(a.Poisson); err == nil && float64(len(m.Jobs))/rate > MaxArrival.Seconds() {
		return wrong(r.arrivals, "raise the rate, or write fewer jobs", "arrivals: %s: the last of %d jobs %v", a, len(m.Jobs), errLate)
	}
	if _, err := m.Arriving(0); err != nil && (a.Poisson == "" || a.Seed != nil) {
		return wrong(r.arrivals, "write fewer jobs, or a shorter time between them", "arrivals: %s: the last of %d jobs %v", a, len(m.Jobs), errLate)
	}
	return nil
}

// readTrace reads the times of so many jobs.
func (a *Arrivals) readTrace(jobs int) error {
	f, err := userfile.Open(a.Trace, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	column, last := cmp.Or(a.Column, ArrivalColumn), 1
	err = csvfile.Rows(a.Trace, f, []string{column}, func(line int, row []string) error {
		if len(a.Times) == jobs {
			return nil
		}
		at, err := ArrivalTime(row[0])
		if err != nil {
			return fmt.Errorf("%s:%d: bad %s %q: %w", a.Trace, line, column, row[0], err)
		}
		if n := len(a.Times); n > 0 && at < a.Times[n-1] {
			return fmt.Errorf("%s:%d: %s %s is before that of line %d: sort the file by %s", a.Trace, line, column, row[0], last, column)
		}
		a.Times, last = append(a.Times, at), line
		return nil
	})
	if n := len(a.Times); err == nil && n < jobs {
		return fmt.Errorf("%s:%d: the file ends after %d arrivals, and the mix has %d jobs: write a row for each job, or fewer jobs", a.Trace, last, n, jobs)
	}
	return err
}

// ArrivalTime reads seconds since the batch arrived, as traces have them. An error says what to write.
func ArrivalTime(s string) (time.Duration, error) {
	v, err := input.Measured(s)
	if err != nil || !(v >= 0 && v <= MaxArrival.Seconds()) {
		return 0, fmt.Errorf("write seconds since the batch arrived, from 0 to %.0f, which is a year", MaxArrival.Seconds())
	}
	return time.Duration(v * float64(time.Second)), nil
}
