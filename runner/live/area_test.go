package live

import (
	"errors"
	"testing"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/swaparea"
	"github.com/caserun/caserun/schedulers/policies"
)

func TestSizeOfTheSwapArea(t *testing.T) {
	for text, pieces := range map[string]int64{"": 1024, "1GiB": 32, "33MiB": 2, "0": 0} {
		var swap size.Amount
		if err := swap.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		b := &Backend{options: harness.Options{Swap: swap}}
		if bytes := b.swapBytes(); bytes != pieces*swaparea.PieceBytes {
			t.Errorf("%q: %d bytes; want %d pieces", text, bytes, pieces)
		}
	}
	s, err := policies.Parse("vgpu", 4)
	if err != nil {
		t.Fatal(err)
	}
	b := &Backend{options: harness.Options{Swap: size.AmountOf(0)}}
	if err := b.CheckScheduler(s); !errors.As(err, new(*harness.RequestError)) || err.Error() != "--swap 0: a scheduler that takes memory back needs some" {
		t.Errorf("without swap: %v", err)
	}
}
