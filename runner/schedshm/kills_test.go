package schedshm_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/internal/chance"
	"github.com/caserun/caserun/runner/probe/probetest"
)

// points of a client's critical section (native/probe/shared/file.c).
var points = []string{"locked", "opened", "edited", "committed", "unlocked", "backup written"}

// victim is a client that may be killed.
type victim struct {
	cmd  *exec.Cmd
	in   *os.File
	said *bytes.Buffer // to its standard error
}

func churn(t *testing.T, s scene, random *rand.Rand, args ...string) victim {
	t.Helper()
	return churnIn(t, s.env(random.IntN(3)), random, args...)
}

// churnIn starts native/probe/tests/churn.c with this environment.
func churnIn(t *testing.T, env []string, random *rand.Rand, args ...string) victim {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	cmd := exec.Command(native(t, "build/churn"), append([]string{strconv.Itoa(int(random.Int32())), strconv.Itoa(900 * mib)}, args...)...)
	said := new(bytes.Buffer)
	cmd.Env, cmd.Stdin, cmd.Stderr = env, theirs, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return victim{cmd, ours, said}
}

// die kills the client, unless it does so itself in time.
func (v victim) die(t *testing.T, after time.Duration) {
	late := time.AfterFunc(after, func() { _ = v.cmd.Process.Kill() })
	defer late.Stop()
	_ = v.cmd.Wait() // it was killed
	v.in.Close()
	if state, ok := v.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGKILL {
		t.Errorf("a client ended by itself: %v", v.cmd.ProcessState)
	}
}

// A client that is killed at any moment leaves nothing behind, and the others go on.
func TestKills(t *testing.T) {
	kills := chance.Count(300, 10_000) // of clients of each architecture
	seed := 1 + chance.Seed()
	for name, architecture := range architectures {
		for at, policy := range orders {
			t.Run(name+"/"+policy, func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(seed, uint64(at)))
				n := node{capacity: 1000 * mib, context: 10 * mib}
				s := scene{t, architecture(t, n, policy)}
				stays := churn(t, s, random)
				var one sync.WaitGroup
				defer one.Wait()                // even if the test fails
				slots := make(chan struct{}, 4) // at most 4 clients at once
				for range kills / len(orders) {
					var args []string
					after := time.Duration(random.IntN(int(8 * time.Millisecond)))
					if name == "shared" && random.IntN(2) == 0 {
						args = []string{points[random.IntN(len(points))], strconv.Itoa(1 + random.IntN(20))}
						after = time.Duration(random.IntN(int(20 * time.Millisecond)))
					}
					slots <- struct{}{}
					v := churn(t, s, random, args...)
					one.Go(func() {
						v.die(t, after)
						<-slots
					})
					if used := s.used(); used > n.capacity {
						t.Fatalf("clients were granted %d bytes of %d", used, n.capacity)
					}
				}
				one.Wait()
				stays.in.Close() // this client was never disturbed and can end
				if err := stays.cmd.Wait(); err != nil {
					t.Errorf("the client that nobody killed: %v", err)
				}
				s.holds(0, 980).Finish() // the whole memory is free again
				s.settled()
			})
		}
	}
}

// A client that is killed inside its critical section has made its change as a whole or not at all.
func TestKilledAtEachPoint(t *testing.T) {
	for _, point := range points[:5] {
		for visit := 1; visit <= 6; visit++ {
			t.Run(point+strconv.Itoa(visit), func(t *testing.T) {
				t.Parallel()
				s := scene{t, newShared(t, node{capacity: 1000 * mib}, "fifo")}
				v := churn(t, s, rand.New(rand.NewPCG(uint64(visit), 0)), point, strconv.Itoa(visit))
				v.die(t, probetest.Patience)
				if used := s.used(); used > 1000*mib {
					t.Errorf("%d bytes are granted", used)
				}
				s.holds(0, 999).Finish()
				s.settled()
			})
		}
	}
}
