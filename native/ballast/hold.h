/*
 * hold.h: what the programs here share. Each takes memory, says so, and holds it until the end of
 * stdin, SIGTERM or SIGINT. It also ends when the thread that started it ends
 * (PR_SET_PDEATHSIG), so that thread must outlive it.
 *
 * CUDA is declared here and not included, so that the programs build without a CUDA toolkit: the
 * driver's ABI (cuda.h) is stable, and _v2 names are the 64-bit forms that every driver since 3.2
 * exports.
 */
#ifndef HOLD_H
#define HOLD_H

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { EXIT_USAGE = 2, EXIT_NO_ROOM = 3, EXIT_CUDA = 4, EXIT_NO_DEVICE = 5, EXIT_NO_CALL = 6 };

typedef int CUresult;
typedef int CUdevice;
enum { CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_NO_DEVICE = 100 };

/* A function of the driver, and where to put its address. */
struct symbol {
  const char *name;
  void *slot;
};

static volatile sig_atomic_t stopped;
static CUresult (*cuGetErrorName)(CUresult error, const char **name);

__attribute__((noreturn, format(printf, 2, 3))) static void fail(int status, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fputs(PROGRAM ": ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  exit(status);
}

static inline const char *error_name(CUresult r) {
  const char *name = NULL;
  if (!cuGetErrorName || cuGetErrorName(r, &name) != CUDA_SUCCESS || !name) return "unknown error";
  return name;
}

/* must ends the program unless r is success. `where` says on which device; NULL: on none. */
static inline void must(CUresult r, const char *call, const char *where) {
  if (r != CUDA_SUCCESS)
    fail(r == CUDA_ERROR_NO_DEVICE ? EXIT_NO_DEVICE : EXIT_CUDA, "%s%s%s: %s (%d)", call, where ? " on device " : "",
         where ? where : "", error_name(r), r);
}

static inline void on_signal(int sig) {
  (void)sig;
  stopped = 1;
}

/* find_driver finds the functions and starts the driver. */
static inline void find_driver(const struct symbol *symbols, size_t count) {
  CUresult (*init)(unsigned flags) = NULL;
  const struct symbol start = {"cuInit", &init};

  void *lib = dlopen("libcuda.so.1", RTLD_NOW);
  if (!lib) fail(EXIT_NO_DEVICE, "load the CUDA driver: %s", dlerror());
  void *names = dlsym(lib, "cuGetErrorName"); /* messages can do without */
  memcpy(&cuGetErrorName, &names, sizeof names);
  for (size_t i = 0; i <= count; i++) {
    const struct symbol *s = i < count ? &symbols[i] : &start;
    void *found = dlsym(lib, s->name);
    if (!found) fail(EXIT_NO_CALL, "libcuda.so.1 has no %s", s->name);
    memcpy(s->slot, &found, sizeof found);
  }
  must(init(0), "cuInit", NULL);
}

/* is_instance: the name is the UUID of an instance of MIG. is_uuid: it is that of a device. */
static inline int is_instance(const char *device) { return strncmp(device, "MIG-", 4) == 0; }
static inline int is_uuid(const char *device) { return is_instance(device) || strncmp(device, "GPU-", 4) == 0; }

/* load_driver does so. The driver shows every GPU of the node, in PCI order, or only the device if that is a UUID: beside instances
 * of MIG it shows one device at most. It runs without MPS: it cannot reach a control daemon in this directory. */
static inline void load_driver(const struct symbol *symbols, size_t count, const char *device) {
  if ((is_uuid(device) ? setenv("CUDA_VISIBLE_DEVICES", device, 1) : unsetenv("CUDA_VISIBLE_DEVICES")) || setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1) ||
      setenv("CUDA_MPS_PIPE_DIRECTORY", "/nonexistent", 1))
    fail(EXIT_CUDA, "set the environment: %s", strerror(errno));
  find_driver(symbols, count);
}

/* catch_signals has SIGTERM and SIGINT, and the starter's death, end wait_for_end, and only that. */
static inline void catch_signals(sigset_t *unblocked) {
  const struct sigaction act = {.sa_handler = on_signal};
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, unblocked);
  sigdelset(unblocked, SIGTERM);
  sigdelset(unblocked, SIGINT);
  sigaction(SIGTERM, &act, NULL);
  sigaction(SIGINT, &act, NULL);
  /* A parent that died before this call is noticed through stdin. */
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) fail(EXIT_CUDA, "PR_SET_PDEATHSIG: %s", strerror(errno));
}

/* ended waits for the end of stdin or a signal, for as long as `limit` says (NULL: for ever), and reports whether one has
 * come. The signals are blocked outside ppoll, so that none is lost between a check and the wait. */
static inline int ended(const sigset_t *unblocked, const struct timespec *limit) {
  char discard[256];
  while (!stopped) {
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    int ready = ppoll(&in, 1, limit, unblocked);
    if (ready == 0) return 0;
    if (ready < 0 && errno != EINTR) fail(EXIT_CUDA, "wait for the end of stdin: %s", strerror(errno));
    if (ready < 0) continue;
    ssize_t n = read(STDIN_FILENO, discard, sizeof discard);
    if (n == 0 || (n < 0 && errno != EINTR)) break;
  }
  return 1;
}

static inline int parse_number(const char *s, uint64_t *out) {
  char *end;
  if (*s < '0' || *s > '9') return 0;
  errno = 0;
  *out = strtoull(s, &end, 10);
  return errno == 0 && *end == '\0';
}

#endif
