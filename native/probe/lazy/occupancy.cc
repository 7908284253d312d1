// occupancy.cc: how many blocks of a kernel one SM holds at once.
//
// Before there is a context the CUDA runtime cannot be asked. So the kernel's registers and shared
// memory are read from the program's own machine code. The runtime is told of each fat binary
// (__cudaRegisterFatBinary) and of the name of each kernel in it (__cudaRegisterFunction).
//
// A cubin is an ELF file. Its section .text.KERNEL has the registers of a thread in the upper byte
// of sh_info. The size of .nv.shared.KERNEL is the static shared memory ("CUDA Binary Utilities":
// cuobjdump and nvdisasm print both). A kernel that is compressed, or compiled when it is loaded,
// stays unknown until it has been launched.
#include <elf.h>
#include <string.h>

#include <map>
#include <string>

#pragma GCC visibility push(default)
#include "../static.h"
#pragma GCC visibility pop
#include "api.h"
#include "device.h"
#include "lock.h"
#include "mode.h"
#include "occupancy.h"
#include "real.h"
#include "task.h"
#include "work.h"

extern "C" {
struct FatWrapper { // what nvcc's start-up code passes (fatbinary_section.h)
	int magic, version;
	const unsigned char *data;
	void *unused;
};
}

CASE_API void **__cudaRegisterFatBinary(FatWrapper *binary);
CASE_API void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int thread_limit,
                                     void *thread, void *block, void *block_dim, void *grid_dim, int *warp_size);
CASE_API cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host);
CASE_API cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host);
extern "C" cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads,
                                                                     size_t shared);

namespace lazy {
namespace {

const int wrapper_magic = 0x466243b1;
const uint32_t fat_magic = 0xba55ed50;
const uint16_t kind_cubin = 2;

struct FatHeader {
	uint32_t magic;
	uint16_t version, header_size;
	uint64_t size; // of the entries that follow
};

struct FatEntry {
	uint16_t kind, unknown;
	uint32_t header_size;
	uint64_t size;
	uint32_t unknown2[3];
	uint32_t architecture; // 90: compute capability 9.0
};

struct Kernel {
	const unsigned char *fat;
	std::string name;
};

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

struct Resources {
	uint32_t registers; // of a thread; 0: unknown
	uint64_t shared;    // bytes of a block
};

bool within(uint64_t offset, uint64_t size, uint64_t limit) { return offset <= limit && size <= limit - offset; }

Resources in_cubin(const unsigned char *elf, uint64_t size, const std::string &name)
{
	Resources found = {};
	const auto *header = reinterpret_cast<const Elf64_Ehdr *>(elf);

	if (size < sizeof *header || memcmp(elf, ELFMAG, SELFMAG) != 0 || elf[EI_CLASS] != ELFCLASS64 ||
	    header->e_shentsize != sizeof(Elf64_Shdr) || header->e_shstrndx >= header->e_shnum ||
	    !within(header->e_shoff, uint64_t{header->e_shnum} * sizeof(Elf64_Shdr), size))
		return found;
	const auto *sections = reinterpret_cast<const Elf64_Shdr *>(elf + header->e_shoff);
	const Elf64_Shdr &names = sections[header->e_shstrndx];
	if (!within(names.sh_offset, names.sh_size, size))
		return found;
	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (sections[i].sh_name >= names.sh_size)
			continue;
		const char *text = reinterpret_cast<const char *>(elf + names.sh_offset + sections[i].sh_name);
		const std::string section(text, strnlen(text, names.sh_size - sections[i].sh_name));
		if (section == ".text." + name)
			found.registers = sections[i].sh_info >> 24;
		else if (section == ".nv.shared." + name)
			found.shared = sections[i].sh_size;
	}
	return found;
}

// resources looks for the cubin that the driver would choose: the newest of the
// device's major version that is not newer than the device.
Resources resources(const Kernel &kernel, uint32_t capability)
{
	Resources best = {};
	uint32_t best_architecture = 0;
	FatHeader header;

	memcpy(&header, kernel.fat, sizeof header);
	if (header.magic != fat_magic)
		return best;
	const unsigned char *at = kernel.fat + header.header_size, *const end = at + header.size;
	FatEntry entry;
	for (; within(sizeof entry, 0, static_cast<uint64_t>(end - at)); at += entry.header_size + entry.size) {
		memcpy(&entry, at, sizeof entry);
		if (entry.header_size < sizeof entry ||
		    !within(entry.header_size, entry.size, static_cast<uint64_t>(end - at)))
			break;
		if (entry.kind != kind_cubin || entry.architecture > capability ||
		    entry.architecture / 10 != capability / 10 || entry.architecture < best_architecture)
			continue;
		Resources here = in_cubin(at + entry.header_size, entry.size, kernel.name);
		if (here.registers > 0) {
			best = here;
			best_architecture = entry.architecture;
		}
	}
	return best;
}

int attribute(int which)
{
	int value = 0;
	return REAL(cudaDeviceGetAttribute)(&value, which, home() < 0 ? 0 : home()) == cudaSuccess ? value : 0;
}

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

// The rules of NVIDIA's occupancy calculator (cuda_occupancy.h), which hold
// since compute capability 3.0: registers go to a warp in units of 256, to warps
// in fours; shared memory in units of 128 bytes.
uint32_t fitting_blocks(const Resources &r, uint32_t threads, size_t dynamic_shared)
{
	const uint64_t warp = 32, warps = (threads + warp - 1) / warp;
	const int most_blocks = attribute(cudaDevAttrMaxBlocksPerMultiprocessor),
	          most_threads = attribute(cudaDevAttrMaxThreadsPerMultiProcessor),
	          registers = attribute(cudaDevAttrMaxRegistersPerMultiprocessor),
	          shared = attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor);

	if (warps == 0 || most_blocks <= 0 || most_threads <= 0 || registers <= 0 || shared <= 0)
		return 0;
	const int reserved = attribute(cudaDevAttrReservedSharedMemoryPerBlock);
	const uint64_t per_warp = round_up(uint64_t{r.registers} * warp, 256),
	               per_block = round_up(r.shared + dynamic_shared + static_cast<uint64_t>(reserved), 128);
	uint64_t blocks = static_cast<uint64_t>(most_blocks);
	auto limit = [&](uint64_t other) { blocks = other < blocks ? other : blocks; };
	limit(static_cast<uint64_t>(most_threads) / warp / warps);
	limit(static_cast<uint64_t>(registers) / 4 / per_warp * 4 / warps);
	if (per_block > 0)
		limit(static_cast<uint64_t>(shared) / per_block);
	return static_cast<uint32_t>(blocks);
}

// from_code is the occupancy as the program's machine code gives it; 0: unknown.
uint32_t from_code(const void *kernel, uint32_t threads, size_t shared)
{
	Kernel named;
	{
		Locked locked(registering);
		auto known = kernels().find(kernel);
		if (known == kernels().end())
			return 0;
		named = known->second;
	}
	const int major = attribute(cudaDevAttrComputeCapabilityMajor);
	const int capability = major * 10 + attribute(cudaDevAttrComputeCapabilityMinor);
	const Resources r = resources(named, static_cast<uint32_t>(capability));
	return r.registers == 0 ? 0 : fitting_blocks(r, threads, shared);
}

// from_cuda is the same as CUDA gives it.
uint32_t from_cuda(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	int blocks = 0;

	if (REAL(cudaOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, kernel, static_cast<int>(threads_per_block),
	                                                        shared_bytes) != cudaSuccess)
		return 0;
	return blocks > 0 ? static_cast<uint32_t>(blocks) : 0;
}

cudaError_t name_handle(cudaError_t result, const cudaKernel_t *kernel, const void *host)
{
	Locked locked(registering);
	auto known = kernels().find(host);

	if (result == cudaSuccess && known != kernels().end())
		kernels()[*kernel] = Kernel(known->second);
	return result;
}

} // namespace

uint32_t blocks_per_sm(const void *kernel, uint32_t threads_per_block, size_t shared_bytes)
{
	if (home() < 0)
		return from_code(kernel, threads_per_block, shared_bytes);
	use_device(); // or the CUDA runtime would make a context for this thread's device
	return from_cuda(kernel, threads_per_block, shared_bytes);
}

void launched(const void *kernel, uint64_t blocks, uint32_t threads_per_block, size_t shared_bytes)
{
	working_in_order();
	if (mode() == Mode::passive)
		return;
	if (Task &task = Task::here(); task.is_news(blocks, threads_per_block))
		task.reshape({blocks, threads_per_block, from_cuda(kernel, threads_per_block, shared_bytes)});
}

} // namespace lazy

using namespace lazy;

uint32_t case_blocks_per_sm(const void *kernel, uint32_t threads_per_block, uint64_t shared_bytes)
{
	return has_runtime() ? from_code(kernel, threads_per_block, shared_bytes) : 0;
}

void **__cudaRegisterFatBinary(FatWrapper *binary)
{
	void **handle = REAL(__cudaRegisterFatBinary)(binary);

	if (binary->magic == wrapper_magic) {
		Locked locked(registering);
		binaries()[handle] = binary->data;
	}
	return handle;
}

void __cudaRegisterFunction(void **handle, const void *host, char *device, const char *name, int thread_limit,
                            void *thread, void *block, void *block_dim, void *grid_dim, int *warp_size)
{
	REAL(__cudaRegisterFunction)
	(handle, host, device, name, thread_limit, thread, block, block_dim, grid_dim, warp_size);
	Locked locked(registering);
	auto fat = binaries().find(handle);
	if (fat != binaries().end())
		kernels()[host] = Kernel{fat->second, name};
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	use_device();
	return name_handle(REAL(__cudaGetKernel)(kernel, host), kernel, host);
}

cudaError_t cudaGetKernel(cudaKernel_t *kernel, const void *host)
{
	use_device();
	return name_handle(REAL(cudaGetKernel)(kernel, host), kernel, host);
}
