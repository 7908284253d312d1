package probe

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/caserun/caserun/runner"
)

// A process that shows the token of a rank is told to be of the rank before it asks for anything. Those of the job's
// own token are of no known rank. All count as processes of one job.
func TestRanksAreTold(t *testing.T) {
	events := make(chan runner.Event, 16)
	s, err := Listen(Config{Dir: filepath.Join(t.TempDir(), "s"), Start: time.Now(), Warn: t.Logf, AcceptFailed: func(error) {}, Mended: func(error) {},
		Stray: func(int, func(int) runner.Event) {}, Post: func(_ time.Duration, e runner.Event) error {
			switch e.(type) {
			case runner.RankJoined, runner.TaskBegin:
				events <- e
			}
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	token := s.Register(7)
	ranks := s.Ranks(token, 0, 3)
	for at, of := range []struct {
		token  string
		rank   int
		ranked bool
	}{{ranks[2], 2, true}, {token, 0, false}, {ranks[0], 0, true}} {
		c := connect(t, s)
		c.send(helloOf(t, of.token))
		c.send(beginOf(1, 1000))
		e := <-events
		if of.ranked {
			if j, is := e.(runner.RankJoined); !is || j.Rank != of.rank || j.Process.Job != 7 || j.Process.Serial != at+1 {
				t.Fatalf("client %d: %+v", at, e)
			}
			e = <-events
		}
		if b, is := e.(runner.TaskBegin); !is || b.Task.Job != 7 || b.Task.Serial != at+1 {
			t.Fatalf("client %d: %+v", at, e)
		}
	}
	if n := len(s.PIDs(7)); n != 3 {
		t.Errorf("%d processes of the job, want 3", n)
	}
}
