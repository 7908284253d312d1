// stops.cc: kernels that look whether they are to stop (native/stop/case_stop.h).
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "program.h"

static const int n = getenv("STOPS_MIB") != nullptr ? atoi(getenv("STOPS_MIB")) << 17 : 1 << 20; // of two arrays
static std::atomic<int> begun, done;
static std::atomic<bool> enough;

// sweep gives the same again from its beginning. What it has done before its last round shows. Without rounds it goes on until it
// is enough.
static void sweep(const int *in, int *out, int rounds)
{
	const int round = static_cast<int>(kernels::round());

	if (round == 0)
		begun++;
	for (int i = 0; i < n; i++)
		out[i] = rounds == 0 ? in[i] : in[i] + round;
	const bool last = rounds == 0 ? enough.load() : round + 1 == rounds;
	if (last)
		done++;
	else if (!kernels::Kernel<sweep>::stops())
		kernels::again();
}

// count does not. It looks too.
static void count(int *x, int rounds)
{
	for (int i = 0; i < n; i++)
		x[i]++;
	if (!kernels::Kernel<count>::stops() && static_cast<int>(kernels::round()) + 1 < rounds)
		kernels::again();
}

static void compare(const char *what, const std::vector<int> &found, const std::vector<int> &in, int more)
{
	for (int i = 0; i < n; i++)
		if (found[i] != in[i] + more) {
			say("%s: %d at %d, want %d", what, found[i], i, in[i] + more);
			return;
		}
	say("%s: right", what);
}

// for_ever says how often its kernel has begun, until the test has an answer for it, or the file is there.
static void for_ever(int *in, int *out, const std::vector<int> &host, const char *file)
{
	TRY(LAUNCH(sweep, grid, block, 0, nullptr, in, out, 0));
	std::thread counts([] {
		for (int said = 0; !enough; usleep(50)) {
			const cudaError_t asked = cudaStreamQuery(nullptr);
			if (asked != cudaErrorNotReady && !enough)
				say("query: %d", asked);
			if (begun > said)
				say("begun %d", said = begun);
		}
	});
	std::vector<int> back(n);
	char line[64];

	if (file != nullptr)
		while (access(file, F_OK) != 0)
			usleep(1000);
	else if (fgets(line, sizeof line, stdin) == nullptr)
		_exit(3);
	enough = true;
	counts.join();
	TRY(cudaMemcpy(back.data(), out, n * sizeof(int), cudaMemcpyDeviceToHost));
	compare("for ever", back, host, 0);
}

// rounds has other work behind such kernels in each way that a program may have it.
static void rounds(int *in, int *out, const std::vector<int> &host)
{
	cudaStream_t s, t;
	cudaEvent_t event;
	int *back;
	TRY(cudaMallocHost(reinterpret_cast<void **>(&back), n * sizeof(int)));
	TRY(cudaStreamCreateWithFlags(&s, 1));
	TRY(cudaStreamCreateWithPriority(&t, 1, -1));
	TRY(cudaEventCreateWithFlags(&event, 2));
	for (int i = 0; i < 3; i++) {
		TRY(LAUNCH(count, grid, block, 0, t, in, 3));
		TRY(cudaStreamSynchronize(t));
		int *temporary = device<int>(n);
		TRY(LAUNCH(sweep, grid, block, 0, s, in, temporary, 5));
		TRY(LAUNCH(sweep, grid, block, 0, s, temporary, out, 4));
		TRY(cudaEventRecord(event, s));
		TRY(cudaStreamWaitEvent(t, event, 0));
		TRY(cudaFree(temporary));
		TRY(LAUNCH(sweep, grid, block, 0, s, in, out, 12));
		TRY(cudaMemcpyAsync(back, out, n * sizeof(int), cudaMemcpyDeviceToHost, s));
		TRY(cudaEventRecord(event, s));
		while (cudaEventQuery(event) == cudaErrorNotReady)
			usleep(100);
		compare("rounds", {back, back + n}, host, 3 * (i + 1) + 11);
		done = 0;
		TRY(LAUNCH(sweep, grid, block, 0, t, in, out, 12));
		while (cudaStreamQuery(t) == cudaErrorNotReady)
			usleep(100);
		say("done %d", done.load());
	}
	TRY(LAUNCH(sweep, grid, block, 0, s, in, out, 4));
	TRY(cudaStreamDestroy(s));
	TRY(cudaStreamDestroy(t));
	TRY(cudaEventDestroy(event));
	TRY(cudaFreeHost(back));
}

// brief has short launches until one does not wait for those before it, and then one that is larger and for ever.
static void brief(int *in, int *out, const std::vector<int> &host)
{
	for (int launched = 1; launched - done <= 2; launched++)
		TRY(LAUNCH(sweep, {1, 1, 1}, block, 0, nullptr, in, out, 1));
	TRY(cudaDeviceSynchronize());
	begun = 0;
	for_ever(in, out, host, nullptr);
}

void stops(const char *way)
{
	FAKE_STOPPABLE_KERNEL(sweep, strcmp(way, "named") != 0);
	FAKE_STOPPABLE_KERNEL(count, 0);
	const std::vector<int> host = numbers(n, 5);
	int *const in = device<int>(n), *const out = device<int>(n);

	TRY(cudaMemcpy(in, host.data(), n * sizeof(int), cudaMemcpyHostToDevice));
	TRY(cudaDeviceSynchronize()); // a copy of pageable memory may go on, and streams that wait for no other use it
	if (strncmp(way, "rounds", strlen("rounds")) == 0)
		rounds(in, out, host);
	else if (strcmp(way, "brief") == 0)
		brief(in, out, host);
	else
		for_ever(in, out, host, way[0] == '/' ? way : nullptr);
	if (const char *file = strchr(way, '/'); file != nullptr && file != way && creat(file, 0600) < 0) // rounds/FILE
		say("%s: error %d", file, errno);
	TRY(cudaFree(in));
	TRY(cudaFree(out));
	state("after");
}
