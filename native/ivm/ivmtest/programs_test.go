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

// checksum is the line of a program with its result.
var checksum = regexp.MustCompile(`(?m)^checksum .*$`)

// sizes are small inputs of programs, with enough portions for some devices.
var sizes = map[string]string{
	"nbody":  "--particles 150 --steps 3 --portions 7",
	"dmm":    "--rows 60 --tiles 3",
	"nw":     "--pairs 20 --letters 50 --portions 9",
	"himeno": "--x 9 --y 8 --z 24 --iterations 7 --virtual 3 --threshold 100",
}

// Programs have the results of the sequential program, on one device and on several. --verify finds work that is left out.
func TestProgramsHaveTheResultOfTheSequentialProgram(t *testing.T) {
	for program, arguments := range sizes {
		ivmd, path := benchmark(t, program)
		first := ""
		for _, devices := range []string{"1", "2", "5"} {
			e := run(t, ivmd, append([]string{path, "--verify", "--slow", "2", "--devices", devices}, strings.Fields(arguments)...)...).must(t)
			got := checksum.FindString(e.stdout)
			if first == "" {
				first = got
			}
			if got == "" || got != first {
				t.Errorf("%s on %s devices: %s, on 1: %s", program, devices, got, first)
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

// A program that maps whole matrices has the same result.
func TestDMMOfWholeMatrices(t *testing.T) {
	ivmd, path := benchmark(t, "dmm")
	run(t, ivmd, path, "--verify", "--rows", "60", "--tiles", "3", "--whole").must(t)
}

// OM-LB starts a PE on each device that is more than threshold times as fast as the slowest, at most one in an iteration. Time is
// virtual. A threshold of 1 leads to the ideal division.
func TestOMLBStartsPEsOnFastDevices(t *testing.T) {
	ivmd, path := benchmark(t, "himeno")
	for _, test := range []struct{ options, starts, division string }{
		{"--devices 3 --virtual 2 --threshold 100", "1:4:0 1:5:1 2:6:0 3:7:0", "4 2 1, 240 120 60"},
		{"--devices 3 --virtual 2", "1:4:0", "2 1 1, 210 105 105"}, // a device that is twice as fast is not more than twice
		{"--devices 3 --virtual 2 --threshold 150", "1:4:0 1:5:1 2:6:0", "3 2 1, 210 140 70"},
		{"--devices 2 --virtual 9", "1:3:0 2:4:0 3:5:0 4:6:0", "5 1, 350 70"},
		{"--devices 2 --virtual 9 --most 4", "1:3:0 2:4:0", "3 1, 315 105"},
		{"--devices 3 --virtual 2 --most 3", "", "1 1 1, 140 140 140"},
		{"--devices 4 --virtual 1 --threshold 100", "", "1 1 1 1, 105 105 105 105"},
		{"--devices 2 --virtual 9 --iterations 3", "1:3:0 2:4:0", "3 1, 315 105"}, // not after the last iteration
	} {
		e := run(t, ivmd, append([]string{path, "--verify", "--x", "4", "--y", "5", "--z", "422", "--iterations", "8"}, strings.Fields(test.options)...)...).must(t)
		var starts []string
		for _, match := range regexp.MustCompile(`(?m)^after iteration (\d+): PE (\d+) on device (\d+)$`).FindAllStringSubmatch(e.stdout, -1) {
			starts = append(starts, strings.Join(match[1:], ":"))
		}
		division := regexp.MustCompile(`(?m)^PEs by device: (.*)\nplanes by device: (.*)$`).FindStringSubmatch(e.stdout)
		if division == nil || strings.Join(starts, " ") != test.starts || division[1]+", "+division[2] != test.division {
			t.Errorf("%s: want PEs %s and %s\n%s", test.options, test.starts, test.division, e.stdout)
		}
	}
	if e := run(t, ivmd, path, "--z", "17"); e.status != 2 || !strings.Contains(e.stderr, "himeno: --most 16 is not from --devices 2 to --z minus 2, 15") {
		t.Errorf("status %d, %s", e.status, e.stderr)
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
