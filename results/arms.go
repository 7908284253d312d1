package results

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caserun/caserun/schedulers"
)

// Arm is what repetitions repeat. Traced runs are an arm of their own, because tracing costs
// time. So are runs of a part of a mix (as --isolate-faults makes them): their Jobs differs.
type Arm struct {
	Mix, Scheduler, Parameters, Node string
	Mode                             Mode
	Jobs                             int
	Traced                           bool
	Probe                            Probe
}

// ArmOf returns the arm of which a run is a repetition. Parameters that had no effect do not count.
func ArmOf(r Run) Arm {
	return Arm{r.Mix, r.Scheduler, schedulers.WithoutRetired(r.Scheduler, r.Parameters), r.Node, r.Mode, r.Jobs, r.Traced, r.Probe}
}

// Batch returns the arm without its scheduler and its probe. Arms with equal batches differ only
// in how their tasks are made and placed.
func (a Arm) Batch() Arm {
	a.Scheduler, a.Parameters, a.Probe = "", "", Lazy
	return a
}

// Alone returns the arm under sa whose kernels are the baseline of this arm's. It has the arm's
// probe, because casecc's kernels are not those of the CUDA compiler.
func (a Arm) Alone() Arm {
	alone := a.Batch()
	alone.Scheduler, alone.Probe = "sa", a.Probe
	return alone
}

// IsUnder reports whether the arm is under a scheduler with all the parameters that the user
// named, as in "cg:workers=2". The probe counts as one. omitted are the parameters of the scheduler, as k=v, that a run's
// record leaves out while they have these values.
func (a Arm) IsUnder(scheduler string, omitted []string) bool {
	name, parameters, _ := strings.Cut(scheduler, ":")
	if a.Scheduler != name {
		return false
	}
	has := append(strings.Split(a.Parameters, ","), "probe="+a.Probe.String())
	for _, p := range omitted {
		key, _, _ := strings.Cut(p, "=")
		if !slices.ContainsFunc(has, func(own string) bool { return strings.HasPrefix(own, key+"=") }) {
			has = append(has, p)
		}
	}
	for p := range strings.SplitSeq(parameters, ",") {
		if p != "" && !slices.Contains(has, p) {
			return false
		}
	}
	return true
}

// HasEmptyPart reports whether a part of a scheduler as IsUnder takes it is empty. It may be an unset variable, which never
// means all.
func HasEmptyPart(scheduler string) bool {
	name, parameters, more := strings.Cut(scheduler, ":")
	empty := name == "" || name[0] == '/' || name[len(name)-1] == '/'
	for more && !empty {
		var parameter string
		parameter, parameters, more = strings.Cut(parameters, ",")
		key, value, assigned := strings.Cut(parameter, "=")
		empty = key == "" || assigned && value == ""
	}
	return empty
}

// String names an arm that is not listed with others.
func (a Arm) String() string { return Names{}.Of(a) }

// Names are arms that are listed together. No two of them get the same name: a name has the
// number of jobs if another arm runs the same mix with a different number, and the parameters
// that another arm of the same scheduler lacks.
type Names []Arm

// Of returns a name such as "W7 under case-alg3 on local, traced".
func (n Names) Of(a Arm) string {
	s := fmt.Sprintf("%s under %s on %s", n.Mix(a), n.Scheduler(a), a.Node)
	if a.Mode == Simulated {
		s += ", simulated"
	}
	if a.Traced {
		s += ", traced"
	}
	return s
}

// Mix returns the arm's mix, as "W7" or "W7 (4 jobs)".
func (n Names) Mix(a Arm) string {
	if slices.ContainsFunc(n, func(o Arm) bool { return o.Mix == a.Mix && o.Jobs != a.Jobs }) {
		return fmt.Sprintf("%s (%d jobs)", a.Mix, a.Jobs)
	}
	return a.Mix
}

// Scheduler returns the arm's scheduler, as "cg" or "cg:workers=2". The probe is named as a
// parameter is, as "case-alg3:probe=static", if it is not the default or another arm of the same
// scheduler has another.
func (n Names) Scheduler(a Arm) string {
	var own []string
	for p := range strings.SplitSeq(a.Parameters, ",") {
		lacks := func(o Arm) bool {
			return o.Scheduler == a.Scheduler && !slices.Contains(strings.Split(o.Parameters, ","), p)
		}
		if p != "" && slices.ContainsFunc(n, lacks) {
			own = append(own, p)
		}
	}
	name := a.Scheduler
	if len(own) > 0 {
		name += ":" + strings.Join(own, ",")
	}
	if slices.ContainsFunc(n, func(o Arm) bool { return o.Scheduler == a.Scheduler && o.Probe != a.Probe }) {
		return addProbe(name, a.Probe)
	}
	return WithProbe(name, a.Probe)
}

// addProbe adds a probe to the name of a scheduler, as "case-alg3:queue=fifo,probe=static".
func addProbe(scheduler string, p Probe) string {
	if strings.Contains(scheduler, ":") {
		return scheduler + ",probe=" + p.String()
	}
	return scheduler + ":probe=" + p.String()
}

// WithProbe is the name of a scheduler, with a probe that is not the default, as
// "case-alg3:probe=static".
func WithProbe(scheduler string, p Probe) string {
	if p == Lazy {
		return scheduler
	}
	return addProbe(scheduler, p)
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
		cmp.Compare(a.Node, b.Node), cmp.Compare(a.Mode, b.Mode), cmp.Compare(a.Jobs, b.Jobs), cmp.Compare(traced(a), traced(b)), cmp.Compare(a.Probe, b.Probe))
}
