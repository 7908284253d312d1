/* start.c: how long it takes until a PE that is created signals. On a GPU it has a context by then, and an object mapped. */
#include "measure.h"
#include "program.h"

enum { MOST = 10000 };

static long count = 200, gpu;

static void measure(void)
{
	static double times[MOST];
	ivm_pe pe;
	ivm_dev dev;
	void *at;

	must("malloc", ivm_malloc("object", 1, &at));
	must("create_dev", ivm_create_dev(NULL, gpu ? IVM_GPU : IVM_CPU, gpu ? 0 : 1, &dev));
	for (long i = 0; i < count; i++) {
		const double start = now();
		must("create_pes", ivm_create_pes(dev, 1, &pe));
		must("wait", ivm_wait(pe));
		times[i] = now() - start;
	}
	for (size_t of_100 = 50; of_100 <= 95; of_100 += 45)
		printf("start of a PE, p%zu: %.2f ms\n", of_100, 1e3 * percentile(times, (size_t)count, of_100));
}

int main(int argc, char **argv)
{
	const struct option_of_program options[] = {{"--count", &count, 1, MOST, "PEs"}, {"--gpu", &gpu, 0, 0, "on GPU 0, which each PE makes a context for"}, {0}};
	ivm_pe id;
	void *at;

	read_options(argc, argv, "How long it takes until a PE that is created signals.", options);
	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&id));
	if (id == 0) {
		measure();
	} else {
		if (gpu)
			must("map", ivm_map("object", &at, NULL));
		must("signal", ivm_signal());
	}
	must("exit", ivm_exit());
	return 0;
}
