package results

import (
	"cmp"
	"fmt"
)

// Arm is what repetitions repeat. Traced runs are arms of their own, because
// tracing costs time; so are runs of a part of a mix, such as those of
// --retry-collateral, which Jobs tells apart.
type Arm struct {
	Mix, Scheduler, Parameters, Node string
	Mode                             Mode
	Jobs                             int
	Traced                           bool
}

// ArmOf is the arm that a run is a repetition of.
func ArmOf(r Run) Arm {
	return Arm{r.Mix, r.Scheduler, r.Parameters, r.Node, r.Mode, r.Jobs, r.Traced}
}

// Batch is the arm without its scheduler: arms of one batch differ in the
// scheduler alone.
func (a Arm) Batch() Arm {
	a.Scheduler, a.Parameters = "", ""
	return a
}

// String is "W7 under case-alg3 on local, traced".
func (a Arm) String() string {
	s := fmt.Sprintf("%s under %s on %s", a.Mix, a.Scheduler, a.Node)
	if a.Mode == Simulated {
		s += ", simulated"
	}
	if a.Traced {
		s += ", traced"
	}
	return s
}

// Compare orders arms by mix, then by scheduler.
func (a Arm) Compare(b Arm) int {
	traced := func(a Arm) int {
		if a.Traced {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Mix, b.Mix), cmp.Compare(a.Scheduler, b.Scheduler), cmp.Compare(a.Parameters, b.Parameters),
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(traced(a), traced(b)))
}
