package results

import "encoding/json"

// Surroundings are what of its caller and its machine can change how a live run's jobs execute, beside what the mix asks for
// (docs/reference/live-runs.md). Zero fields mean that nothing was set or limited.
type Surroundings struct {
	Environment       map[string]string `json:"environment,omitempty"`         // variables of the caller that reach jobs, of a list of names
	CPUs              int               `json:"cpus,omitempty"`                // that the harness and its jobs may run on
	CPUQuota          float64           `json:"cpu_quota,omitempty"`           // of the cgroup, in processors
	MemoryBytes       int64             `json:"memory_bytes,omitempty"`        // the cgroup's limit
	AddressSpaceBytes int64             `json:"address_space_bytes,omitempty"` // of each process (ulimit -v)
}

// SurroundingsOf are those of a run; false if the run has none: it was simulated, or an earlier version made it.
func SurroundingsOf(r Run) (s Surroundings, known bool) {
	if r.Provenance.Surroundings == nil {
		return s, false
	}
	return s, json.Unmarshal([]byte(*r.Provenance.Surroundings), &s) == nil
}

// Text is what a run's record keeps.
func (s Surroundings) Text() string {
	text, _ := json.Marshal(s) // it has strings and finite numbers only
	return string(text)
}
