package nvml

// smLimits are the per-SM limits of a compute capability.
type smLimits struct {
	cores  int // FP32 lanes, the unit that nvmlDeviceGetNumGpuCores counts
	warps  int // resident warps
	blocks int // resident blocks
	shared int // KiB of shared memory
}

// limitsByCapability comes from the CUDA C++ Programming Guide, appendix "Compute Capabilities":
// the table "Technical Specifications per Compute Capability", and the architectures' sections
// with the FP32 lanes. The limits of other capabilities are unknown, not guessed.
var limitsByCapability = map[[2]int]smLimits{
	{5, 0}:  {128, 64, 32, 64},
	{5, 2}:  {128, 64, 32, 96},
	{6, 0}:  {64, 64, 32, 64},
	{6, 1}:  {128, 64, 32, 96},
	{7, 0}:  {64, 64, 32, 96},
	{7, 5}:  {64, 32, 16, 64},
	{8, 0}:  {64, 64, 32, 164},
	{8, 6}:  {128, 48, 16, 100},
	{8, 9}:  {128, 48, 24, 100},
	{9, 0}:  {128, 64, 32, 228},
	{10, 0}: {128, 64, 32, 228},
	{10, 3}: {128, 64, 32, 228},
	{12, 0}: {128, 48, 24, 100},
	{12, 1}: {128, 48, 24, 100},
}

// smCount derives the number of SMs from the number of FP32 lanes, because NVML has no query
// for the SMs of a whole GPU (nvmlDeviceGetAttributes answers only for MIG instances). If the
// number does not divide evenly, or is more than any chip has, the answer is unknown.
func smCount(cores int, limits smLimits) *int {
	if cores <= 0 || cores > maxCores || limits.cores == 0 || cores%limits.cores != 0 {
		return nil
	}
	n := cores / limits.cores
	return &n
}
