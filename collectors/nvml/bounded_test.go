package nvml

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A call that does not return is left, no further call of its device is made, and the session stays open. Other devices answer.
func TestBoundedCalls(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	n := &Node{limit: time.Millisecond}
	calls := 0
	if _, err := bounded(n, handle{number: 1}, func() (int, error) { <-release; return 0, nil }); !errors.Is(err, ErrHung) {
		t.Errorf("the first call: %v", err)
	}
	if _, err := bounded(n, handle{number: 1}, func() (int, error) { calls++; return 0, nil }); !errors.Is(err, ErrHung) || calls != 0 {
		t.Errorf("the second call: %v, %d were made", err, calls)
	}
	n.limit = time.Hour
	for _, want := range []error{nil, ErrLost} {
		if got, err := bounded(n, handle{number: 0}, func() (int, error) { return 7, want }); got != 7 || !errors.Is(err, want) {
			t.Errorf("the other device: %d, %v", got, err)
		}
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

// A device whose driver call does not return is lost, once, whichever thread is in the call.
func TestCallThatDoesNotReturn(t *testing.T) {
	for name, hanging := range map[string]func(hang func()) source{
		"fast": func(hang func()) source {
			return source{Utilization: func() (int, int, error) { hang(); return 0, 0, nil }}
		},
		"slow": func(hang func()) source { return source{MemoryUsed: func() (uint64, error) { hang(); return 0, nil }} },
	} {
		t.Run(name, func(t *testing.T) {
			release, lost := make(chan struct{}), make(chan string, 4)
			s, err := start(Config{hangLimit: 30 * time.Millisecond, Consume: func(Segment) {}, Lost: func(device int, err error) {
				if !errors.Is(err, ErrHung) {
					t.Error(err)
				}
				lost <- fmt.Sprintf("%d %v", device, err)
			}}, []source{steady(1, 1, 1), hanging(func() { <-release })})
			if err != nil {
				t.Fatal(err)
			}
			if got := <-lost; !strings.HasPrefix(got, "1 the driver call for ") {
				t.Error(got)
			}
			close(release)
			if _, err := s.Stop(time.Hour); err != nil {
				t.Error(err)
			}
			if len(lost) != 0 {
				t.Errorf("also %s", <-lost)
			}
		})
	}
}
