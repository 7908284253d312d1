// execute.cc: threads of a block are coroutines. One begins when those before it have ended or wait at a barrier.
// PILOT_OMIT=N leaves out the N-th launch of the process, to see whether its check notices.
#include <cuda_runtime.h>

#include <stdlib.h>
#include <ucontext.h>

#include <memory>
#include <vector>

namespace {

struct Coroutine {
	ucontext_t at;
	dim3 thread;
	unsigned asked; // whether it goes on
	std::unique_ptr<char[]> stack{new char[stack_bytes]};
	static constexpr size_t stack_bytes = 64 << 10;
};

thread_local ucontext_t scheduler;
thread_local Coroutine *running;
thread_local void (*body)(void *);
thread_local void *given;
thread_local bool endless;
const unsigned often = 4096;

void begin()
{
	body(given);
	running = nullptr;
}

// resume runs the coroutine until it waits or ends, and says whether it waits.
bool resume(Coroutine *c)
{
	running = c;
	threadIdx = c->thread;
	swapcontext(&scheduler, &c->at);
	return running != nullptr;
}

bool start(Coroutine *c, unsigned thread)
{
	c->thread = dim3{thread, 1, 1};
	c->asked = 0;
	getcontext(&c->at);
	c->at.uc_stack.ss_sp = c->stack.get();
	c->at.uc_stack.ss_size = Coroutine::stack_bytes;
	c->at.uc_link = &scheduler;
	makecontext(&c->at, begin, 0);
	return resume(c);
}

void run_block(dim3 block, std::vector<std::unique_ptr<Coroutine>> *unused)
{
	std::vector<std::unique_ptr<Coroutine>> waiting;

	for (unsigned t = 0; t < block.x; t++) {
		if (unused->empty())
			unused->push_back(std::make_unique<Coroutine>());
		if (start(unused->back().get(), t)) {
			waiting.push_back(std::move(unused->back()));
			unused->pop_back();
		}
	}
	while (!waiting.empty()) {
		std::vector<std::unique_ptr<Coroutine>> next;
		for (auto &c : waiting)
			(resume(c.get()) ? next : *unused).push_back(std::move(c));
		waiting = std::move(next);
	}
}

} // namespace

void __syncthreads() { swapcontext(&running->at, &scheduler); }

bool goes_on()
{
	endless = true;
	return ++running->asked < often;
}

bool execute(dim3 grid, dim3 block, void (*thread)(void *), void *arguments)
{
	static int launches;
	const char *omitted = getenv("PILOT_OMIT");
	std::vector<std::unique_ptr<Coroutine>> coroutines;

	if (++launches == (omitted != nullptr ? atoi(omitted) : 0))
		return false;
	endless = false;
	body = thread;
	given = arguments;
	gridDim = grid;
	blockDim = block;
	for (unsigned b = 0; b < grid.x; b++) {
		blockIdx = dim3{b, 1, 1};
		run_block(block, &coroutines);
	}
	return endless;
}
