package main

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caserun/caserun/results"
	"github.com/caserun/caserun/results/store"
)

// A simulated sweep has 7 repetitions with a noise of 1 %, unless a flag, the environment, the
// configuration file or the sweep's file says otherwise. A flag goes before all of them.
func TestRepetitionsAndNoiseOfASimulatedSweep(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "") // no GPU here
	sweep := []string{"--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100"}
	const file = "mixes: [W1]\nscheds: [sa]\nnode: sim:1xV100\n"
	for name, c := range map[string]struct {
		args                []string
		env, settings, file string
		want                string
	}{
		"nothing":                         {sweep, "", "", "", "7 repetitions, noise 1 %"},
		"no node":                         {sweep[:4], "", "", "", "7 repetitions, noise 1 %"},
		"flag for repetitions":            {append(slices.Clone(sweep), "--reps", "2"), "", "", "", "2 repetitions, noise 1 %"},
		"flag for noise":                  {append(slices.Clone(sweep), "--sim-noise", "0.02"), "", "", "", "7 repetitions, noise 2 %"},
		"flag for no noise":               {append(slices.Clone(sweep), "--sim-noise", "0"), "", "", "", "1 repetition, no noise"},
		"environment":                     {sweep, "0.03", "", "", "7 repetitions, noise 3 %"},
		"environment for no noise":        {sweep, "0", "", "", "1 repetition, no noise"},
		"configuration file":              {sweep, "", "sim-noise: 0.04\n", "", "7 repetitions, noise 4 %"},
		"configuration file for no noise": {sweep, "", "sim-noise: 0\n", "", "1 repetition, no noise"},
		"sweep file":                      {nil, "", "", file, "7 repetitions, noise 1 %"},
		"sweep file for noise":            {nil, "", "", file + "sim-noise: 0.05\nreps: 3\n", "3 repetitions, noise 5 %"},
		"sweep file for no noise":         {nil, "", "", file + "sim-noise: 0\n", "1 repetition, no noise"},
		"flag before all":                 {[]string{"--sim-noise", "0.06", "--reps", "4"}, "0", "sim-noise: 0\n", file + "sim-noise: 0\nreps: 1\n", "4 repetitions, noise 6 %"},
		"no noise by flag before all":     {[]string{"--sim-noise", "0"}, "0.1", "sim-noise: 0.1\n", file + "sim-noise: 0.1\n", "1 repetition, no noise"},
	} {
		t.Run(name, func(t *testing.T) {
			inTempDir(t)
			t.Setenv("CASERUN_SIM_NOISE", c.env)
			writeFiles(t, map[string]string{"caserun.yaml": c.settings})
			args := append([]string{"sweep"}, c.args...)
			if c.file != "" {
				writeFiles(t, map[string]string{"s.yaml": c.file})
				args = append(args, "s.yaml")
			}
			if status, out, errs := caserun(t, append(args, "--dry-run")...); status != exitOK || !strings.HasPrefix(out, "SIMULATED plan, "+c.want+"\n") {
				t.Errorf("--dry-run: exit %d: %s%s, want %s", status, out, errs, c.want)
			}
			// What --show-config prints is what the sweep has, so that it may be kept as a file.
			_, shown, _ := caserun(t, append(args, "--show-config")...)
			_, after, _ := strings.Cut(shown, "\nsim-noise: ")
			line, _, _ := strings.Cut(after, "\n")
			kept, err := strconv.ParseFloat(line, 64)
			if err != nil {
				t.Fatalf("--show-config has no noise: %s", shown)
			}
			status, out, errs := caserun(t, args...)
			of := "SIMULATED sweep 1 on sim:" + map[bool]string{true: "4xV100", false: "1xV100"}[name == "no node"] + ", " + c.want
			if status != exitOK || !strings.HasPrefix(out, of+": medians\n") || !strings.Contains(errs, c.want+"\n") {
				t.Fatalf("exit %d: %s%s, want %s", status, out, errs, of)
			}
			if _, again, _ := caserun(t, "sweep", "show"); again != out {
				t.Errorf("sweep show is not what the sweep printed:\n%s", again)
			}
			if _, out, _ := caserun(t, "sweep", "status"); !strings.HasPrefix(out, of+": complete\n") {
				t.Errorf("sweep status:\n%s", out)
			}
			runs := storedRuns(t)
			var noise struct {
				Noise float64 `json:"sim-noise"`
			}
			if err := json.Unmarshal([]byte(runs[0].Provenance.Configuration), &noise); err != nil || noise.Noise != kept {
				t.Errorf("--show-config has a noise of %v, and the run %v (%v)", kept, noise.Noise, err)
			}
			seeds, makespans := map[uint64]bool{}, map[float64]bool{}
			for _, r := range runs {
				seeds[r.Seed], makespans[*r.Metrics.MakespanS] = true, true
			}
			if len(seeds) != len(runs) || len(makespans) != len(runs) {
				t.Errorf("%d repetitions have %d seeds and %d makespans", len(runs), len(seeds), len(makespans))
			}
		})
	}
}

// storedRuns are the runs of the store.
func storedRuns(t *testing.T) []results.Run {
	t.Helper()
	s, err := store.OpenReadOnly("caserun.db")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	runs, err := s.Runs(t.Context(), store.Filter{})
	if err != nil || len(runs) == 0 {
		t.Fatalf("%d runs: %v", len(runs), err)
	}
	return runs
}

// The same command gives the same figures, and another seed gives others.
func TestASimulatedSweepIsDeterministic(t *testing.T) {
	figures := func(seed string) string {
		inTempDir(t)
		mustRun(t, "sweep", "--mixes", "W1", "--scheds", "sa,case-alg3", "--node", "sim:2xP100", "--jobs", "2", "--seed", seed)
		out, _ := mustRun(t, "sweep", "show", "--format", "csv")
		return out
	}
	first := figures("1")
	if again := figures("1"); again != first {
		t.Errorf("the same command gives\n%s, and before\n%s", again, first)
	}
	if other := figures("2"); other == first {
		t.Errorf("seed 2 gives the figures of seed 1:\n%s", other)
	}
}

// A mix is one run without noise. A sweep of one repetition without noise has its figures.
func TestAMixHasNoNoise(t *testing.T) {
	inTempDir(t)
	mustRun(t, "mix", "W1", "--sched", "sa", "--node", "sim:2xP100")
	mustRun(t, "mix", "W1", "--sched", "sa", "--node", "sim:2xP100", "--seed", "2")
	mustRun(t, "sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:2xP100", "--reps", "1", "--sim-noise", "0")
	runs := storedRuns(t)
	if len(runs) != 3 {
		t.Fatalf("%d runs, want 3", len(runs))
	}
	for _, r := range runs[1:] {
		if !results.NoiseFree(r) || *r.Metrics.MakespanS != *runs[0].Metrics.MakespanS || *r.Metrics.TurnaroundMeanS != *runs[0].Metrics.TurnaroundMeanS {
			t.Errorf("run %d has other figures than run 1: %+v and %+v", r.ID, r.Metrics, runs[0].Metrics)
		}
	}
}

// The paper's evaluation on a simulated node has the defaults of a sweep.
func TestRepetitionsAndNoiseOfThePaper(t *testing.T) {
	for want, flags := range map[string][]string{
		"7 repetitions, noise 1 %": nil,
		"2 repetitions, noise 1 %": {"--reps", "2"},
		"1 repetition, no noise":   {"--sim-noise", "0"},
		"7 repetitions, noise 2 %": {"--sim-noise", "0.02"},
	} {
		inTempDir(t)
		mustRun(t, append([]string{"paper", "--run", "--node", "sim:4xV100", "--mixes", "W1"}, flags...)...)
		if out, _ := mustRun(t, "sweep", "show"); !strings.HasPrefix(out, "SIMULATED sweep 1 on sim:4xV100, "+want+": medians (CASE with Rodinia)\n") {
			t.Errorf("paper --run %v: want %s:\n%s", flags, want, out)
		}
	}
	inTempDir(t)
	if out, _ := mustRun(t, "paper", "--run", "--show-config", "--node", "sim:4xV100"); !strings.Contains(out, "\nsim-noise: 0.01\n") {
		t.Errorf("paper --show-config:\n%s", out)
	}
	if out, _ := mustRun(t, "mix", "--show-config", "--node", "sim:4xV100", "--sim-noise", "0"); !strings.Contains(out, "\nsim-noise: 0.0\n") {
		t.Errorf("mix --show-config:\n%s", out)
	}
}

// What mix --show-config prints can be kept as a file, and sweeps keep their noise.
func TestConfigurationOfAMixLeavesSweepsTheirNoise(t *testing.T) {
	for _, show := range [][]string{{"mix", "W1"}, {"sweep", "--node", "local"}} {
		inTempDir(t)
		out, _ := mustRun(t, append(show, "--show-config")...)
		if strings.Contains(out, "sim-noise") {
			t.Errorf("%v --show-config has noise that nobody gave:\n%s", show, out)
		}
		writeFiles(t, map[string]string{"caserun.yaml": out})
		plan, _ := mustRun(t, "sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100", "--dry-run")
		if !strings.HasPrefix(plan, "SIMULATED plan, 7 repetitions, noise 1 %\n") {
			t.Errorf("with the configuration of %v:\n%s", show, plan)
		}
	}
}

// A sweep that was planned without noise stays so when it is resumed and when it is extended.
func TestResumedSweepKeepsItsNoise(t *testing.T) {
	inTempDir(t)
	sweep := []string{"sweep", "--mixes", "W1", "--scheds", "sa", "--node", "sim:1xV100"}
	mustRun(t, append(slices.Clone(sweep), "--sim-noise", "0", "--plan-only")...)
	for args, want := range map[string]string{"": "1 repetition, no noise", "--reps 2": "2 repetitions, no noise"} {
		if out, _ := mustRun(t, append([]string{"sweep", "--resume", "1", "--dry-run"}, strings.Fields(args)...)...); !strings.HasPrefix(out, "SIMULATED plan, "+want+"\n") {
			t.Errorf("--resume 1 %s: want %s:\n%s", args, want, out)
		}
	}
	if out, _ := mustRun(t, "sweep", "--resume", "1"); !strings.HasPrefix(out, "SIMULATED sweep 1 on sim:1xV100, 1 repetition, no noise: medians\n") {
		t.Errorf("resumed:\n%s", out)
	}
	if out, _ := mustRun(t, "sweep", "list", "--format", "csv"); !strings.Contains(out, ",complete,1,1,1,0,") {
		t.Errorf("sweep list:\n%s", out)
	}
	if status, _, errs := caserun(t, "sweep", "--resume", "1", "--sim-noise", "0.01"); status != exitUsage || !strings.Contains(errs, "sweep 1 was planned with --sim-noise 0, not --sim-noise 0.01") {
		t.Errorf("resumed with noise: exit %d: %s", status, errs)
	}
}
