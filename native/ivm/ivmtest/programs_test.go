package ivmtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/native/nativetest"
)

// benchmark returns the paths of ivmd and of a program of benchmarks/ivm.
func benchmark(t *testing.T, program string) (ivmd, path string) {
	t.Helper()
	source := nativetest.Build(t, "../benchmarks/ivm")
	names, err := filepath.Glob(filepath.Join(source, "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names { // so that go test runs this again when one has changed
		if _, err := os.Stat(name); err != nil {
			t.Fatal(err)
		}
	}
	ivmd, _ = built(t, "")
	return ivmd, filepath.Join(source, "../../bin/ivm", program)
}

// Programs have the results of the sequential program, on one device and on several. --verify finds work that is left out.
func TestProgramsHaveTheResultOfTheSequentialProgram(t *testing.T) {
	for program, arguments := range map[string]string{
		"nbody": "--particles 150 --steps 3 --portions 7",
		"dmm":   "--rows 60 --tiles 3",
		"nw":    "--pairs 20 --letters 50 --portions 9",
	} {
		ivmd, path := benchmark(t, program)
		first := ""
		for _, devices := range []string{"1", "2", "5"} {
			e := run(t, ivmd, append([]string{path, "--verify", "--slow", "2", "--devices", devices}, strings.Fields(arguments)...)...).must(t)
			checksum, _, _ := strings.Cut(e.stdout, "\n")
			if first == "" {
				first = checksum
			}
			if !strings.HasPrefix(checksum, "checksum ") || checksum != first {
				t.Errorf("%s on %s devices: %s, on 1: %s", program, devices, checksum, first)
			}
		}
		e := run(t, ivmd, append([]string{path, "--verify", "--omit", "4"}, strings.Fields(arguments)...)...)
		if e.status != 4 || !strings.Contains(e.stderr, program+": the result is not that of the sequential program") {
			t.Errorf("%s without portion 4: status %d, %s", program, e.status, e.stderr)
		}
		if e := run(t, ivmd, path, "--devices", "0"); e.status != 2 || !strings.Contains(e.stderr, "wrong option or value: --devices") {
			t.Errorf("%s --devices 0: status %d, %s", program, e.status, e.stderr)
		}
	}
}

var numbers = regexp.MustCompile(`[0-9.]+`)

// DS-LB divides portions among devices of different speed within 10 % of the ideal division. Time is virtual.
func TestDSLBDividesByTheSpeedOfDevices(t *testing.T) {
	ivmd, path := benchmark(t, "division")
	for _, test := range []struct{ portions, devices, ratio int }{{140, 3, 2}, {100, 2, 9}, {60, 6, 1}} {
		e := run(t, ivmd, path, "--portions", strconv.Itoa(test.portions), "--devices", strconv.Itoa(test.devices), "--ratio", strconv.Itoa(test.ratio)).must(t)
		got, want, _ := strings.Cut(e.stdout, "\n")
		counts, ideal := numbers.FindAllString(got, -1), numbers.FindAllString(want, -1)
		if len(counts) != test.devices || len(ideal) != test.devices {
			t.Fatalf("%+v:\n%s", test, e.stdout)
		}
		sum := 0
		for i := range counts {
			count, errCount := strconv.Atoi(counts[i])
			best, errBest := strconv.ParseFloat(ideal[i], 64)
			if errCount != nil || errBest != nil || float64(count) < 0.9*best || float64(count) > 1.1*best {
				t.Errorf("%+v:\n%s", test, e.stdout)
			}
			sum += count
		}
		if sum != test.portions {
			t.Errorf("%+v: %d portions are done\n%s", test, sum, e.stdout)
		}
	}
}

func TestWhatMeasuresPrintsNumbers(t *testing.T) {
	ivmd, path := benchmark(t, "putget")
	e := run(t, ivmd, path, "--most", strconv.Itoa(4<<20)).must(t)
	if lines := strings.Split(strings.TrimSpace(e.stdout), "\n"); len(lines) != 3 || len(strings.Fields(lines[2])) != 6 {
		t.Error(e.stdout)
	}
	ivmd, path = benchmark(t, "start")
	if e := run(t, ivmd, path, "--count", "3").must(t); len(numbers.FindAllString(e.stdout, -1)) != 4 {
		t.Error(e.stdout)
	}
}
