package profiles

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/caserun/caserun/mixes"
)

// Listing is what a steps file says, for jobs of any number of ranks.
type Listing struct {
	others  stepReader          // of ranks that the file does not name
	named   map[int]*stepReader // of the ranks that it names
	highest int                 // of the ranks that it names
	at      string              // where it names that
}

// reader has the steps of a rank. Their messages are those of all ranks.
func (l *Listing) reader(rank int) *stepReader {
	if r, named := l.named[rank]; named {
		return r
	}
	return &l.others
}

func (l *Listing) of(rank int) []Step { return l.reader(rank).steps }

// check returns an error if the job cannot do the steps with the ranks that it has.
func (l *Listing) check(j *mixes.Job) error {
	if l.highest >= j.Processes() {
		return fmt.Errorf("%s: rank %d of a job with %d: use ranks from 0 to %d, or give the job ranks: %d",
			l.at, l.highest, j.Processes(), j.Processes()-1, l.highest+1)
	}
	if len(l.named) == 0 {
		return nil
	}
	for rank := range j.Processes() {
		if err := l.reader(rank).err; err != nil {
			return fmt.Errorf("%w (rank %d)", err, rank)
		}
	}
	return nil
}

var _ json.Marshaler = (*Listing)(nil)

// MarshalJSON makes a list of the steps, unless they differ among the ranks.
func (l *Listing) MarshalJSON() ([]byte, error) {
	if len(l.named) == 0 {
		return json.Marshal(l.others.steps)
	}
	named := map[int][]Step{}
	for rank, r := range l.named {
		named[rank] = r.steps
	}
	return json.Marshal(struct {
		Others []Step
		Named  map[int][]Step
	}{l.others.steps, named})
}

// ranks are written as a number, as a list of numbers, or as "all".
type ranks struct {
	all  bool
	list []int
}

func (r *ranks) UnmarshalJSON(text []byte) error {
	var name string
	if json.Unmarshal(text, &name) == nil && name == "all" {
		r.all = true
		return nil
	}
	if json.Unmarshal(text, &r.list) != nil {
		r.list = make([]int, 1)
		if err := json.Unmarshal(text, &r.list[0]); err != nil {
			return fmt.Errorf(`bad ranks %s: write a number, a list of numbers, or "all"`, text)
		}
	}
	if len(r.list) == 0 {
		return errors.New(`no ranks: write a number, a list of numbers, or "all"`)
	}
	slices.Sort(r.list)
	for i, rank := range r.list {
		if rank < 0 || rank >= mixes.MaxRanks {
			return fmt.Errorf("rank %d: write one from 0 to %d", rank, mixes.MaxRanks-1)
		}
		if i > 0 && rank == r.list[i-1] {
			return fmt.Errorf("rank %d twice: remove one", rank)
		}
	}
	return nil
}

// has reports whether a rank is among them; nil: all are.
func (r *ranks) has(rank int) bool { return r == nil || r.all || slices.Contains(r.list, rank) }

// named are the ranks by name; of "all" nothing.
func (r *ranks) named() []int {
	if r == nil {
		return nil
	}
	return r.list
}

// Sends returns the ranks to which a rank of a job with so many sends the message, and those from which it gets it. A
// message to all goes to all others.
func (s *Step) Sends(rank, of int) (to, from []int) {
	others := func(listed []int) (out []int) {
		for other := range of {
			if other != rank && (listed == nil || slices.Contains(listed, other)) {
				out = append(out, other)
			}
		}
		return out
	}
	if s.From == nil || slices.Contains(s.From, rank) {
		to = others(s.To)
	}
	if s.To == nil || slices.Contains(s.To, rank) {
		from = others(s.From)
	}
	return to, from
}

// maxAllSteps bounds the steps of all ranks that a file names.
const maxAllSteps = 10 * maxSteps

// others stands for the ranks that a file does not name.
const others = -1

// rankReaders are the readers of the ranks that lines name, and one of the others.
func rankReaders(rows []row) map[int]*stepReader {
	readers := map[int]*stepReader{others: {objects: map[string]Step{}}}
	for i := range rows {
		for _, rank := range rows[i].line.Rank.named() {
			if readers[rank] == nil {
				readers[rank] = &stepReader{objects: map[string]Step{}}
			}
		}
	}
	return readers
}
