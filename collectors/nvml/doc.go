// Package nvml reads the node's GPUs through NVIDIA's management library:
// what they are (Node.Devices), who uses them (Node.Processes) and what they
// do over time (Sampler). It is the only importer of go-nvml, and no type of
// go-nvml appears in its interface.
//
// A metric that a device or driver does not offer is absent (a nil pointer, or
// a series with Supported false), never 0.
package nvml
