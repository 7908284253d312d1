// Package nvml reads the node's GPUs through NVIDIA's management library: their properties
// (Node.Devices), their processes (Node.Processes) and their use over time (NodeSampler). It is the
// only importer of go-nvml, and its interface has no type of go-nvml.
//
// A metric that a device or driver does not offer is a nil pointer or a series with Supported
// false, never 0.
package nvml
