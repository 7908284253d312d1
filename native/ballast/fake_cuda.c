/*
 * A CUDA driver for the tests of the programs here, built as libcuda.so.1. It keeps counts and
 * no memory, except on the host: host memory is that of native/fake, memfds whose name has the
 * device, -1. The environment describes the node:
 *   FAKE_CUDA_DEVICES    number of devices (1); the last byte of a UUID is its ordinal
 *   FAKE_CUDA_TOTAL      bytes per device (1 GiB)
 *   FAKE_CUDA_USED       bytes that others hold (0)
 *   FAKE_CUDA_LARGEST    largest free piece in bytes: memory is fragmented (no limit)
 *   FAKE_CUDA_UNUSABLE   bytes that are free and that no allocation gets (0)
 *   FAKE_CUDA_HOST       bytes of host memory (no limit)
 *   FAKE_CUDA_SMS        SMs of a device (132)
 *   FAKE_CUDA_HOLD_SMS   the most of them that the kernel of slow hold gets (132)
 *   FAKE_CUDA_FREE_SMS   those that the kernel of slow probe gets (33)
 *   FAKE_CUDA_LOG        file to append one line to per allocation, free and release, and per kernel of slow
 * cuInit fails with error 3 (not initialized) when the environment would let
 * the caller run under MPS or see fewer than all devices, unless it names one device by its UUID, and an order or a daemon.
 *
 * The kernel of slow hold is a process, so that it outlives the program as a kernel does.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRANULE ((size_t)2 << 20)
#define CONTEXT ((size_t)512 << 20) /* what a context costs on an H200, about */

static size_t held, contexts;
static unsigned long long next = 1 << 21;
static struct {
  unsigned long long at;
  size_t bytes;
} table[4096];
static int entries;

static size_t setting(const char *name, size_t otherwise) {
  const char *v = getenv(name);
  return v ? strtoull(v, NULL, 10) : otherwise;
}

static void log_line(const char *what, size_t bytes) {
  const char *path = getenv("FAKE_CUDA_LOG");
  FILE *f = path ? fopen(path, "a") : NULL;
  if (!f) return;
  fprintf(f, "%s %zu\n", what, bytes);
  fclose(f);
}

static size_t available(void) {
  size_t gone = setting("FAKE_CUDA_USED", 0) + contexts + held, total = setting("FAKE_CUDA_TOTAL", 1 << 30);
  return gone > total ? 0 : total - gone;
}

int cuInit(unsigned flags) {
  (void)flags;
  const char *pipe = getenv("CUDA_MPS_PIPE_DIRECTORY"), *order = getenv("CUDA_DEVICE_ORDER"), *visible = getenv("CUDA_VISIBLE_DEVICES");
  if (pipe && visible && !strncmp(visible, "GPU-", 4)) return strcmp(pipe, "/nonexistent") || order ? 0 : 3;
  if (!pipe || strcmp(pipe, "/nonexistent") || getenv("CUDA_VISIBLE_DEVICES")) return 3;
  return order && !strcmp(order, "PCI_BUS_ID") ? 0 : 3;
}

int cuDeviceGetCount(int *count) {
  *count = (int)setting("FAKE_CUDA_DEVICES", 1);
  return 0;
}

int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal;
  return 0;
}

int cuDeviceGetUuid(char *uuid, int device) {
  memset(uuid, 0xab, 16);
  uuid[15] = (char)device;
  return 0;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
  (void)device;
  *context = &held;
  contexts = CONTEXT;
  return 0;
}

int cuDevicePrimaryCtxRelease(int device) {
  log_line("release", (size_t)device);
  contexts = 0;
  return 0;
}

int cuCtxSetCurrent(void *context) { return context == &held ? 0 : 201; }

int cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = available();
  *total = setting("FAKE_CUDA_TOTAL", 1 << 30);
  return 0;
}

int cuMemAlloc_v2(unsigned long long *at, size_t bytes) {
  size_t whole = (bytes + GRANULE - 1) / GRANULE * GRANULE, unusable = setting("FAKE_CUDA_UNUSABLE", 0);
  if (whole > setting("FAKE_CUDA_LARGEST", (size_t)-1) || whole + unusable > available() ||
      entries == (int)(sizeof table / sizeof *table))
    return 2;
  table[entries].at = *at = next;
  table[entries++].bytes = whole;
  next += whole;
  held += whole;
  log_line("alloc", whole);
  return 0;
}

int cuMemFree_v2(unsigned long long at) {
  for (int i = 0; i < entries; i++) {
    if (table[i].at != at || !table[i].bytes) continue;
    log_line("free", table[i].bytes);
    held -= table[i].bytes;
    table[i].bytes = 0;
    return 0;
  }
  return 1;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? (int)setting("FAKE_CUDA_SMS", 132) : 0;
  return attribute == 16 || attribute == 134 ? 0 : 1;
}

int cuMemCreate(unsigned long long *memory, size_t bytes, const int *properties, unsigned long long flags) {
  static size_t made;
  const int want[] = {1, 1, 3, 0}; /* pinned, to be exported as a descriptor, of the host, node 0 */
  if (flags || memcmp(properties, want, sizeof want)) return 1;
  if (bytes > setting("FAKE_CUDA_HOST", (size_t)-1) - made) return 2;
  int file = memfd_create("fake CUDA memory of -1", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, (off_t)bytes)) return 2;
  made += bytes;
  *memory = (unsigned long long)file;
  log_line("made", bytes);
  return 0;
}

/* A handle is exported once, so the program needs no more descriptors than with the real driver. */
int cuMemExportToShareableHandle(void *file, unsigned long long memory, int type, unsigned long long flags) {
  memcpy(file, &(int){(int)memory}, sizeof(int));
  return type == 1 && !flags ? 0 : 1;
}

/* What slow.c shares with its kernels, and the kernels. */
struct words {
  uint32_t stop, beat, unused[62], seen[1024];
};

static pid_t kernel; /* of slow hold */

static void see(volatile struct words *w, size_t blocks) {
  for (size_t i = 0; i < blocks; i++) w->seen[i] = 1;
}

static uint64_t nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void hold_kernel(volatile struct words *w, size_t blocks, uint64_t patience) {
  uint32_t last = 0;
  for (int i = 0; i < 3; i++) close(i);
  const size_t most = setting("FAKE_CUDA_HOLD_SMS", 132);
  see(w, blocks < most ? blocks : most);
  for (uint64_t since = nanoseconds(); !w->stop && nanoseconds() - since <= patience; usleep(500)) {
    if (w->beat != last) since = nanoseconds();
    last = w->beat;
  }
  log_line(w->stop ? "told" : "unheard", blocks);
}

int cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
  *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return flags || *at == MAP_FAILED ? 2 : 0;
}

int cuModuleLoadData(void **module, const char *image) {
  *module = (void *)image;
  return strncmp(image, ".version ", 9) ? 218 : 0;
}

/* A function is its name. */
int cuModuleGetFunction(const char **function, const char *module, const char *name) {
  char entry[64];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  *function = name;
  return strstr(module, entry) ? 0 : 500;
}

int cuStreamCreate(void **stream, unsigned flags) {
  *stream = &kernel;
  return flags == 1 ? 0 : 1;
}

int cuLaunchKernel(const char *function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
                   unsigned shared, void *stream, void **arguments, void **more) {
  volatile struct words *w = *(struct words **)arguments[0];
  const int holds = !strcmp(function, "hold");
  if (y * z * block_y * block_z != 1 || shared || more || stream != &kernel || block_x != (holds ? 1024 : 32)) return 1;
  log_line(function, x);
  if (!holds) {
    see(w, setting("FAKE_CUDA_FREE_SMS", 33));
    return 0;
  }
  kernel = fork();
  if (kernel == 0) {
    hold_kernel(w, x, *(uint64_t *)arguments[1]);
    _exit(0);
  }
  return kernel < 0 ? 2 : 0;
}

int cuStreamQuery(void *stream) {
  (void)stream;
  return waitpid(kernel, NULL, WNOHANG) == 0 ? 600 : 0;
}

int cuStreamSynchronize(void *stream) {
  (void)stream;
  if (kernel > 0) waitpid(kernel, NULL, 0);
  return 0;
}

int cuGetErrorName(int error, const char **name) {
  *name = error == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : error == 3 ? "CUDA_ERROR_NOT_INITIALIZED" : "CUDA_ERROR_OTHER";
  return 0;
}
