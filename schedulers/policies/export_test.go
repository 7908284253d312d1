package policies

import "testing"

// RegisterExample registers the policy of docs/guide/policies.md for the length of a test.
func RegisterExample(t *testing.T) Info {
	registry[pageFitEntry.Name] = pageFitEntry
	t.Cleanup(func() { delete(registry, pageFitEntry.Name) })
	return pageFitEntry.Info
}
