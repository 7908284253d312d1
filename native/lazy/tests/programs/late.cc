// late.cc: a program that finds the task API of a library after it has used CUDA. The program builds
// the names at run time, because a program that has them in its file chooses devices itself.
#include <string>

#include "../../../probe/case.h"
#include "program.h"

template <class F> static F *found(const char *call)
{
	return reinterpret_cast<F *>(dlsym(RTLD_DEFAULT, (std::string("case_task_") + call).c_str()));
}

void asks_late(const char *way)
{
	auto *const ask = found<decltype(case_task_ask)>("ask");
	auto *const end = found<decltype(case_task_free)>("free");
	int count = 0, *x = nullptr;
	TRY(cudaGetDeviceCount(&count));
	if (strcmp(way, "unused") != 0) {
		x = device<int>(1000);
		TRY(cudaMemset(x, 0, 4000));
	}
	if (strcmp(way, "bound") == 0)
		TRY(LAUNCH(add, grid, block, 0, nullptr, x, 1000, 1));

	case_need need = {};
	case_task task, other;
	need.bytes = 64 * mib;
	TRY(ask(&need, &task));
	need.flags = CASE_FLAG_DEVICE;
	need.device = 1;
	say("granted %d of %d, other %d", task.device, count, ask(&need, &other));
	TRY(cudaSetDevice(task.device));
	int *y = device<int>(16 * mib);
	TRY(cudaMemset(y, 0, 4000));
	TRY(LAUNCH(add, grid, block, 0, nullptr, y, 1000, 2));
	int value = 0;
	TRY(cudaMemcpy(&value, y + 9, sizeof value, cudaMemcpyDeviceToHost));
	say("right %d", value == 2);
	TRY(cudaFree(y));
	TRY(cudaFree(x));
	TRY(end(&task));
	state("after");
}
