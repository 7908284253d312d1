package harness

import (
	"errors"
	"fmt"
	"testing"
)

// What went wrong beside the reason for stopping is told apart from it.
func TestBesideTheCause(t *testing.T) {
	cause, other := errors.New("stopped"), errors.New("the socket cannot be removed")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""}, {cause, ""}, {other, other.Error()}, {errors.Join(cause, nil), ""}, {errors.Join(errors.Join(other, cause), nil), other.Error()},
		{fmt.Errorf("run: %w", cause), ""},
	} {
		got := ""
		if err := beside(c.err, cause); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("beside %v: %q, want %q", c.err, got, c.want)
		}
	}
	if err := beside(other, nil); err != other {
		t.Errorf("without a cause: %v", err)
	}
}
