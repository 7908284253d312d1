// signals.cc: CUDA in handlers of signals.
#include <signal.h>

#include "program.h"

static int *of_handler, results[5];
static volatile sig_atomic_t handled, no_signals, *interrupting = &no_signals;

static void record_more(int)
{
	const sig_atomic_t was = *interrupting;
	*interrupting = 0;
	handled = handled + 1;
	results[0] |= cudaMemset(of_handler, handled & 0x7f, 4000);
	if (handled % 4 == 0)
		results[1] |= cudaDeviceSynchronize();
	results[2] |= cudaPeekAtLastError();
	*interrupting = was;
}

static void on_signal(void (*handler)(int))
{
	struct sigaction action = {};
	action.sa_handler = handler;
	action.sa_flags = SA_RESTART;
	sigaction(SIGUSR1, &action, nullptr);
}

// interrupted: a signal comes whenever memory is allocated for the program's first calls, where
// the test has preloaded what does it.
void interrupted()
{
	if (void *preloaded = dlsym(RTLD_DEFAULT, "interrupting"); preloaded != nullptr)
		interrupting = static_cast<volatile sig_atomic_t *>(preloaded);
	int *x = device<int>(1000);
	of_handler = device<int>(1000);
	TRY(cudaMemset(of_handler, 0, 4000));
	on_signal(record_more);
	*interrupting = 1;
	int *gone = device<int>(1 << 20);
	TRY(cudaMemset(gone, 1, 4));
	for (int i = 0; i < 40; i++)
		TRY(cudaMemset(x + i, i, 4));
	TRY(cudaFree(gone));
	*interrupting = 0;
	int last = -1;
	TRY(cudaMemcpy(&last, of_handler, sizeof last, cudaMemcpyDeviceToHost));
	say("last handler's %d", last == 0x01010101 * (handled & 0x7f));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 40, 1));
	say("x %ld", digest(x, 40));
	say("handlers' %d %d %d", results[0], results[1], results[2]);
	if (interrupting != &no_signals)
		say("interrupted %d", handled > 9);
	TRY(cudaFree(x));
	TRY(cudaFree(of_handler));
	state("after");
}

static void ask_and_launch(int)
{
	int device = -1;
	results[0] = cudaGetDevice(&device);
	results[1] = cudaMemset(of_handler, 1, 4000);
	results[2] = cudaDeviceSynchronize();
	results[3] = LAUNCH(nothing, grid, block, 0, nullptr);
	results[4] = cudaGetLastError();
	say("device %d set %d wait %d launch %d last %d", results[0], results[1], results[2], results[3], results[4]);
}

// interrupted_while_waiting: the test sends SIGUSR1 while the launch waits for a device.
void interrupted_while_waiting()
{
	of_handler = device<int>(1000);
	TRY(cudaMemset(of_handler, 0, 4000));
	on_signal(ask_and_launch);
	TRY(LAUNCH(add, grid, block, 0, nullptr, of_handler, 1000, 1));
	say("sum %ld", digest(of_handler, 1000));
	TRY(cudaFree(of_handler));
	state("after");
}

// interrupted_while_growing: the same, while the first launch of a task that is granted, but not
// bound, waits for more memory.
void interrupted_while_growing()
{
	auto *pre = reinterpret_cast<int (*)(uint64_t, int, uint32_t)>(dlsym(RTLD_DEFAULT, "preCudaMalloc"));
	auto *post = reinterpret_cast<int (*)(uint64_t, int)>(dlsym(RTLD_DEFAULT, "postCudaFree"));

	say("pre %d", pre(16 * mib, 0, 0));
	of_handler = device<int>(16 * mib);
	on_signal(ask_and_launch);
	TRY(LAUNCH(add, grid, block, 0, nullptr, of_handler, 1000, 1));
	TRY(cudaFree(of_handler));
	say("post %d", post(16 * mib, 0));
	state("after");
}
