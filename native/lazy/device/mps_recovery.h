// mps_recovery.h: patience with an MPS server.
//
// A server whose client has faulted turns other clients away until all clients on that device are
// gone (NVIDIA, "Multi-Process Service", error containment). The run holds starts and grants back
// meanwhile, but a process may be on its way. The driver's call succeeds once the server has
// recovered (seen on H200s with runtimes 11.8 and 13.0; driver 580).
//
// A CUDA runtime that sees the failure in cuInit never recovers, and a runtime that sees it later
// shows error 46. So the driver's calls are tried again before the runtime sees the failure.
#ifndef CASE_LAZY_MPS_RECOVERY_H
#define CASE_LAZY_MPS_RECOVERY_H

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "abi/abi.h"
#include "probe/client.h"

namespace lazy {

// mps_rejected reports whether the error comes from an MPS server: no connection, a failed call, not
// ready, or devices unavailable. Without MPS, devices unavailable means a device in exclusive mode,
// and the error stays.
inline bool mps_rejected(CUresult result)
{
	return (result >= 805 && result <= CUDA_ERROR_MPS_SERVER_NOT_READY) ||
	       (result == cudaErrorDevicesUnavailable && getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr);
}

// A process waits for 10 s in all (CASE_MPS_GRACE_MS), however often it is turned away,
// and no longer: then the failure stays.
class MpsRecovery {
public:
	// await_again notes that the process was turned away and waits a moment; false: the time is up.
	static bool await_again()
	{
		uint64_t never = 0;
		first.compare_exchange_strong(never, now());
		if (waited.fetch_add(step) >= patience())
			return false;
		usleep(step * 1000);
		return true;
	}
	static bool over() { return waited.load() >= patience(); }
	// since is when the process was first turned away, CLOCK_MONOTONIC, ns.
	static uint64_t since() { return first.load(); }

private:
	static uint64_t now()
	{
		timespec t;
		clock_gettime(CLOCK_MONOTONIC, &t);
		return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
	}
	static int patience() // ms
	{
		const char *text = client_variable("CASE_MPS_GRACE_MS");
		return text != nullptr && *text != '\0' ? atoi(text) : 10000;
	}
	static const int step = 50;                // ms
	static inline std::atomic<int> waited{0};  // ms
	static inline std::atomic<uint64_t> first{0};
};

// on_server runs a call of the driver's until the server takes this process.
template <typename Run> CUresult await_server(Run run)
{
	CUresult result = run();

	while (mps_rejected(result) && MpsRecovery::await_again())
		result = run();
	return result;
}

} // namespace lazy
#endif
