// main.cc: programs of which the compiler pass has found some tasks, and which use devices outside
// of them too, in small, for the fakes (lazytest/partly_test.go). Their calls are those
// that the pass inserts (probe/static.h). The argument says which program.
#include <pthread.h>
#include <stdlib.h>

#include <thread>

#include "../../../probe/static.h"
#include "../programs/program.h"

// What a module says at its start, if the program uses devices outside of static tasks.
__attribute__((constructor(101))) static void elsewhere()
{
	const char *uses = getenv("USES");
	if (uses == nullptr || strcmp(uses, "none") != 0)
		case_static_elsewhere(uses == nullptr ? 0 : static_cast<uint32_t>(atoi(uses)));
}

static int *allocate(size_t bytes) { return device<int>(bytes / sizeof(int)); }

// Static is a static task: from its beginning to the end of the scope.
class Static {
public:
	explicit Static(uint64_t bytes, uint32_t flags = 0)
	{
		case_static_begin(&task_, bytes, 32, 0, 96, flags, cudaGetDevice, cudaSetDevice,
		                  reinterpret_cast<const void *>(add), 0);
	}
	~Static() { case_static_end(&task_, cudaSetDevice); }
	int *allocate(size_t bytes)
	{
		void *memory = nullptr;
		TRY(case_static_malloc(&task_, cudaMalloc, &memory, bytes));
		return static_cast<int *>(memory);
	}

private:
	case_static task_ = {};
};

// right computes on the memory, and says whether it comes out right.
static bool right(int *x, int by)
{
	std::vector<int> host = numbers(1000, by), back(1000);
	TRY(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
	TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, by));
	TRY(cudaMemcpy(back.data(), x, 4000, cudaMemcpyDeviceToHost));
	bool same = true;
	for (size_t i = 0; i < back.size(); i++)
		same = same && back[i] == host[i] + by;
	return same;
}

static void in_task(uint32_t flags = 0)
{
	Static task(64 * mib, flags);
	int *x = task.allocate(64 * mib);
	state("allocated");
	say("static %d", x != nullptr && right(x, 1));
	TRY(cudaFree(x));
}

static void without_task()
{
	int *x = allocate(32 * mib);
	state("allocated");
	say("lazy %d", x != nullptr && right(x, 2));
	TRY(cudaFree(x));
}

// first: the static task comes before all else.
static void first()
{
	in_task();
	without_task();
	state("after");
}

// last: the lazy one comes before.
static void last()
{
	without_task();
	in_task(CASE_STATIC_TRUSTING);
	state("after");
}

// moves: nothing of the first task is left when the second begins.
static void moves()
{
	in_task();
	in_task(CASE_STATIC_TRUSTING);
	state("after");
}

// alone: the program uses no device outside of its static task.
static void alone()
{
	in_task();
	state("after");
}

// pinned: what makes contexts is before the task and after it.
static void pinned()
{
	void *host = nullptr;
	TRY(cudaFree(nullptr));
	TRY(cudaMallocHost(&host, mib));
	state("pinned");
	in_task();
	TRY(cudaFreeHost(host));
	TRY(cudaDeviceSynchronize());
	state("after");
}

// among: memory of the lazy runtime's task is in use meanwhile.
static void among()
{
	int *x = allocate(32 * mib);
	say("lazy %d", right(x, 2));
	in_task();
	say("lazy %d", right(x, 3));
	TRY(cudaFree(x));
	state("after");
}

// taken: as among, and the scheduler may take memory meanwhile.
static void taken()
{
	int *x = allocate(64 * mib);
	say("lazy %d", right(x, 2));
	{
		Static task(64 * mib);
		int *y = task.allocate(64 * mib);
		wait_after("both");
		say("static %d", right(y, 1));
		TRY(cudaFree(y));
	}
	say("lazy %d", right(x, 3));
	TRY(cudaFree(x));
	state("after");
}

// recorded: memory of the lazy runtime's is reserved when the static task begins, and nothing more.
static void recorded()
{
	std::vector<int> host = numbers(1000, 5), back(1000);
	int *x = allocate(32 * mib);
	TRY(cudaMemcpy(x, host.data(), 4000, cudaMemcpyHostToDevice));
	in_task();
	TRY(cudaMemcpy(back.data(), x, 4000, cudaMemcpyDeviceToHost));
	say("kept %d", host == back);
	TRY(cudaFree(x));
	state("after");
}

// threads: two threads have a static task at once.
static void in_threads()
{
	static pthread_barrier_t both;
	bool good[2];
	std::vector<std::thread> all;
	pthread_barrier_init(&both, nullptr, 2);
	for (int k = 0; k < 2; k++)
		all.emplace_back([k, &good] {
			Static task(64 * mib);
			int *x = task.allocate(64 * mib);
			good[k] = right(x, k);
			pthread_barrier_wait(&both);
			good[k] = good[k] && right(x, k + 2);
			TRY(cudaFree(x));
		});
	for (std::thread &t : all)
		t.join();
	say("static %d", good[0] + good[1]);
	state("after");
}

// stays: while a static task waits for the process's device, the lazy runtime's task ends there,
// and another begins.
static void stays()
{
	int *x = allocate(32 * mib);
	say("lazy %d", right(x, 2));
	std::thread other([] {
		Static task(64 * mib);
		int *y = task.allocate(64 * mib);
		say("static %d", right(y, 3));
		TRY(cudaFree(y));
	});
	wait_after("waits"); // until the other one has asked
	TRY(cudaFree(x));
	x = allocate(32 * mib);
	say("lazy %d", right(x, 4));
	other.join();
	say("lazy %d", right(x, 5));
	TRY(cudaFree(x));
	state("after");
}

// many: threads work with and without static tasks.
static void in_many_threads()
{
	int good = 0;
	std::vector<std::thread> all;
	std::vector<int> rounds(4);
	for (int k = 0; k < 4; k++)
		all.emplace_back([k, &rounds] {
			for (int round = 0; round < 20; round++)
				if ((round + k) % 3 != 0) {
					Static task(4 * mib, round & 1 ? CASE_STATIC_TRUSTING : 0);
					int *x = task.allocate(4 * mib);
					rounds[static_cast<size_t>(k)] += right(x, round);
					TRY(cudaFree(x));
				} else {
					int *x = allocate(4 * mib);
					rounds[static_cast<size_t>(k)] += right(x, round);
					TRY(cudaFree(x));
				}
		});
	for (std::thread &t : all)
		t.join();
	for (int sum : rounds)
		good += sum;
	say("right %d", good);
	state("after");
}

// asks: the program asks for a task itself, too.
static void asks()
{
	case_task task;
	int count = 0;
	TRY(cudaGetDeviceCount(&count));
	TRY(case_task_begin(32 * mib, 32, 96, 0, 0, &task));
	say("granted %d of %d", task.device, count);
	TRY(case_task_free(&task));
}

int main(int count, char **arguments)
{
	static const struct {
		const char *name;
		void (*run)();
	} programs[] = {{"first", first}, {"last", last}, {"moves", moves}, {"among", among}, {"taken", taken}, {"recorded", recorded},
	                {"alone", alone}, {"pinned", pinned}, {"threads", in_threads}, {"many", in_many_threads}, {"stays", stays}, {"asks", asks}};

	for (const auto &p : programs)
		if (count == 2 && strcmp(p.name, arguments[1]) == 0) {
			p.run();
			return 0;
		}
	return 2;
}
