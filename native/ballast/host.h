/*
 * host.h: page-locked host memory of CUDA's virtual memory management, in pieces. Each can be mapped
 * in the place of device memory.
 */
#ifndef HOST_H
#define HOST_H

#include "hold.h"

#define PIECE ((uint64_t)32 << 20) /* as a run has them */

typedef unsigned long long CUmemGenericAllocationHandle;
enum { ATTRIBUTE_HOST_NUMA_ID = 134 }; /* CUdevice_attribute */
enum { TYPE_PINNED = 1, LOCATION_DEVICE = 1, LOCATION_HOST_NUMA = 3, HANDLE_FILE_DESCRIPTOR = 1 };

struct location { /* CUmemLocation */
  int type, id;
};

struct properties { /* CUmemAllocationProp */
  int type, handle_types;
  struct location location;
  void *security;
  unsigned char flags[8];
};

static CUresult (*cuDeviceGetCount)(int *count);
static CUresult (*cuDeviceGet)(CUdevice *device, int ordinal);
static CUresult (*cuDeviceGetAttribute)(int *value, int attribute, CUdevice device);
static CUresult (*cuMemCreate)(CUmemGenericAllocationHandle *memory, size_t bytes, const struct properties *p, unsigned long long flags);

#define HOST_SYMBOLS \
  {"cuDeviceGetCount", &cuDeviceGetCount}, {"cuDeviceGet", &cuDeviceGet}, {"cuDeviceGetAttribute", &cuDeviceGetAttribute}, \
      {"cuMemCreate", &cuMemCreate}

/* numa_node is that of a GPU; 0 where the driver does not know. */
static inline int numa_node(CUdevice device) {
  int node = -1;
  return cuDeviceGetAttribute(&node, ATTRIBUTE_HOST_NUMA_ID, device) == CUDA_SUCCESS && node >= 0 ? node : 0;
}

/* gpu returns the device with this ordinal. */
static inline CUdevice gpu(int ordinal) {
  CUdevice device;
  int count = 0;
  must(cuDeviceGetCount(&count), "cuDeviceGetCount", NULL);
  if (count == 0) fail(EXIT_NO_DEVICE, "no GPU");
  if (ordinal >= count) fail(EXIT_NO_DEVICE, "no device %d among %d", ordinal, count);
  must(cuDeviceGet(&device, ordinal), "cuDeviceGet", NULL);
  return device;
}

/* make_piece makes a piece of so many bytes that can be exported. `made` bytes were made before. */
static inline CUmemGenericAllocationHandle make_piece(int node, uint64_t bytes, uint64_t made) {
  const struct properties p = {.type = TYPE_PINNED, .handle_types = HANDLE_FILE_DESCRIPTOR, .location = {LOCATION_HOST_NUMA, node}};
  CUmemGenericAllocationHandle memory;
  CUresult r = cuMemCreate(&memory, bytes, &p, 0);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) fail(EXIT_NO_ROOM, "the host has no more memory after %" PRIu64 " bytes", made);
  must(r, "cuMemCreate", NULL);
  return memory;
}

#endif
