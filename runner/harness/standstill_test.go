package harness

import (
	"testing"
	"time"
)

func TestStandstill(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	at := func(monotonic, boot time.Duration) instant { return instant{monotonic, boot} }
	for _, tt := range []struct {
		name             string
		after            instant
		stood, suspended time.Duration
	}{
		{"in time", at(100*ms, 100*ms), 0, 0},
		{"a little late", at(900*ms, 900*ms), 0, 0},
		{"clocks that were not read at one time", at(100*ms, 101*ms), 0, 0},
		{"stopped", at(3100*ms, 3100*ms), 3 * s, 0},
		{"at the bound", at(1100*ms, 1100*ms), s, 0},
		{"asleep", at(100*ms, 60*s+100*ms), 60 * s, 60 * s},
		{"stopped and asleep", at(2*s+100*ms, 5*s+100*ms), 5 * s, 3 * s},
	} {
		if stood, suspended := still(instant{}, tt.after); stood != tt.stood || suspended != tt.suspended {
			t.Errorf("%s: %v, of which %v asleep; want %v and %v", tt.name, stood, suspended, tt.stood, tt.suspended)
		}
	}
	var said []string
	p := &pulse{said: func(detail string) { said = append(said, detail) }}
	for _, now := range []instant{at(100*ms, 100*ms), at(4*s, 4*s), at(s, 9*s)} {
		p.beat(instant{}, now)
	}
	if len(said) != 2 {
		t.Errorf("said %q, want one of each standstill", said)
	}
}
