// errors.cc: what goes wrong.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "program.h"

void too_much()
{
	void *p = nullptr;
	cudaError_t error = cudaMalloc(&p, 800 * mib);
	say("first %d", error);
	error = cudaMalloc(&p, 800 * mib);
	say("second %d last %d", error, cudaGetLastError());
}

// impatient: waits that end, of the task and of its growth, and what comes after.
void impatient()
{
	int *x = device<int>(1000), *more = nullptr;
	const auto launch = [=] { return LAUNCH(add, grid, block, 0, nullptr, x, 1000, 7); };
	const auto grow = [&] { return cudaMalloc(reinterpret_cast<void **>(&more), 64 * mib); };
	TRY(cudaMemset(x, 0, 4000));
	say("launch %d", launch());
	say("again %d", launch()); // nobody is asked
	say("last %d", cudaGetLastError());
	say("later %d", launch());
	say("grow %d", grow());
	say("last %d", cudaGetLastError());
	say("grow %d", grow());
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	TRY(cudaFree(more));
	state("after");
}

// cleared: a daemon, which clears its environment before it uses CUDA. The fakes still read theirs.
void cleared()
{
	std::vector<std::string> names;

	for (char **e = environ; *e != nullptr; e++)
		if (const std::string name(*e, strcspn(*e, "=")); name.compare(0, 5, "CASE_") == 0)
			names.push_back(name);
	for (const std::string &name : names)
		unsetenv(name.c_str());
	basic();
}

// fault: seen by the copy after the kernel, and by all later calls.
void fault()
{
	int *x = device<int>(1000), value = -1;
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	TRY(cudaMemcpy(&value, x, 4, cudaMemcpyDeviceToHost));
	TRY(cudaFree(x));
	say("value %d", value);
}

void fault_unseen() // nobody waits for the kernel
{
	device<int>(1000);
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
}

void fault_unseen_late() // the same of a program whose first call makes the context
{
	void *address = nullptr;
	register_variables();
	TRY(cudaGetSymbolAddress(&address, table));
	fault_unseen();
}

void launch_only() // a launch without any memory
{
	TRY(LAUNCH(nothing, grid, block, 0, nullptr));
	TRY(cudaDeviceSynchronize());
}

static void say_last(const char *when)
{
	cudaError_t first = cudaPeekAtLastError(), again = cudaPeekAtLastError(), taken = cudaGetLastError();
	say("%s: %d %d %d then %d", when, first, again, taken, cudaGetLastError());
}

// last_errors: of several failures the last counts, whichever part of CUDA it comes from.
void last_errors()
{
	int *x = device<int>(1000);
	char attributes[256];
	const auto refused = [] { return cudaSetDevice(7); };
	const auto copy = [=] { return cudaMemcpy(x, nullptr, 4, cudaMemcpyHostToDevice); };
	const auto question = [&] { return cudaFuncGetAttributes(attributes, &attributes); };

	say("%d", cudaMalloc(nullptr, 8));
	say("%d", refused());
	say_last("unbound");
	TRY(cudaMemset(x, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));
	say("%d", copy());
	say("%d", refused());
	say_last("copy, device");
	say("%d", refused());
	say("%d", copy());
	say_last("device, copy");
	say("%d", question());
	say("%d", refused());
	say_last("question, device");
	say("%d", refused());
	say("%d", question());
	TRY(cudaDeviceSynchronize()); // resets none
	say_last("device, question");
	say("%d", copy());
	std::thread([&] {
		say_last("other");
		say("%d", refused());
	}).join();
	say_last("mine");
	say("x %ld", digest(x, 1000));
	TRY(cudaFree(x));
	state("after");
}

// last_errors_after_a_fault: an error that stays is the last one for good.
void last_errors_after_a_fault()
{
	device<int>(1000);
	say("%d", cudaSetDevice(7));
	TRY(LAUNCH(touch, grid, block, 0, nullptr, static_cast<const char *>(nullptr) + 4096));
	say("%d", cudaDeviceSynchronize());
	say("%d", cudaSetDevice(7));
	say_last("fault");
}
