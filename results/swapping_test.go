package results

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caserun/caserun/schedulers"
)

func moved(job, task int, d schedulers.Direction, end float64, bytes int64) Swap {
	return Swap{Job: job, Task: task, Direction: d, Outcome: schedulers.Done, StartS: end - 1, EndS: end, Bytes: bytes}
}

func TestSwapping(t *testing.T) {
	unable := Swap{Job: 1, Direction: schedulers.Out, Outcome: schedulers.Unable, EndS: 3, DrainS: 0.125, LostS: known(1.0)}
	costly := Swap{Job: 2, Direction: schedulers.Out, Outcome: schedulers.Done, EndS: 1, Bytes: 7, DrainS: 0.25, CopyS: 0.5, BookkeepingS: 1, LostS: known(0.5)}
	back := Swap{Job: 2, Direction: schedulers.In, Outcome: schedulers.Done, EndS: 2, Bytes: 5, CopyS: 0.25, BookkeepingS: 0.5}
	nothing := Swap{Job: 3, Direction: schedulers.Out, Outcome: schedulers.Done, EndS: 1, ResidentBytes: known(int64(0))} // it gave way, and had nothing
	busy := unable
	busy.Outcome = schedulers.Busy
	got := NewSwapping(Run{Mode: Live}, []Task{{Job: 2, ReleaseS: known(9.0)}}, []Swap{unable, busy, costly, nothing, back})
	want := Swapping{Swaps: known(int64(2)), InVain: known(int64(2)), OutBytes: known(int64(7)), InBytes: known(int64(5)),
		DrainS: known(0.5), CopyS: known(0.75), BookkeepingS: known(1.5), LostS: known(2.5), HostPeakBytes: known(int64(7))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	want.HostMappedS = known(0.0)
	if diff := cmp.Diff(want, NewSwapping(Run{Mode: Simulated}, nil, []Swap{unable, busy, costly, nothing, back})); diff != "" {
		t.Errorf("simulated (-want +got):\n%s", diff)
	}
	away := moved(4, 0, schedulers.Out, 1, 9) // to another device
	away.Action = "move"
	want.Swaps = known(int64(3))
	if diff := cmp.Diff(want, NewSwapping(Run{Mode: Simulated}, nil, []Swap{unable, busy, costly, nothing, back, away})); diff != "" {
		t.Errorf("with a move (-want +got):\n%s", diff)
	}
	if got := NewSwapping(Run{Mode: Simulated}, []Task{{}}, nil); got != (Swapping{}) {
		t.Errorf("a run without swaps: %+v", got)
	}
}

func TestMostHostMemoryAtOneTime(t *testing.T) {
	released := func(job, task int, at float64) Task { return Task{Job: job, Seq: task, ReleaseS: &at} }
	for _, c := range []struct {
		name  string
		tasks []Task
		swaps []Swap
		want  int64
	}{
		{"two tasks overlap", []Task{released(0, 0, 9), released(1, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 0, schedulers.In, 5, 4), moved(1, 0, schedulers.Out, 3, 3)}, 7},
		{"one comes back before the other goes", []Task{released(0, 0, 9), released(1, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 0, schedulers.In, 3, 4), moved(1, 0, schedulers.Out, 3, 3)}, 4},
		{"a task ends while its memory is out", []Task{released(0, 0, 2), released(0, 1, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 1, schedulers.Out, 3, 3)}, 4},
		{"a task that has not ended", []Task{{Job: 0}, released(0, 1, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 1, schedulers.Out, 3, 3)}, 7},
		{"in parts", []Task{released(0, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 0, schedulers.In, 2, 1), moved(0, 0, schedulers.Out, 3, 2)}, 5},
		{"more comes back than went", []Task{released(0, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 0, schedulers.In, 2, 9), moved(0, 0, schedulers.Out, 3, 2)}, 4},
		{"out and back at one time", []Task{released(0, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), moved(0, 0, schedulers.In, 1, 4), moved(0, 0, schedulers.Out, 2, 1)}, 1},
		{"a process that is busy and names a size", []Task{released(0, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, 4), {Direction: schedulers.Out, Outcome: schedulers.Busy, EndS: 2, Bytes: 3}}, 4},
		{"sizes that a process made up", []Task{released(0, 0, 9)},
			[]Swap{moved(0, 0, schedulers.Out, 1, math.MaxInt64), moved(0, 0, schedulers.Out, 2, math.MaxInt64)}, math.MaxInt64},
	} {
		if got := *NewSwapping(Run{}, c.tasks, c.swaps).HostPeakBytes; got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
