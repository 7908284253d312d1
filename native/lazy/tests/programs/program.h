// program.h: CUDA programs in small, for the fake runtime (../../fake): each does
// what its name says and prints what it computed. They know nothing of libcase, so
// their output must be the same with and without it (lazytest/lazy_test.go).
#ifndef LAZY_PROGRAM_H
#define LAZY_PROGRAM_H

#include <string.h>

#include <string>
#include <vector>

#include "../../../fake/cuda_calls.h"

const size_t mib = 1 << 20;
const dim3 grid = {16, 2, 1}, block = {96, 1, 1}; // 32 blocks of 96 threads

// ---- program.cc

__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
// wait_after prints the line and goes on when the test answers.
void wait_after(const char *line);
// state prints what the driver holds. It may differ with and without libcase.
void state(const char *when);

// Programs go on after an error, as Rodinia's do, and say it.
#define TRY(x)                                           \
	do {                                             \
		cudaError_t error_ = (x);                \
		if (error_ != cudaSuccess)               \
			say("%s: error %d", #x, error_); \
	} while (0)

template <class T> T *device(size_t count)
{
	void *p = nullptr;
	TRY(cudaMalloc(&p, count * sizeof(T)));
	return static_cast<T *>(p);
}

std::vector<int> numbers(size_t n, int from);
long digest(const int *x, int n); // computed on the device

// Meeting: with SWAPPED_MEET=DIR,N, N processes have their memory on a device at one time, if they live: each
// waits until the others have met or died. A process holds the lock of its file in DIR until then. Those that come later meet nobody.
class Meeting {
public:
	Meeting();
	void wait();

private:
	std::string room;
	int guests = 0, held = -1;
};

// ---- kernels.cc

void add(int *x, int n, int by);
void sum(const int *x, int n, long *out); // 40 registers, 2 KiB of shared memory
void follow(int **lists, int count, int n);
void touch(const volatile char *address);
void nothing();
void notice(); // counts its runs, where the host sees it at once
extern int noticed;

// Device variables, registered only by the programs that use them: a process
// with variables cannot change its device.
extern int table[8];
void register_variables();
void register_field();             // of 4 MiB
void register_small_field_twice(); // of 640 KiB
void use_table(int *x, int n);
void step_counter(int *out);

// ---- the programs

void basic(), order(), shapes(), objects(), managed(), pages(), guarded(), many(), crowded(), large_copy(), read_first(), grow(), grow_waits(), impatient(),
    settings(), mistakes(), streams(), tasks(), tasks_in_threads(), tasks_with_stream(), tasks_with_variable(),
    threads(), churn(), objects_beside(), devices(), two_devices(), own_context(), forks(), forks_bound(), exit_while_waiting(),
    captured(), freed_in_capture(), free_while_captured(), limits(), reset(), too_much(), fault(), fault_unseen(), fault_unseen_late(),
    launch_only(), rate(), set_device(), ask_first(), init_device(), back_to_primary(), own_context_in_threads(), driver_memory(), driver_captures(), driver_refused(), late_refusal(), immense(), ends_contexts();
void launch_events(), launch_list(), graph_nodes(), peer_copies(), ranges(); // structs.cc
void batches(), prefetches(), execution_contexts(), questions(), unseen_devices(), init_flags(); // locations.cc
void reuse(const char *way), waits(const char *way);   // streams.cc
void deep(const char *way), unseen(), captures_unseen(); // local.cc
void callback(), ordered_frees(), frees_from_afar(), idle_rounds();
void moved(const char *way); // moved.cc
void many_handles(const char *events), kinds_of_handles(), handles_in_threads(), handles_forked(), handles_without_memory(); // handles.cc
void after(const char *way), set(const char *way), reset_after(const char *way); // ends.cc
void registered_before_reset(), page_locked_beside(), variable_by_address(), heap_later(), heap_refused(), late_memory(), own_pool();
void another_waits(const char *way), frees_while_growing(const char *what), launches_while_reserving(const char *what), graph_while_growing(), loads_while_waiting(const char *library); // waiting.cc
void calls_part(const char *library), locks_while_waiting(), forks_while_waiting(), works_in_child_while_waiting(), makes_event_while_waiting();
void frees(const char *what), gone(const char *what), keeps(const char *what); // frees.cc
void faults_behind(const char *way), chooses(const char *list), temporaries(), small_temporaries(), host_frees(), frees_again(), ordered_in_thread(), captures_own();
void host_freed_in_capture();                           // graphs.cc
void wrong(const char *way), small_copies(), swapped(), swapped(const char *mib), hogs(const char *pipe), within(const char *pipe); // memory.cc
void reads_before(), writes_around(), margins(), margins_move(), beyond(const char *way), beyond_boxes(); // outside.cc
void driven(const char *sizes);                         // references.cc
void random_programs(const char *what);                 // random.cc
void last_errors(), last_errors_after_a_fault(), cleared();        // errors.cc
void interrupted(), interrupted_while_waiting(), interrupted_while_growing(); // signals.cc
void explicit_memory(), explicit_waits();               // schedgpu.cc
void asks_late(const char *way);                        // late.cc
void in_flight(const char *way), over_later();          // in_flight.cc
void launch_rate(), burst_rate(), allocation_rate();    // rate.cc
void free_memory();                                     // part.cc
void seems();
void shown(), unattended(), copies_unattended(), resumes_in_a_thread();      // shown.cc
void leaves_work(const char *room);                     // shown.cc
void revoked(const char *way);                          // revoked.cc
void stops(const char *way);                            // stops.cc
void beside_part(const char *library);                  // part.cc
void gaps(const char *way), rests_beside(), flags_beside(); // gaps.cc
void grows(const char *seed);                           // grows.cc
void far_ahead(), behind_the_host(), frees_behind_the_host(), ordered_rounds(), windowed();        // window.cc

#endif
