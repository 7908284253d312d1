//go:build mpi

package ivmtest

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// mpirun runs a program of benchmarks/ivm with so many ranks. Open MPI asks twice before it runs as root.
func mpirun(t *testing.T, ranks int, program string, arguments ...string) ends {
	t.Helper()
	nativetest.Build(t, "../benchmarks/ivm", "mpi")
	_, path := benchmark(t, program)
	command := "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n " + strconv.Itoa(ranks)
	return run(t, "env", append(append(strings.Fields(command), path), arguments...)...)
}

// The MPI programs have the results of the sequential program and of IVM's, with any number of ranks. --verify finds work that is left out.
func TestMPIProgramsHaveTheResultsOfIVMs(t *testing.T) {
	for program, arguments := range map[string]string{
		"nbody":  "--particles 151 --steps 3",
		"dmm":    "--rows 60 --tiles 3",
		"nw":     "--pairs 21 --letters 50",
		"himeno": "--x 9 --y 8 --z 24 --iterations 7",
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel() // they wait more than they compute
			options := strings.Fields(arguments)
			ivmd, path := benchmark(t, program)
			want := checksum.FindString(run(t, ivmd, append([]string{path}, options...)...).must(t).stdout)
			for _, ranks := range []int{1, 2, 5} {
				e := mpirun(t, ranks, program+"_mpi", append([]string{"--verify", "--slow", "2"}, options...)...)
				if got := checksum.FindString(e.stdout); e.status != 0 || got == "" || got != want {
					t.Errorf("%d ranks: status %d, %q, IVM's: %q\n%s", ranks, e.status, got, want, e.stderr)
				}
			}
			e := mpirun(t, 3, program+"_mpi", append([]string{"--verify", "--omit", "2"}, options...)...)
			if e.status != 4 || !strings.Contains(e.stderr, program+"_mpi: the result is not that of the sequential program") {
				t.Errorf("without rank 2: status %d, %s", e.status, e.stderr)
			}
		})
	}
}

// Ranks of NBODY on GPUs have the result of processors, also where they share GPUs.
func TestMPINBODYOnGPUs(t *testing.T) {
	for _, kv := range nbodyOnGPUs(t) {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
	options := strings.Fields("--particles 151 --steps 3 --verify")
	want := checksum.FindString(mpirun(t, 1, "nbody_mpi", options...).must(t).stdout)
	for _, ranks := range []int{1, 2, 5} {
		e := mpirun(t, ranks, "nbody_mpi", append([]string{"--gpu", "--slow", "2"}, options...)...)
		if got := checksum.FindString(e.stdout); e.status != 0 || got == "" || got != want {
			t.Errorf("%d ranks: status %d, %q, on processors: %q\n%s", ranks, e.status, got, want, e.stderr)
		}
	}
	t.Setenv("PILOT_OMIT", "2")
	if e := mpirun(t, 2, "nbody_mpi", append([]string{"--gpu"}, options...)...); e.status != 4 {
		t.Errorf("without the second kernel of each rank: status %d, %s", e.status, e.stderr)
	}
}

// The comparison has a line for each program.
func TestCompare(t *testing.T) {
	t.Setenv("QUICK", "1")
	t.Setenv("RUNS", "1")
	source := nativetest.Build(t, "../benchmarks/ivm", "mpi")
	benchmark(t, "nbody")
	e := run(t, filepath.Join(source, "compare.sh")).must(t)
	line := regexp.MustCompile(`^(\w+) +[0-9.]+ \([0-9. to]+\) +[0-9.]+ \([0-9. to]+\) +[0-9.]+ *$`)
	var programs []string
	for _, text := range strings.Split(strings.TrimSpace(e.stdout), "\n")[1:] {
		if match := line.FindStringSubmatch(text); match != nil {
			programs = append(programs, match[1])
		}
	}
	if strings.Join(programs, " ") != "nbody dmm nw himeno" {
		t.Error(e.stdout)
	}
}
