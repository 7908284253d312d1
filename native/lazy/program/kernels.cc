// kernels.cc: see kernels.h. Start-up code of the program tells the CUDA runtime of each fat binary
// (__cudaRegisterFatBinary) and of the name of each kernel in it (__cudaRegisterFunction).
#include <atomic>
#include <map>

#include "abi/lock.h"
#include "kernels.h"

namespace lazy {
namespace {

std::map<void **, const unsigned char *> &binaries()
{
	static auto *const all = new std::map<void **, const unsigned char *>;
	return *all;
}

std::map<const void *, Kernel> &kernels() // by host function, and by handle
{
	static auto *const all = new std::map<const void *, Kernel>;
	return *all;
}

std::atomic<uint64_t> version{0};

// `registering` is held.
void know(const void *function, Kernel kernel)
{
	if (!kernels().insert_or_assign(function, std::move(kernel)).second)
		version++;
}

} // namespace

bool kernel_at(const void *function, Kernel *found)
{
	Locked locked(registering);
	const auto known = kernels().find(function);

	if (known == kernels().end())
		return false;
	*found = known->second;
	return true;
}

uint64_t kernels_version() { return version; }

void forget_functions() { version++; }

Heap heap_use()
{
	Locked locked(registering);
	Heap found = Heap::unused;

	for (const auto &binary : binaries())
		if (const Heap here = heap_in(binary.second); here != Heap::unused && found != Heap::used)
			found = here;
	return found;
}

void know_binary(void **handle, const unsigned char *fat)
{
	Locked locked(registering);
	binaries()[handle] = fat;
}

void forget_binary(void **handle)
{
	Locked locked(registering);
	const auto fat = binaries().find(handle);

	if (fat == binaries().end())
		return;
	for (auto k = kernels().begin(); k != kernels().end();)
		k = k->second.fat == fat->second ? kernels().erase(k) : std::next(k);
	binaries().erase(fat);
	version++;
}

void know_kernel(void **binary, const void *host, const char *name)
{
	Locked locked(registering);
	const auto fat = binaries().find(binary);

	if (fat != binaries().end())
		know(host, Kernel{fat->second, host, name});
}

void know_handle(const void *handle, const void *host)
{
	Locked locked(registering);
	const auto known = kernels().find(host);

	if (known != kernels().end())
		know(handle, Kernel(known->second));
}

} // namespace lazy

