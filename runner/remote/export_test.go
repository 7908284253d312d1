package remote

import (
	"context"
	"io"

	"github.com/caserun/caserun/runner/harness"
)

// OpenOver opens a cluster whose nodes are functions, each of a kind that harness.Options.Node names.
func OpenOver(ctx context.Context, o harness.Options, say harness.Say, kind string, nodes ...func(in io.Reader, out io.WriteCloser)) (*Backend, error) {
	b := newBackend(o, say)
	for _, serve := range nodes {
		hears, in := io.Pipe()
		out, says := io.Pipe()
		b.connect(place{host: "n", node: kind}, in, out, nil, new(head))
		go func() {
			serve(hears, says)
			_ = hears.Close()
			_ = says.Close()
		}()
	}
	return b.opened(ctx)
}
