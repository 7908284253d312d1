/*
 * swaprate DEVICE PIECES
 *
 * Measures what moving memory between a GPU and the host costs, in the way in which libcase does it
 * (native/lazy/memory/evict.cc): PIECES of 32 MiB, 1024 at most, are copied to page-locked host memory and taken from
 * their addresses, then mapped there from the host, as memory that stays on the host is, and brought back. Batches of pieces are
 * copied while others are mapped. DEVICE is an ordinal in PCI bus order. One line of JSON goes to stdout:
 *   {"make":R,"out":R,"in":R,"first_us":T,"out_us":T,"map_us":T,"in_us":T,"whole":true}
 * make, out and in: bytes per second of making host memory, and of copies. first_us: time to reach a
 * piece of host memory for the first time. out_us and in_us: time for each piece beside the copies. map_us: time to map a
 * piece from the host. whole: the contents were right behind each mapping.
 *
 * The host and the device need memory for all pieces. It never runs under MPS.
 *
 * Exit status: as hold.h says.
 */
#define PROGRAM "swaprate"
#include "host.h"

#include <time.h>

enum { MOST = 1024, BATCH = 8, AHEAD = 4, NON_BLOCKING = 1, BLOCKING_SYNC = 1 };

static unsigned pieces;

typedef unsigned long long CUdeviceptr;

struct access { /* CUmemAccessDesc */
  struct location location;
  int flags; /* 3: read and write */
};

static CUresult (*cuDevicePrimaryCtxRetain)(void **context, CUdevice device);
static CUresult (*cuCtxSetCurrent)(void *context);
static CUresult (*cuStreamCreate)(void **stream, unsigned flags);
static CUresult (*cuEventCreate)(void **event, unsigned flags);
static CUresult (*cuEventRecord)(void *event, void *stream);
static CUresult (*cuEventSynchronize)(void *event);
static CUresult (*cuEventElapsedTime)(float *ms, void *from, void *to);
static CUresult (*cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes, void *stream);
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
    {"cuStreamCreate", &cuStreamCreate},
    {"cuEventCreate", &cuEventCreate},
    {"cuEventRecord", &cuEventRecord},
    {"cuEventSynchronize", &cuEventSynchronize},
    {"cuEventElapsedTime", &cuEventElapsedTime},
    {"cuMemcpyAsync", &cuMemcpyAsync},
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

/* map maps some pieces, one after the other. */
static void map(CUdeviceptr at, const CUmemGenericAllocationHandle *memory, unsigned count) {
  for (unsigned i = 0; i < count; i++) must(cuMemMap(at + i * PIECE, PIECE, 0, memory[i], 0), "cuMemMap", NULL);
  must(cuMemSetAccess(at, count * PIECE, &access_of_gpu, 1), "cuMemSetAccess", NULL);
}

static void unmap(CUdeviceptr at, unsigned count) {
  for (unsigned i = 0; i < count; i++) must(cuMemUnmap(at + i * PIECE, PIECE), "cuMemUnmap", NULL);
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

/* A batch is copied between two events. */
struct batch {
  unsigned first, count;
  void *from, *to;
};

static void *stream;

static unsigned batches_of(struct batch *all) {
  unsigned n = 0;
  for (unsigned i = 0; i < pieces; i += BATCH, n++) {
    all[n] = (struct batch){.first = i, .count = pieces - i < BATCH ? pieces - i : BATCH};
    must(cuEventCreate(&all[n].from, 0), "cuEventCreate", NULL);
    must(cuEventCreate(&all[n].to, BLOCKING_SYNC), "cuEventCreate", NULL);
  }
  return n;
}

static void copy(const struct batch *b, CUdeviceptr to, CUdeviceptr from) {
  must(cuEventRecord(b->from, stream), "cuEventRecord", NULL);
  for (unsigned i = b->first; i < b->first + b->count; i++) must(cuMemcpyAsync(to + i * PIECE, from + i * PIECE, PIECE, stream), "cuMemcpyAsync", NULL);
  must(cuEventRecord(b->to, stream), "cuEventRecord", NULL);
}

/* await returns how many seconds the copies of a batch took. */
static double await(const struct batch *b) {
  float ms;
  must(cuEventSynchronize(b->to), "cuEventSynchronize", NULL);
  must(cuEventElapsedTime(&ms, b->from, b->to), "cuEventElapsedTime", NULL);
  return ms * 1e-3;
}

/* A measurement is in seconds. */
struct measurement {
  double all, copying;
};

static struct measurement move_out(CUdeviceptr at, CUdeviceptr window, CUmemGenericAllocationHandle *on_device) {
  static struct batch batches[MOST / BATCH];
  const unsigned count = batches_of(batches);
  struct measurement m = {now(), 0};
  for (unsigned n = 0, begun = 0; n < count; n++) {
    for (; begun < count && begun < n + AHEAD; begun++) copy(&batches[begun], window, at);
    const struct batch *b = &batches[n];
    m.copying += await(b);
    unmap(at + b->first * PIECE, b->count);
    for (unsigned i = b->first; i < b->first + b->count; i++) must(cuMemRelease(on_device[i]), "cuMemRelease", NULL);
  }
  m.all = now() - m.all;
  return m;
}

static struct measurement move_in(CUdeviceptr at, CUdeviceptr window, CUmemGenericAllocationHandle *on_device) {
  static struct batch batches[MOST / BATCH];
  const unsigned count = batches_of(batches);
  struct measurement m = {now(), 0};
  for (unsigned i = 0; i < pieces; i++) on_device[i] = device_piece();
  for (unsigned n = 0, begun = 0; n < count; n++) {
    for (; begun < count && begun < n + AHEAD; begun++) {
      const struct batch *b = &batches[begun];
      map(at + b->first * PIECE, on_device + b->first, b->count);
      copy(b, at, window);
    }
    m.copying += await(&batches[n]);
  }
  m.all = now() - m.all;
  return m;
}

/* beside is the time for each piece that is not hidden behind copies, in microseconds. */
static double beside(struct measurement m) { return (m.all - m.copying) * 1e6 / pieces; }

int main(int argc, char **argv) {
  uint64_t ordinal = 0, count; /* a device that is named by its UUID is the only one that is shown */
  if (argc != 3 || (!is_uuid(argv[1]) && !parse_number(argv[1], &ordinal)) || ordinal > 1 << 20 || !parse_number(argv[2], &count) || count == 0 || count > MOST) {
    fputs("usage: swaprate DEVICE PIECES\n", stderr);
    return EXIT_USAGE;
  }
  pieces = (unsigned)count;
  load_driver(symbols, sizeof symbols / sizeof *symbols, argv[1]);
  const CUdevice device = gpu((int)ordinal);
  void *context;
  must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain", NULL);
  must(cuCtxSetCurrent(context), "cuCtxSetCurrent", NULL);
  access_of_gpu = (struct access){{LOCATION_DEVICE, device}, 3};

  must(cuStreamCreate(&stream, NON_BLOCKING), "cuStreamCreate", NULL);

  CUmemGenericAllocationHandle host[MOST], on_device[MOST];
  const int node = numa_node(device);
  double began = now();
  for (unsigned i = 0; i < pieces; i++) host[i] = make_piece(node, PIECE, i * PIECE);
  const double making = now() - began;
  const CUdeviceptr window = reserve(pieces * PIECE), at = reserve(pieces * PIECE);
  began = now();
  map(window, host, pieces);
  const double first = now() - began;
  for (unsigned i = 0; i < pieces; i++) on_device[i] = device_piece();
  map(at, on_device, pieces);
  mark(at);
  const struct measurement out = move_out(at, window, on_device);
  began = now();
  map(at, host, pieces);
  const double mapping = now() - began;
  int whole = holds(at);
  unmap(at, pieces);
  const struct measurement in = move_in(at, window, on_device);
  whole = whole && holds(at);
  const double bytes = pieces * (double)PIECE;
  printf("{\"make\":%.0f,\"out\":%.0f,\"in\":%.0f,\"first_us\":%.1f,\"out_us\":%.1f,\"map_us\":%.1f,\"in_us\":%.1f,\"whole\":%s}\n",
         bytes / making, bytes / out.copying, bytes / in.copying, first * 1e6 / pieces, beside(out), mapping * 1e6 / pieces, beside(in),
         whole ? "true" : "false");
  return 0;
}
