// capture_mode.h: questions to the driver while a stream is captured, perhaps by a part of the program that the driver serves.
#ifndef CASE_LAZY_CAPTURE_MODE_H
#define CASE_LAZY_CAPTURE_MODE_H

#include "abi.h"
#include "symbols.h"

extern "C" {
CUresult cuStreamIsCapturing(cudaStream_t stream, int *status);
CUresult cuThreadExchangeStreamCaptureMode(int *mode);
}

namespace lazy {

// RelaxedCapture lets this thread ask about events while a stream is captured, without breaking the capture.
class RelaxedCapture {
public:
	RelaxedCapture() { exchange(); }
	~RelaxedCapture() { exchange(); }
	RelaxedCapture(const RelaxedCapture &) = delete;
	RelaxedCapture &operator=(const RelaxedCapture &) = delete;

private:
	int mode_ = 2; // CU_STREAM_CAPTURE_MODE_RELAXED
	void exchange() { REAL_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode_); }
};

// is_captured: the driver says so, or does not say.
inline bool is_captured(cudaStream_t stream)
{
	int status = cudaStreamCaptureStatusNone;

	return REAL_DRIVER(cuStreamIsCapturing)(stream, &status) != CUDA_SUCCESS || status != cudaStreamCaptureStatusNone;
}

} // namespace lazy
#endif
