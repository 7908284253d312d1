/*
 * swaprate DEVICE PIECES
 *
 * Measures what moving memory between a GPU and the host costs, in the way in which libcase does it
 * (native/probe/lazy/memory.cc): PIECES of 32 MiB, 1024 at most, are copied to page-locked host memory, which is
 * then mapped in their place, and back. DEVICE is an ordinal in PCI bus order. One line of JSON goes to
 * stdout:
 *   {"make":R,"out":R,"in":R,"out_us":T,"in_us":T,"whole":true,"front":true}
 * make, out and in: bytes per second of making host memory, and of copies. out_us and in_us: time for
 * each piece beside the copies. whole: the contents were right behind each mapping. front: a part of
 * a piece can be mapped.
 *
 * The host and the device need memory for all pieces. It never runs under MPS.
 *
 * Exit status: as hold.h says.
 */
#define PROGRAM "swaprate"
#include "host.h"

#include <time.h>

enum { MOST = 1024, GRANULE = 2 << 20 };

static unsigned pieces;

typedef unsigned long long CUdeviceptr;

struct access { /* CUmemAccessDesc */
  struct location location;
  int flags; /* 3: read and write */
};

static CUresult (*cuDevicePrimaryCtxRetain)(void **context, CUdevice device);
static CUresult (*cuCtxSetCurrent)(void *context);
static CUresult (*cuCtxSynchronize)(void);
static CUresult (*cuMemAddressReserve)(CUdeviceptr *at, size_t bytes, size_t alignment, CUdeviceptr near, unsigned long long flags);
static CUresult (*cuMemMap)(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory, unsigned long long flags);
static CUresult (*cuMemUnmap)(CUdeviceptr at, size_t bytes);
static CUresult (*cuMemSetAccess)(CUdeviceptr at, size_t bytes, const struct access *access, size_t count);
static CUresult (*cuMemRelease)(CUmemGenericAllocationHandle memory);
static CUresult (*cuMemcpy)(CUdeviceptr to, CUdeviceptr from, size_t bytes);

static const struct symbol symbols[] = {
    HOST_SYMBOLS,
    {"cuDevicePrimaryCtxRetain", &cuDevicePrimaryCtxRetain},
    {"cuCtxSetCurrent", &cuCtxSetCurrent},
    {"cuCtxSynchronize", &cuCtxSynchronize},
    {"cuMemAddressReserve", &cuMemAddressReserve},
    {"cuMemMap", &cuMemMap},
    {"cuMemUnmap", &cuMemUnmap},
    {"cuMemSetAccess", &cuMemSetAccess},
    {"cuMemRelease", &cuMemRelease},
    {"cuMemcpy", &cuMemcpy},
};

static struct access access_of_gpu;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static CUdeviceptr reserve(size_t bytes) {
  CUdeviceptr at;
  must(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve", NULL);
  return at;
}

static void map(CUdeviceptr at, CUmemGenericAllocationHandle memory) {
  must(cuMemMap(at, PIECE, 0, memory, 0), "cuMemMap", NULL);
  must(cuMemSetAccess(at, PIECE, &access_of_gpu, 1), "cuMemSetAccess", NULL);
}

static CUmemGenericAllocationHandle device_piece(void) {
  const struct properties p = {.type = TYPE_PINNED, .location = access_of_gpu.location};
  CUmemGenericAllocationHandle memory;
  CUresult r = cuMemCreate(&memory, PIECE, &p, 0);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) fail(EXIT_NO_ROOM, "less than %" PRIu64 " bytes of the device are free", pieces * PIECE);
  must(r, "cuMemCreate", NULL);
  return memory;
}

static CUresult copy_word(CUdeviceptr to, CUdeviceptr from) { return cuMemcpy(to, from, sizeof(unsigned)); }

static CUdeviceptr address_of(const unsigned *word) { return (CUdeviceptr)(uintptr_t)word; }

/* mark puts its number into the first and the last word of each piece. holds reports whether they are
 * there. */
static void mark(CUdeviceptr at) {
  for (unsigned i = 0; i < pieces; i++) {
    const unsigned number = i + 1;
    must(copy_word(at + i * PIECE, address_of(&number)), "cuMemcpy", NULL);
    must(copy_word(at + (i + 1) * PIECE - sizeof number, address_of(&number)), "cuMemcpy", NULL);
  }
}

static int holds(CUdeviceptr at) {
  for (unsigned i = 0; i < pieces; i++) {
    unsigned first = 0, last = 0;
    must(copy_word(address_of(&first), at + i * PIECE), "cuMemcpy", NULL);
    must(copy_word(address_of(&last), at + (i + 1) * PIECE - sizeof last), "cuMemcpy", NULL);
    if (first != i + 1 || last != i + 1) return 0;
  }
  return 1;
}

/* maps_front reports whether a part of a piece, from its beginning, can be mapped. */
static int maps_front(CUmemGenericAllocationHandle memory) {
  const CUdeviceptr at = reserve(GRANULE);
  if (cuMemMap(at, GRANULE, 0, memory, 0) != CUDA_SUCCESS) return 0;
  const int usable = cuMemSetAccess(at, GRANULE, &access_of_gpu, 1) == CUDA_SUCCESS && copy_word(at, address_of(&(unsigned){7})) == CUDA_SUCCESS;
  must(cuMemUnmap(at, GRANULE), "cuMemUnmap", NULL);
  return usable;
}

int main(int argc, char **argv) {
  uint64_t ordinal, count;
  if (argc != 3 || !parse_number(argv[1], &ordinal) || ordinal > 1 << 20 || !parse_number(argv[2], &count) || count == 0 || count > MOST) {
    fputs("usage: swaprate DEVICE PIECES\n", stderr);
    return EXIT_USAGE;
  }
  pieces = (unsigned)count;
  load_driver(symbols, sizeof symbols / sizeof *symbols);
  const CUdevice device = gpu((int)ordinal);
  void *context;
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", NULL);
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent", NULL);
  access_of_gpu = (struct access){{LOCATION_DEVICE, device}, 3};

  CUmemGenericAllocationHandle host[MOST], on_device[MOST];
  const int node = numa_node(device);
  double began = now();
  for (unsigned i = 0; i < pieces; i++) host[i] = make_piece(node, i * PIECE);
  const double making = now() - began;
  const CUdeviceptr window = reserve(pieces * PIECE), at = reserve(pieces * PIECE);
  for (unsigned i = 0; i < pieces; i++) {
    on_device[i] = device_piece();
    map(window + i * PIECE, host[i]);
    map(at + i * PIECE, on_device[i]);
  }
  mark(at);

  double copying_out = 0, copying_in = 0;
  const double out_began = now();
  for (unsigned i = 0; i < pieces; i++) {
    began = now();
    must(cuMemcpy(window + i * PIECE, at + i * PIECE, PIECE), "cuMemcpy", NULL);
    must(cuCtxSynchronize(), "cuCtxSynchronize", NULL);
    copying_out += now() - began;
    must(cuMemUnmap(at + i * PIECE, PIECE), "cuMemUnmap", NULL);
    map(at + i * PIECE, host[i]);
    must(cuMemRelease(on_device[i]), "cuMemRelease", NULL);
  }
  const double out = now() - out_began;
  int whole = holds(at);
  const double in_began = now();
  for (unsigned i = 0; i < pieces; i++) {
    on_device[i] = device_piece();
    must(cuMemUnmap(at + i * PIECE, PIECE), "cuMemUnmap", NULL);
    map(at + i * PIECE, on_device[i]);
    began = now();
    must(cuMemcpy(at + i * PIECE, window + i * PIECE, PIECE), "cuMemcpy", NULL);
    must(cuCtxSynchronize(), "cuCtxSynchronize", NULL);
    copying_in += now() - began;
  }
  const double in = now() - in_began;
  whole = whole && holds(at);
  const double bytes = pieces * (double)PIECE;
  printf("{\"make\":%.0f,\"out\":%.0f,\"in\":%.0f,\"out_us\":%.1f,\"in_us\":%.1f,\"whole\":%s,\"front\":%s}\n", bytes / making,
         bytes / copying_out, bytes / copying_in, (out - copying_out) * 1e6 / pieces, (in - copying_in) * 1e6 / pieces,
         whole ? "true" : "false", maps_front(host[0]) ? "true" : "false");
  return 0;
}
