/*
 * ballast DEVICE LEAVE_FREE_BYTES
 *
 * Holds memory of one GPU so that LEAVE_FREE_BYTES stay free on it, which makes
 * a large GPU run out of memory like a small one. DEVICE is an ordinal in PCI
 * bus order over all GPUs of the node, or a UUID (GPU-... or MIG-...).
 *
 * Once the memory is held, one line of JSON goes to stdout, all sizes in bytes:
 *   {"device":"GPU-...","total":T,"free":F,"leave_free":L,"held":H,"pieces":N}
 * with L <= F < L + 2 MiB. It then waits for the end of stdin, SIGTERM or
 * SIGINT, frees and exits 0.
 *
 * Its own CUDA context is part of what is not free. Contexts that other
 * processes, or an MPS server, create later come out of LEAVE_FREE_BYTES: the
 * caller adds them.
 *
 * It never runs under MPS, where the memory would count as a client's. So under compute mode
 * EXCLUSIVE_PROCESS ballast and an MPS server exclude each other.
 *
 * Exit status: 0 done; 2 usage; 3 less than LEAVE_FREE_BYTES is free already;
 * 4 CUDA failed; 5 no CUDA driver or no such device.
 */
#define PROGRAM "ballast"
#include "hold.h"

#include <strings.h>

/* The driver hands out device memory in pieces of 2 MiB. */
#define GRANULE ((size_t)2 << 20)

typedef void *CUcontext;
typedef unsigned long long CUdeviceptr;
typedef struct {
  char bytes[16];
} CUuuid;

static struct {
  CUresult (*cuDeviceGetCount)(int *count);
  CUresult (*cuDeviceGet)(CUdevice *device, int ordinal);
  CUresult (*cuDeviceGetUuid)(CUuuid *uuid, CUdevice device);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext *context, CUdevice device);
  CUresult (*cuDevicePrimaryCtxRelease)(CUdevice device);
  CUresult (*cuCtxSetCurrent)(CUcontext context);
  CUresult (*cuMemGetInfo)(size_t *free, size_t *total);
  CUresult (*cuMemAlloc)(CUdeviceptr *pointer, size_t bytes);
  CUresult (*cuMemFree)(CUdeviceptr pointer);
} cu;

static const struct symbol symbols[] = {
    {"cuDeviceGetCount", &cu.cuDeviceGetCount},
    {"cuDeviceGet", &cu.cuDeviceGet},
    {"cuDeviceGetUuid", &cu.cuDeviceGetUuid},
    {"cuDevicePrimaryCtxRetain", &cu.cuDevicePrimaryCtxRetain},
    {"cuDevicePrimaryCtxRelease", &cu.cuDevicePrimaryCtxRelease},
    {"cuCtxSetCurrent", &cu.cuCtxSetCurrent},
    {"cuMemGetInfo_v2", &cu.cuMemGetInfo},
    {"cuMemAlloc_v2", &cu.cuMemAlloc},
    {"cuMemFree_v2", &cu.cuMemFree},
};

static void format_uuid(char out[41], const CUuuid *uuid) {
  const unsigned char *b = (const unsigned char *)uuid->bytes;
  snprintf(out, 41, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
           b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

/* find_device accepts an ordinal or a UUID and returns the UUID in uuid. */
static CUdevice find_device(const char *want, char uuid[41]) {
  int count = 0;
  uint64_t ordinal = 0;
  int by_ordinal = parse_number(want, &ordinal);
  must(cu.cuDeviceGetCount(&count), "cuDeviceGetCount", want);
  if (is_instance(want) && count == 1) { /* cuDeviceGetUuid tells that of its GPU */
    CUdevice device;
    must(cu.cuDeviceGet(&device, 0), "cuDeviceGet", want);
    snprintf(uuid, 41, "%s", want);
    return device;
  }
  for (int i = 0; i < count; i++) {
    CUdevice device;
    CUuuid raw;
    must(cu.cuDeviceGet(&device, i), "cuDeviceGet", want);
    must(cu.cuDeviceGetUuid(&raw, device), "cuDeviceGetUuid", want);
    format_uuid(uuid, &raw);
    if (by_ordinal ? ordinal == (uint64_t)i : strcasecmp(want, uuid) == 0) return device;
  }
  fail(EXIT_NO_DEVICE, "no device %s among %d", want, count);
}

struct piece {
  CUdeviceptr at;
  struct piece *next;
};

static struct piece *pieces;
static size_t held, piece_count;

static double gib(uint64_t bytes) { return (double)bytes / (1 << 30); }

static size_t free_bytes(const char *device, size_t *total) {
  size_t free = 0;
  must(cu.cuMemGetInfo(&free, total), "cuMemGetInfo", device);
  return free;
}

/* fill allocates until less than one granule more than leave is free. It reads
 * what is free again after each piece, because the driver rounds; a piece that
 * does not fit, though the sum would, is halved. */
static size_t fill(const char *device, size_t leave, size_t *total) {
  size_t free = free_bytes(device, total);
  if (free < leave)
    fail(EXIT_NO_ROOM, "device %s: %.2f of %.2f GiB are free, %.2f were to stay free", device, gib(free), gib(*total),
         gib(leave));
  size_t size = SIZE_MAX;
  while (free >= leave && free - leave >= GRANULE) {
    size_t most = (free - leave) / GRANULE * GRANULE;
    if (size > most) size = most;
    CUdeviceptr at;
    CUresult r = cu.cuMemAlloc(&at, size);
    if (r == CUDA_ERROR_OUT_OF_MEMORY && size > GRANULE) {
      size = size / 2 / GRANULE * GRANULE;
      continue;
    }
    if (r != CUDA_SUCCESS)
      fail(EXIT_CUDA, "cuMemAlloc of %zu bytes on device %s, %zu free, %zu held: %s (%d)", size, device, free, held,
           error_name(r), r);
    struct piece *p = malloc(sizeof *p);
    if (!p) fail(EXIT_CUDA, "out of host memory after %zu pieces", piece_count);
    *p = (struct piece){.at = at, .next = pieces};
    pieces = p;
    piece_count++;
    held += size;
    free = free_bytes(device, total);
  }
  return free;
}

static void release(CUdevice device, const char *name) {
  while (pieces) {
    struct piece *p = pieces;
    pieces = p->next;
    must(cu.cuMemFree(p->at), "cuMemFree", name);
    free(p);
  }
  must(cu.cuDevicePrimaryCtxRelease(device), "cuDevicePrimaryCtxRelease", name);
}

int main(int argc, char **argv) {
  uint64_t leave;
  if (argc != 3 || !parse_number(argv[2], &leave)) {
    fputs("usage: ballast DEVICE LEAVE_FREE_BYTES\n", stderr);
    return EXIT_USAGE;
  }
  sigset_t unblocked;
  catch_signals(&unblocked);
  load_driver(symbols, sizeof symbols / sizeof *symbols, argv[1]);
  char uuid[41];
  CUdevice device = find_device(argv[1], uuid);
  CUcontext context;
  must(cu.cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", uuid);
  must(cu.cuCtxSetCurrent(context), "cuCtxSetCurrent", uuid);
  size_t total, left = fill(uuid, leave, &total);
  if (left < leave)
    fail(EXIT_NO_ROOM, "device %s: %.3f GiB are free, %.3f were to stay free: another process took memory at the same time", uuid,
         gib(left), gib(leave));
  printf("{\"device\":\"%s\",\"total\":%zu,\"free\":%zu,\"leave_free\":%" PRIu64
         ",\"held\":%zu,\"pieces\":%zu}\n",
         uuid, total, left, leave, held, piece_count);
  if (fflush(stdout) != 0) fail(EXIT_CUDA, "write the ready line: %s", strerror(errno));
  ended(&unblocked, NULL);
  release(device, uuid);
  return 0;
}
