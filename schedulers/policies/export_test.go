package policies

import "testing"

// RegisterExample registers the policy of docs/policies.md for the length of a test.
func RegisterExample(t *testing.T) Info {
	registry[bestFitEntry.Name] = bestFitEntry
	t.Cleanup(func() { delete(registry, bestFitEntry.Name) })
	return bestFitEntry.Info
}
