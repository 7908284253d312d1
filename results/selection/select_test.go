package selection

import "testing"

// A tag is offered as what a side takes for it.
func TestOfTag(t *testing.T) {
	for tag, want := range map[string]string{"nightly": "nightly", "a/b": "a/b", "12": "tag:12", "latest": "tag:latest",
		"latest/sa": "tag:latest/sa", "sweep:x": "tag:sweep:x", "tag:x": "tag:tag:x"} {
		if got := OfTag(tag); got != want {
			t.Errorf("tag %s: %s, want %s", tag, got, want)
		}
	}
}
