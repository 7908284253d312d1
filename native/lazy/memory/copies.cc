// copies.cc: see copies.h.
#include "copies.h"

#include <initializer_list>

#include "abi/symbols.h"

extern "C" {
CUresult cuStreamCreate(cudaStream_t *stream, unsigned flags);
CUresult cuStreamDestroy_v2(cudaStream_t stream);
CUresult cuStreamSynchronize(cudaStream_t stream);
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, cudaStream_t stream);
CUresult cuEventCreate(CUevent *event, unsigned flags);
CUresult cuEventRecord(CUevent event, cudaStream_t stream);
CUresult cuEventSynchronize(CUevent event);
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to);
CUresult cuEventDestroy_v2(CUevent event);
}

namespace lazy {

CopyStream::CopyStream()
{
	const unsigned waits_for_none = 1; // CU_STREAM_NON_BLOCKING

	if (REAL_DRIVER(cuStreamCreate)(&stream_, waits_for_none) != CUDA_SUCCESS)
		stream_ = nullptr;
}

CopyStream::~CopyStream()
{
	if (ready())
		REAL_DRIVER(cuStreamDestroy_v2)(stream_);
}

void CopyStream::await_idle()
{
	if (ready())
		REAL_DRIVER(cuStreamSynchronize)(stream_);
}

Copies::~Copies()
{
	for (const CUevent e : {from_, to_})
		if (e != nullptr)
			REAL_DRIVER(cuEventDestroy_v2)(e);
}

bool Copies::begin(const CopyStream &in)
{
	const unsigned waiters_sleep = 1; // CU_EVENT_BLOCKING_SYNC

	return REAL_DRIVER(cuEventCreate)(&from_, 0) == CUDA_SUCCESS && REAL_DRIVER(cuEventCreate)(&to_, waiters_sleep) == CUDA_SUCCESS &&
	       REAL_DRIVER(cuEventRecord)(from_, in.stream_) == CUDA_SUCCESS;
}

bool Copies::copy(const CopyStream &in, CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	return REAL_DRIVER(cuMemcpyAsync)(to, from, bytes, in.stream_) == CUDA_SUCCESS;
}

bool Copies::end(const CopyStream &in) { return to_ != nullptr && REAL_DRIVER(cuEventRecord)(to_, in.stream_) == CUDA_SUCCESS; }

bool Copies::await_over(uint64_t *took_ns)
{
	float ms = 0;

	if (to_ == nullptr || REAL_DRIVER(cuEventSynchronize)(to_) != CUDA_SUCCESS ||
	    REAL_DRIVER(cuEventElapsedTime)(&ms, from_, to_) != CUDA_SUCCESS)
		return false;
	*took_ns += static_cast<uint64_t>(static_cast<double>(ms) * 1e6);
	return true;
}

} // namespace lazy
