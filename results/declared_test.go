package results

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMisdeclarations(t *testing.T) {
	job := func(command string, declared, used *int64, o Outcome) Job {
		return Job{Name: command + "'s", Command: command, FootprintBytes: declared, UsedBytes: used, Outcome: &o}
	}
	n := func(v int64) *int64 { return &v }
	several := job("several", n(100), n(400), OK)
	several.Devices = new("0,1")
	got := Misdeclarations([]Job{
		several,
		job("exact", n(300), n(300), OK), job("a third", n(100), n(300), OK), job("three times", n(300), n(100), OK),
		job("more", n(301), n(100), OK), job("less", n(99), n(297), OOM), job("less", n(99), n(298), OOM), job("less", n(99), n(5), OK),
		job("cut short", n(301), n(100), OOM), job("one was", n(301), n(90), Timeout), job("one was", n(301), n(100), OK),
		job("one used it", n(301), n(100), OK), job("one used it", n(301), n(301), OK), job("other footprint", n(301), n(200), OK),
		job("other footprint", n(1000), n(200), OK),
		job("unknown", n(1000), nil, OK), job("undeclared", nil, n(1000), OK), job("nothing", n(1), n(0), OK),
	})
	want := []Misdeclared{{"more's", 301, 100}, {"less's", 99, 298}, {"one was's", 301, 100}, {"other footprint's", 1000, 200},
		{"nothing's", 1, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
