package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/caserun/caserun/mixes"
)

// uncrowded is a node on which a crowd costs nothing, for tests of other parts of the model.
func uncrowded(t testing.TB, text string) Node {
	t.Helper()
	n := mustNode(t, text)
	n.Host.Crowd = Crowd{}
	return n
}

// crowded is jobs of so many seconds of host time on a node of one H200, on which a crowd of all cores
// makes host time 2.5 times as long. With 16 cores, each in use beside one's own adds a tenth.
func crowded(t *testing.T, cores int, seconds ...int) trial {
	t.Helper()
	r := trial{node: mustNode(t, "sim:1xH200"), scheduler: "case-alg3", workers: len(seconds)}
	r.node.Host.Crowd, r.node.Host.Cores = Crowd{cores, cores, 1.5}, cores
	for _, s := range seconds {
		r.jobs = append(r.jobs, mixes.Job{Name: "host", Program: "./host", Footprint: mixes.Footprint{Bytes: 1 << 30, Blocks: 1, ThreadsPerBlock: 32},
			Profile: &mixes.Profile{Before: time.Duration(s) * time.Second}})
	}
	return r
}

func TestACrowdMakesHostTimeLonger(t *testing.T) {
	for _, c := range []struct {
		name    string
		cores   int
		seconds []int
		want    []float64
	}{
		{"alone", 16, []int{7}, []float64{7}},
		{"two", 16, []int{7, 7}, []float64{7.7, 7.7}},
		{"four of four cores", 4, []int{2, 2, 2, 2}, []float64{5, 5, 5, 5}},
		{"eight on four cores: no larger crowd, and half of a core for each", 4, []int{2, 2, 2, 2, 2, 2, 2, 2}, []float64{10, 10, 10, 10, 10, 10, 10, 10}},
		{"the crowd is over", 16, []int{1, 2}, []float64{1.1, 2.1}},
		{"one core has no crowd", 1, []int{2, 2}, []float64{4, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			jobs, _ := crowded(t, c.cores, c.seconds...).must(t)
			for i, want := range c.want {
				wantEnd(t, jobs[i], want)
			}
		})
	}
}

func TestACrowdSaturatesTheHost(t *testing.T) {
	for _, c := range []struct {
		name     string
		crowd    Crowd
		cores    int
		jobs     int
		slowdown float64
	}{
		{"alone", Crowd{16, 9, 0.4}, 16, 1, 1},
		{"half of the way", Crowd{16, 9, 0.4}, 16, 5, 1.2},
		{"saturated", Crowd{16, 9, 0.4}, 16, 9, 1.4},
		{"twice as many do no more", Crowd{16, 8, 0.4}, 16, 16, 2.8},
		{"more than the cores: half of a core for each", Crowd{16, 8, 0.4}, 16, 32, 5.6},
		{"a part of the host is not saturated", Crowd{16, 9, 0.4}, 4, 4, 1.15},
		{"two of the host are saturated by twice as many", Crowd{16, 9, 0.4}, 32, 18, 1.4},
		{"two of the host", Crowd{16, 8, 0.4}, 32, 32, 2.8},
		{"saturated at once", Crowd{16, 1, 0}, 16, 3, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := crowded(t, c.cores, slices.Repeat([]int{2}, c.jobs)...)
			r.node.Host.Crowd = c.crowd
			jobs, _ := r.must(t)
			for _, j := range jobs {
				wantEnd(t, j, 2*c.slowdown)
			}
		})
	}
}

// Copies and kernels are not on the host's cores.
func TestACrowdSlowsTheHostOnly(t *testing.T) {
	r := phased(t, 2, "1,2,4,,0.5,0.25,,0.125", "0:0.25", 1)
	r.node.Host.Crowd = Crowd{16, 16, 1.5}
	jobs, _ := r.must(t)
	for _, j := range jobs {
		wantEnd(t, j, 1.1*(1+2+4)+0.5+0.25+0.125)
	}
}
