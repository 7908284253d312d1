package slurmstep

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// attends has this test's program attend for a rank in another process.
const attends = "SLURMSTEP_TEST_ATTENDS"

func TestMain(m *testing.M) {
	if name := os.Getenv(attends); name != "" {
		if err := Attend([]string{name, "7"}); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// bring has a step bring a rank of job 7.
func bring(t *testing.T, name string, rank int, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, attends+"="+name, "SLURM_PROCID="+strconv.Itoa(rank))...)
	return cmd
}

func open(t *testing.T) (*Desk, string) {
	t.Helper()
	name := strings.ReplaceAll(t.Name(), "/", "-") + strconv.Itoa(os.Getpid())
	d, err := Open(name, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, name
}

// A rank has the environment of its step, and its connection to PMI. The step's process ends when the rank has.
func TestARankTakesItsSeat(t *testing.T) {
	d, name := open(t)
	server, pmiEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(os.DevNull) // so that the descriptor is another one in each process
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	step := bring(t, name, 3, "GIVEN=by the step", "PMI_FD=4")
	step.ExtraFiles = []*os.File{other, pmiEnd}
	if err := step.Start(); err != nil {
		t.Fatal(err)
	}
	_ = pmiEnd.Close()
	s, err := d.Await(t.Context(), 7, 3)
	if err != nil {
		t.Fatal(err)
	}
	rank := exec.Command("/bin/sh", "-c", `echo "$GIVEN" >&$PMI_FD`)
	if rank.Env = s.Env; slices.Contains(rank.Env, "PMI_FD=4") {
		t.Error("the rank has the descriptor of the step's process")
	}
	s.Lend(rank)
	if out, err := rank.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	s.Lent()
	s.End()
	if err := step.Wait(); err != nil {
		t.Errorf("the step's process: %v", err)
	}
	if said, err := io.ReadAll(server); err != nil || string(said) != "by the step\n" {
		t.Errorf("PMI hears %q (%v)", said, err)
	}
}

// Ranks come in any order. Who waits for one that does not come can give up. Steps of ranks that nobody takes end with the desk.
func TestRanksThatDoNotMeet(t *testing.T) {
	d, name := open(t)
	steps := []*exec.Cmd{bring(t, name, 1), bring(t, name, 0)}
	for _, step := range steps {
		if err := step.Start(); err != nil {
			t.Fatal(err)
		}
	}
	first, err := d.Await(t.Context(), 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("the job is stopped")
	stop(why)
	if s, err := d.Await(ctx, 8, 0); s != nil || !errors.Is(err, why) {
		t.Errorf("seat %v (%v)", s, err)
	}
	second, err := d.Await(t.Context(), 7, 1)
	if err != nil {
		t.Fatal(err)
	}
	first.End()
	second.leave() // as when the node's process ends
	if err := steps[1].Wait(); err != nil {
		t.Error(err)
	}
	if err := steps[0].Wait(); err == nil {
		t.Error("a step whose node is gone ends well")
	}
	last := bring(t, name, 2)
	said, err := last.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := last.Start(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(said)
	if err := last.Wait(); err == nil || !strings.Contains(string(text), "the node's process") {
		t.Errorf("%q (%v)", text, err)
	}
}

// Who does not say what a step says is sent away, and the others are served.
func TestADeskIsSpokenToByOthers(t *testing.T) {
	d, name := open(t)
	for _, text := range []string{"", "x", "\x00{", "\x00[]\n"} {
		c, err := dial(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if answer, _ := io.ReadAll(c); len(answer) > 0 {
			t.Errorf("%q: answer %q", text, answer)
		}
		_ = c.Close()
	}
	step := bring(t, name, 0)
	if err := step.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := d.Await(t.Context(), 7, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.End()
	if err := step.Wait(); err != nil {
		t.Error(err)
	}
}
