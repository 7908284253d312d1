package mixes

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/caserun/caserun/internal/input"
)

// maxTextBytes bounds the names and commands of a mix, because the store keeps them for each job
// of each run.
const maxTextBytes = maxFileBytes

const maxRatioSide = 1000

// Ratio is large:small. Either side may be 0, but not both.
type Ratio struct{ Large, Small int }

func (r Ratio) String() string { return fmt.Sprintf("%d:%d", r.Large, r.Small) }

// ParseRatio reads large:small, such as "3:1".
func ParseRatio(s string) (Ratio, error) {
	left, right, _ := strings.Cut(s, ":")
	large, errLarge := input.Uint(left, 31)
	small, errSmall := input.Uint(right, 31)
	r := Ratio{int(large), int(small)}
	if errLarge != nil || errSmall != nil || r.check() != nil {
		return Ratio{}, fmt.Errorf("bad ratio %q: write large:small, such as 3:1, with numbers from 0 to %d that are not both 0", s, maxRatioSide)
	}
	return r, nil
}

func (r Ratio) check() error {
	if r.Large < 0 || r.Small < 0 || r.Large > maxRatioSide || r.Small > maxRatioSide || r.Large+r.Small == 0 {
		return errors.New("out of range")
	}
	return nil
}

// split divides jobs as the authors' mixes do: it rounds the number of small jobs down, and all
// other jobs are large. 16 jobs at 3:1 are 12 and 4 (W3), at 2:1 11 and 5 (W2), at 5:1 14 and 2
// (W4). 32 jobs at 2:1 are 22 and 10 (W6), at 5:1 27 and 5 (W8).
func (r Ratio) split(jobs int) (large, small int) {
	small = jobs * r.Small / (r.Large + r.Small)
	return jobs - small, small
}

// Generate makes a random mix by the rule of CASE section 5.2. It draws large and small jobs in
// the given ratio, uniformly and with replacement, from the large and the small jobs of Table 1,
// and shuffles their order. Equal arguments give equal mixes on every machine and Go release.
func Generate(jobs int, ratio Ratio, seed uint64) (Mix, error) {
	if jobs < 1 || jobs > MaxJobs {
		return Mix{}, fmt.Errorf("generate mix: %d jobs, want 1 to %d", jobs, MaxJobs)
	}
	if err := ratio.check(); err != nil {
		return Mix{}, fmt.Errorf("generate mix: ratio %s: %w", ratio, err)
	}
	var largeSet, smallSet []Job
	for _, j := range Jobs() {
		if j.Class == ClassLarge {
			largeSet = append(largeSet, j)
		} else {
			smallSet = append(smallSet, j)
		}
	}
	rng := newRand(seed)
	large, small := ratio.split(jobs)
	drawn := slices.Concat(draw(rng, largeSet, large), draw(rng, smallSet, small))
	rng.Shuffle(len(drawn), func(i, k int) { drawn[i], drawn[k] = drawn[k], drawn[i] })
	return Mix{
		Name:        fmt.Sprintf("gen-%d-%s-%d", jobs, ratio, seed),
		Description: fmt.Sprintf("%d large and %d small jobs of Table 1 at random", large, small),
		Ratio:       ratio.String(),
		Source:      fmt.Sprintf("generated: %d jobs, ratio %s, seed %d", jobs, ratio, seed),
		Jobs:        drawn,
	}, nil
}

// newRand returns this package's only random generator. Its second word is fixed, so that a seed
// is a single number.
func newRand(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x63617365))
}

func draw(rng *rand.Rand, from []Job, count int) []Job {
	drawn := make([]Job, count)
	for i := range drawn {
		drawn[i] = from[rng.IntN(len(from))].clone()
	}
	return drawn
}
