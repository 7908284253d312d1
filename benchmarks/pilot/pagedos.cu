/* pagedos: touches each page of its memory, again and again (PILOT, Listing 1). With 0 rounds it does so until it is
 * ended. The first word of each page counts the rounds. */
#include "pilot.h"

#include <algorithm>

static const about what = {"Touches each page of 4 KiB, for ever. The size is its memory in bytes. With --burst N, N rounds are a\n"
                           "launch, and it waits for each. Otherwise all rounds are one launch.", "page_dos",
                           {1L << 30, 5L << 30, 10L << 30}, 4096, 1L << 37, 132, 0};

enum { PAGE = 4096 / sizeof(float) };

/* max makes a round that is done again harmless. Otherwise it adds 1. */
__global__ void page_dos(volatile float *a, size_t pages, unsigned long first, unsigned long rounds)
{
	for (unsigned long r = first; rounds == 0 || r < first + rounds; r++) {
		for (size_t page = first_item(); page < pages; page += items_apart())
			a[page * PAGE] = fmaxf(a[page * PAGE], (float)(r + 1));
		CASE_STOP_POINT();
		ENDLESS(rounds == 0);
	}
}
RESTARTABLE(page_dos);

static void verify(const float *a, size_t pages, long rounds)
{
	double error = 0;

	for (int sample = 0; sample < 2000; sample++)
		keep_worst(&error, fabs(peek(a + mixed(sample) % pages * PAGE) - rounds));
	verify_report("rounds of pages", error, 0);
}

/* take_burst takes --burst N out of the arguments. */
static long take_burst(int *argc, char **argv)
{
	for (int i = 1; i + 1 < *argc; i++)
		if (!strcmp(argv[i], "--burst")) {
			const long burst = parse_int(argv[i + 1], "--burst", 1, 1L << 24);
			std::copy(argv + i + 2, argv + *argc + 1, argv + i);
			*argc -= 2;
			return burst;
		}
	return 0;
}

int main(int argc, char **argv)
{
	const long burst = take_burst(&argc, argv);
	program p(argc, argv, what);
	const size_t pages = p.size / (PAGE * sizeof(float));
	float *a = p.allocate<float>(pages * PAGE, "pages");
	p.begin(4096.0 * pages);
	if (p.rounds == 0 && burst == 0 && !PILOT_STOPS)
		die(EXIT_INPUT, "--rounds is 0 without --burst, and this build's kernels cannot be stopped: say how many, or take the build of make without STOP=0");
	GPU(cudaMemset(a, 0, pages * PAGE * sizeof *a));
	p.phase("kernels");
	for (long r = 0; r == 0 || p.rounds == 0 || r < p.rounds; r += burst > 0 ? burst : p.rounds) {
		LAUNCH(page_dos, p, a, pages, r, burst == 0 || p.rounds == 0 ? std::max(burst, p.rounds) : std::min(burst, p.rounds - r));
		GPU(cudaDeviceSynchronize());
	}
	p.phase("verify");
	if (p.chosen.verify)
		verify(a, pages, p.rounds);
	return p.finish(a, pages * PAGE * sizeof *a);
}
