package results

import (
	"fmt"
	"testing"
)

// A job is as its portions: its outcome is that of the one that failed first, its memory that of the largest, its time that of all.
func TestJobOfPortions(t *testing.T) {
	portion := func(i int, start, end float64, device int, o Outcome) Job {
		return Job{Index: 5 + i, ArrivalS: new(1.0), StartS: &start, EndS: &end, WaitS: new(start - 1), Device: &device, Outcome: &o, UserS: new(2.0), UsedBytes: new(int64(10 + i)),
			MaxRSSBytes: new(int64(20 - i)), Detail: map[bool]string{true: fmt.Sprint("why ", i)}[o != OK]}
	}
	running := portion(2, 3, 0, 0, OK)
	running.EndS, running.Outcome = nil, nil
	never := Job{Index: 7, ArrivalS: new(1.0), Outcome: new(Cancelled), Detail: "stopped"}
	for _, c := range []struct {
		portions []Job
		want     string
	}{
		{[]Job{portion(0, 3, 9, 1, OK), portion(1, 2, 4, 0, OK)}, "2 to 9 on 0 of 0,1: ok "},
		{[]Job{portion(0, 2, 9, 1, OK), portion(1, 2, 4, 1, OK), running}, "2 to - on 1 of 0,1: - "},
		{[]Job{portion(0, 2, 9, 1, Crash), portion(1, 2, 4, 1, OOM), never}, "2 to 9 on 1 of -: oom portion 1: why 1"},
		{[]Job{portion(0, 2, 3, 1, Cancelled), portion(1, 2, 4, 1, Crash)}, "2 to 4 on 1 of -: crash portion 1: why 1"},
		{[]Job{portion(0, 2, 3, 1, Crash), portion(1, 2, 4, 1, NotStarted)}, "2 to 4 on 1 of -: not-started portion 1: why 1"},
		{[]Job{portion(0, 2, 3, 1, OK), portion(1, 2, 4, 1, OKAfterOOM)}, "2 to 4 on 1 of -: ok-after-oom portion 1: why 1"},
		{[]Job{portion(0, 2, 3, 1, OK), portion(1, 2, 4, 1, OK), never}, "2 to 4 on 1 of -: cancelled portion 2: stopped"},
		{[]Job{never, never}, "- to - on - of -: cancelled portion 0: stopped"},
	} {
		j := OfPortions(Job{Index: 3, Command: "3 portions: a"}, c.portions)
		got := fmt.Sprintf("%s to %s on %s of %s: %s %s", said(j.StartS), said(j.EndS), said(j.Device), said(j.Devices), said(j.Outcome), j.Detail)
		if got != c.want || j.Index != 3 || j.Command != "3 portions: a" || *j.ArrivalS != 1 {
			t.Errorf("%+v: %s, want %s", j, got, c.want)
		}
		if j.StartS != nil && (*j.WaitS != *j.StartS-1 || *j.UsedBytes < 11 || *j.MaxRSSBytes != 20 || *j.UserS < 4) {
			t.Errorf("%+v", j)
		}
	}
}

func said[T any](v *T) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(*v)
}
