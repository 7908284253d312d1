package schedulers

import (
	"slices"
	"strings"
)

// retired are parameters that schedulers no longer have, by scheduler. They had no effect. Stored runs and sweeps may have them.
var retired = map[string][]string{"vgpu": {"references"}}

// IsRetired reports whether a scheduler had a parameter that had no effect.
func IsRetired(scheduler, parameter string) bool {
	return slices.Contains(retired[scheduler], parameter)
}

// WithoutRetired leaves out of a scheduler's parameters, as k=v,k=v, those that had no effect.
func WithoutRetired(scheduler, parameters string) string {
	if retired[scheduler] == nil {
		return parameters
	}
	kept := slices.DeleteFunc(strings.Split(parameters, ","), func(item string) bool {
		key, _, _ := strings.Cut(item, "=")
		return IsRetired(scheduler, key)
	})
	return strings.Join(kept, ",")
}
