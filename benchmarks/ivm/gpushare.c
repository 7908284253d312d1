/* gpushare.c: how much memory of a GPU an object takes that two PEs of the GPU map, by NVML. Both have a context before the first number is
 * read. PE 1 maps the object when PE 3 signals, which the root starts, and PE 2 when PE 4 does. PE 5 lets both end. */
#include "library.h"
#include "program.h"

static long bytes = 1 << 30;

static double used_mib(void)
{
	int (*get_device)(unsigned, void **), (*get_memory)(void *, unsigned long long *);
	unsigned long long memory[3]; /* total, free, used */
	void *device;

	*(void **)&get_device = function("libnvidia-ml.so.1", "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&get_memory = function("libnvidia-ml.so.1", "nvmlDeviceGetMemoryInfo");
	succeeded("nvmlDeviceGetHandleByIndex", get_device(0, &device));
	succeeded("nvmlDeviceGetMemoryInfo", get_memory(device, memory));
	return (double)memory[2] / (1 << 20);
}

static void root(void)
{
	int (*init)(void);
	ivm_dev gpu, home;
	void *at;
	double used[3];

	*(void **)&init = function("libnvidia-ml.so.1", "nvmlInit_v2");
	succeeded("nvmlInit", init());
	must("malloc", ivm_malloc("small", 1, &at));
	must("malloc", ivm_malloc("object", (size_t)bytes, &at));
	must("create_dev", ivm_create_dev(NULL, IVM_GPU, 0, &gpu));
	must("create_dev", ivm_create_dev(NULL, IVM_THIS_DEV, 0, &home));
	must("create_pes", ivm_create_pes(gpu, 2, NULL));
	must("wait", ivm_wait(1));
	must("wait", ivm_wait(2));
	used[0] = used_mib();
	for (int i = 1; i <= 2; i++) {
		must("create_pes", ivm_create_pes(home, 1, NULL));
		must("wait", ivm_wait(i));
		used[i] = used_mib();
	}
	must("create_pes", ivm_create_pes(home, 1, NULL));
	printf("an object of %.0f MiB; memory of the GPU in use before it is mapped: %.0f MiB\n", (double)bytes / (1 << 20), used[0]);
	printf("PE 1 has mapped it: +%.0f MiB\nPE 2 has mapped it, too: +%.0f MiB\n", used[1] - used[0], used[2] - used[1]);
}
static void share(ivm_pe id)
{
	void *at;

	must("map", ivm_map("small", &at, NULL)); /* which makes a context */
	must("signal", ivm_signal());
	must("wait", ivm_wait(id + 2));
	must("map", ivm_map("object", &at, NULL));
	must("signal", ivm_signal());
	must("wait", ivm_wait(5));
}

int main(int argc, char **argv)
{
	const struct option_of_program options[] = {{"--bytes", &bytes, 1, 1L << 40, "size of the object"}, {0}};
	ivm_pe id;

	read_options(argc, argv, "How much memory of GPU 0 an object takes that two PEs of the GPU map, by NVML.", options);
	must("enter", ivm_enter());
	must("get_my_id", ivm_get_my_id(&id));
	if (id == 0)
		root();
	else if (id <= 2)
		share(id);
	else
		for (int i = 0; i < (id == 5 ? 2 : 1); i++)
			must("signal", ivm_signal());
	must("exit", ivm_exit());
	return 0;
}
