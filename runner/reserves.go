package runner

// Reserves are device memory that live and simulated runs set aside beside what jobs
// ask for. Measured on an H200 with driver 580.159: a process's CUDA context takes
// 527 MiB without MPS; with MPS the server takes 71 MiB and each client 517 MiB. The
// reserves are larger, because contexts differ between drivers and devices, and because
// the lazy runtime maps 2 MiB around allocations.
const (
	// DefaultContextBytes is charged to a process on each device that it uses.
	DefaultContextBytes = 576 << 20
	// ServerBytes is what the MPS server takes of each device.
	ServerBytes = 128 << 20
)
