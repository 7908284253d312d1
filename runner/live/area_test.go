package live

import (
	"errors"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestSizeOfTheSwapArea(t *testing.T) {
	for _, tt := range []struct {
		swap   string
		pieces int64
		wrong  string
	}{
		{"", 1024, ""},
		{"1GiB", 32, ""},
		{"33MiB", 2, ""},
		{"0", 0, "needs some"},
		{"much", 0, "--swap: "},
	} {
		b := &Backend{options: harness.Options{Swap: tt.swap}}
		bytes, err := b.swapBytes()
		if tt.wrong == "" {
			if err != nil || bytes != tt.pieces*swaparea.PieceBytes {
				t.Errorf("%q: %d bytes, %v; want %d pieces", tt.swap, bytes, err, tt.pieces)
			}
			continue
		}
		s, unwanted := policies.Parse("vgpu", 4)
		if unwanted != nil {
			t.Fatal(unwanted)
		}
		var request *harness.RequestError
		if err := b.CheckScheduler(s); !errors.As(err, &request) || !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%q: error %v; want one that says %q", tt.swap, err, tt.wrong)
		}
	}
}
