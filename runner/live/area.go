package live

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/caserun/caserun/internal/size"
	"github.com/caserun/caserun/runner/harness"
	"github.com/caserun/caserun/runner/swaparea"
)

// Swap is the swap area of runs that follow one another. The first run that needs it makes it, and the others
// share it, because making it takes longer than to fill it.
type Swap struct {
	area *swaparea.Area // nil until then
}

// Close frees the area's memory.
func (s *Swap) Close() error {
	if s.area == nil {
		return nil
	}
	return s.area.Close()
}

// swapBytes is the size of the swap area, in whole pieces.
func (b *Backend) swapBytes() int64 {
	bytes := cmp.Or(b.options.Swap, harness.DefaultSwap).Bytes
	return (bytes + swaparea.PieceBytes - 1) / swaparea.PieceBytes * swaparea.PieceBytes
}

// swapArea is the swap area, which it makes if there is none.
func (b *Backend) swapArea(ctx context.Context, say harness.Say) (*swaparea.Area, error) {
	if b.swap.area != nil {
		select {
		case <-b.swap.area.Done(): // it ended in an earlier run, which said so
			_ = b.swap.area.Close()
			b.swap.area = nil
		default:
			return b.swap.area, nil
		}
	}
	bytes := b.swapBytes()
	program, err := findSwapArea()
	if err != nil {
		return nil, err
	}
	began, said := time.Now(), time.Now()
	say("making the swap area: %s of page-locked host memory (--swap)", size.Text(bytes))
	b.swap.area, err = swaparea.Start(ctx, program, bytes, swaparea.PieceBytes, func(made int64) {
		if time.Since(said) > time.Second && made < bytes {
			said = time.Now()
			say("making the swap area: %s of %s after %.0f s", size.Text(made), size.Text(bytes), time.Since(began).Seconds())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("%w: use a smaller --swap, or free host memory", err)
	}
	return b.swap.area, nil
}
