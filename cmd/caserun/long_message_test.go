package main

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// A message quotes a part of what is long, and keeps what comes before and after it.
func TestMessagesAreNotLong(t *testing.T) {
	inTempDir(t)
	long := strings.Repeat("ä", 50_000)
	for name, text := range map[string]string{
		"job.yaml": "jobs: [" + long + "]\n", "arg.yaml": "jobs: [{program: nope, args: [" + long + "]}]\n", "program.yaml": "jobs: [{program: ./" + long + "}]\n",
		"key.yaml": "jobs: [{job: bfs-32M, " + long + ": 1}]\n", "list.wl": "./" + long + "\n", "sweep.yaml": long + ": 1\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"mix", "job.yaml"}, {"mix", "arg.yaml"}, {"mix", "key.yaml"}, {"mix", "list.wl"}, {"sweep", "sweep.yaml"}, {long}, {"mix", long}, {"mix", "W1", "--" + long}, {"mix", "W1", "--seed", long},
		{"mix", "W1", "--sched", long}, {"mix", "W1", "--node", long}, {"mix", "W1", "--mem-cap", long}, {"mix", "W1", "--tag", long + "\n"}, {"report", "--db", long}, {"report", long},
		{"compare", long, "x"}, {"regress", "--baseline", long}, {"export", "--csv", long}, {"sweep", "--mixes", long}, {"sweep", "--resume", long}, {"schedulers", long},
		{"mix", "W1", "--config", "sweep.yaml"}, {"mix", "W1", "--node", "sim:1xV100", "--profiles", long}, {"profile", "--", long}, {"man", long},
	} {
		status, out, errs := caserun(t, args...)
		for line := range strings.Lines(errs) {
			if len(line) > 4*1200 || !utf8.ValidString(line) || !strings.HasPrefix(errs, "caserun: ") {
				t.Errorf("caserun %.40q: %d bytes: %.200s", args, len(line), line)
			}
		}
		if status == exitOK || out != "" || errs == "" {
			t.Errorf("caserun %.40q: exit %d: %.200s", args, status, errs)
		}
	}
	if _, _, errs := caserun(t, "mix", "W1", "--sched", long); !strings.HasPrefix(errs, `caserun: --sched: unknown scheduler "ä`) || !strings.HasSuffix(errs, "zero\n") {
		t.Errorf("the begin or the end is missing: %s", errs)
	}
}
