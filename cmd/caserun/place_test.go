package main

import (
	"os"
	"strings"
	"testing"
)

func TestPlace(t *testing.T) {
	inTempDir(t)
	const header = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time,scheduled_time\n"
	writeFiles(t, map[string]string{"n.csv": "sn,cpu_milli,memory_mib,gpu,model\nn,8000,100,1,T4\n",
		"t.csv": header + "a,1000,1,1,500,,0,10,0\nb,1000,1,1,1000,,5,9,5\n", "bad.csv": header + "a,1000,1,1,x,,0,10,0\n"})
	for args, want := range map[string]string{
		"place t.csv":                                                  "--nodes FILE is missing",
		"place bad.csv --nodes n.csv":                                  `bad.csv:2: bad gpu_milli "x"`,
		"place t.csv --nodes nowhere":                                  "nowhere",
		"place t.csv --nodes n.csv --policies fdg":                     "did you mean fgd?",
		"place t.csv --nodes n.csv --series t.csv":                     "file already exists",
		"place t.csv --nodes n.csv --inflate 130% --arrival-speed 2":   "--arrival-speed cannot be combined with --inflate",
		"place t.csv --nodes n.csv --reps 2":                           "--reps requires --inflate",
		"place t.csv --nodes n.csv --policies fgd --arrival-speed NaN": "want a plain decimal number",
	} {
		if status, out, errs := caserun(t, strings.Fields(args)...); status != exitUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, want %q: %s%s", args, status, want, errs, out)
		}
	}
	status, out, errs := caserun(t, "place", "t.csv", "--nodes", "n.csv", "--policies", "fgd", "--series", "s.csv", "--format", "csv")
	if want := "\nfgd,sim,0.5,1,0.5,0.25,0,0,1,2.5,5,5\n"; status != exitOK || !strings.HasSuffix(out, want) {
		t.Errorf("exit %d: %s%s, want %s", status, errs, out, want)
	}
	if text, err := os.ReadFile("s.csv"); err != nil || !strings.Contains(string(text), "\nfgd,sim,1,5,0.5,0.25,1,0\n") {
		t.Errorf("%v: %s", err, text)
	}
}
