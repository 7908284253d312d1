package live

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/caserun/caserun/results"
)

// A job waits for what its processes see of their own priorities, so each outcome ok says that the
// priorities came: the job's level before it has a device, and then the first one.
func TestHostPriorities(t *testing.T) {
	p, err := probePriorities()
	if err != nil {
		t.Skipf("this user has no right to raise a priority again: %v", err)
	}
	for sched, levels := range map[string][]int{
		"plan:learn=off":    {10, 10}, // nothing is known of the jobs
		"case-alg3:nice=on": {1, 10},  // by config's predictions
	} {
		r := newRig(t, sched)
		for i, level := range levels {
			r.sh(fmt.Sprintf(`
				until_is() {
					until [ "$(cut -d' ' -f19 /proc/$1/stat)" = $2 ]; do :; done
					until [ %t = false ] || grep -q " nice $3$" /proc/$1/autogroup; do :; done
				}
				until_is $$ %d %d
				$JOB begin:1000 hear:seen%d &
				until_is $$ %d 0
				until_is $! %d 0
				$JOB tell:seen%d
				wait $!`, p.autogroup, p.value(level), level, i, p.base, p.base, i))
		}
		r.limit, r.cores = ample, 1
		jobs, _ := r.mustRun()
		for i, o := range outcomes(jobs) {
			if o != results.OK {
				t.Errorf("%s: job %d: %s (%s)", sched, i, o, jobs[i].Detail)
			}
		}
	}
}

// The probe finds out that a user may lower priorities and not raise them again.
func TestNoRightToPrioritize(t *testing.T) {
	const child = "CASERUN_TEST_UNPRIVILEGED"
	if os.Getenv(child) == "" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestNoRightToPrioritize$", "-test.v")
		cmd.Env, cmd.Dir = append(os.Environ(), child+"=1", "TMPDIR=/tmp"), "/"
		if os.Getuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("as a user without rights: %v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	if _, err := probePriorities(); err == nil {
		t.Skip("this user may raise a priority again, and is not root, who could become another user")
	} else if !strings.Contains(err.Error(), "it takes CAP_SYS_") {
		t.Errorf("the error does not say what is missing: %v", err)
	}
}
