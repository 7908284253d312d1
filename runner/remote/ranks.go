package remote

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caserun/caserun/runner/child"
	"github.com/caserun/caserun/runner/dispatch"
	"github.com/caserun/caserun/runner/live"
	"github.com/caserun/caserun/runner/scratch"
	"github.com/caserun/caserun/runner/slurmstep"
)

// Each node starts its ranks of a job itself. On nodes of Slurm the ranks of one job take part in one step, which connects them for MPI.

// stepWait is how long Slurm may take to start a step, in seconds. The allocation is there.
const stepWait = 60

// ranks is what the head has for the jobs of a batch whose processes have ranks.
type ranks struct {
	dir      *scratch.Dir     // of this process; nil: nothing needed it yet
	meeting  string           // has a directory for each job with ranks on several nodes; "": it is not made yet
	hosts    map[int][]string // of the ranks of jobs that nodes have, on Slurm
	steps    map[int]*step
	stepEnds chan *step
}

// step is the step of Slurm in which the ranks of a job take part.
type step struct {
	job  int
	proc *child.Process
	errs *head
}

// own is a directory of this process.
func (r *ranks) own() (_ string, err error) {
	if r.dir == nil {
		if r.dir, err = scratch.Make("ranks"); err != nil {
			return "", err
		}
	}
	return r.dir.Path(), nil
}

// onSlurm reports whether the nodes are of an allocation of Slurm.
func (h *batch) onSlurm() bool { return h.members[0].conn.host != "" }

// prepareRanks has what a job needs that a node gets now: a place to meet, and nodes for a step of Slurm.
func (h *batch) prepareRanks(m *member, j *dispatch.Job) error {
	if j.Part != nil {
		meets, err := h.rendezvous(j.Number)
		if err != nil {
			return err
		}
		j.Span.Meets = meets
	}
	if h.desk == "" {
		return nil
	}
	parts := []*dispatch.Part{{Ranks: j.Whole.Ranks, On: m.Member}}
	if j.Part != nil {
		parts = j.Part.Parts()
	}
	var hosts []string
	for _, p := range parts {
		for range p.Ranks {
			hosts = append(hosts, h.members[p.On.Index].conn.host)
		}
	}
	h.hosts[j.Number] = hosts
	return nil
}

// rendezvous makes the directory in which the ranks of a job on several nodes meet. On one machine the names of sockets in it are short enough. All
// nodes of an allocation have the run's directory.
func (h *batch) rendezvous(job int) (path string, err error) {
	if h.meeting == "" {
		if h.onSlurm() {
			h.meeting = filepath.Join(h.outputs, "meeting")
			err = os.MkdirAll(h.meeting, 0o755)
		} else {
			h.meeting, err = h.own()
		}
		if err != nil {
			return "", fmt.Errorf("make the directory in which ranks of several nodes meet: %w", err)
		}
	}
	path = filepath.Join(h.meeting, "r"+strconv.Itoa(job))
	if _, err = os.Stat(path); err == nil { // another part came first
		return path, nil
	}
	if h.onSlurm() {
		return path, os.Mkdir(path, 0o700)
	}
	return path, live.MakeRendezvous(path)
}

// startStep starts the step of a job, with a task for each rank, when a node wants it first.
func (h *batch) startStep(job int) error {
	hosts := h.hosts[job]
	if hosts == nil || h.steps[job] != nil || h.Records[job].Outcome != nil {
		return nil
	}
	nodes := len(slices.Compact(slices.Clone(hosts)))
	dir, err := h.own()
	if err != nil {
		return err
	}
	file := filepath.Join(dir, fmt.Sprintf("hosts-%d", job))
	if err := os.WriteFile(file, []byte(strings.Join(hosts, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("the nodes of job %d's ranks: %w", job, err)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start the ranks of job %d: %w", job, err)
	}
	cmd := exec.Command("srun", "--overlap", "--overcommit", "--distribution=arbitrary", "--kill-on-bad-exit=0", "--wait=0", fmt.Sprintf("--immediate=%d", stepWait),
		fmt.Sprintf("--nodes=%d", nodes), fmt.Sprintf("--ntasks=%d", len(hosts)), self, slurmstep.Command, h.desk, strconv.Itoa(job))
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "SLURM_NTASKS_PER_NODE=") // of the batch script, and not for these nodes
	}), "SLURM_HOSTFILE="+file)
	s := &step{job: job, errs: new(head)}
	cmd.Stderr = s.errs
	if s.proc, err = child.Start(cmd, 0); err != nil {
		return fmt.Errorf("start the ranks of job %d: %w", job, err)
	}
	h.steps[job] = s
	go func() {
		<-s.proc.Done()
		h.stepEnds <- s
	}()
	return nil
}

// stepEnded takes the end of a step. A job that has not ended cannot go on without it.
func (h *batch) stepEnded(s *step) error {
	if h.Records[s.job].Outcome != nil {
		return nil
	}
	why := "Slurm ended the step of its ranks"
	if h.Records[s.job].StartS == nil {
		why = "Slurm did not start the step of its ranks"
	}
	if err := s.proc.Err(); err != nil {
		why += fmt.Sprintf(" (%v)", err)
	}
	return h.LoseJob(s.job, why+s.errs.text())
}

// leaveRanks gives back what a job needed that has ended. Its step ends with its last rank. One whose ranks never started is killed.
func (h *batch) leaveRanks(job int) {
	if h.meeting != "" {
		_ = os.RemoveAll(filepath.Join(h.meeting, "r"+strconv.Itoa(job))) // what stays goes with the run
	}
	if s := h.steps[job]; s != nil {
		go func() {
			select {
			case <-s.proc.Done():
			case <-time.After(stepEndLimit):
				_ = s.proc.Kill() // a step that does not end does no harm
			}
		}()
	}
}

// stepEndLimit is how long a step may go on after its ranks. Then none of its processes has anything to wait for.
const stepEndLimit = 5 * time.Second

// leaveAllRanks ends the steps, and leaves nothing.
func (r *ranks) leaveAllRanks() error {
	for _, s := range r.steps {
		select {
		case <-s.proc.Done():
		case <-time.After(stepEndLimit):
			_ = s.proc.Kill()
		}
	}
	var err error
	if r.meeting != "" {
		err = os.RemoveAll(r.meeting)
	}
	if r.dir != nil {
		err = cmp.Or(err, r.dir.Remove())
	}
	return err
}
