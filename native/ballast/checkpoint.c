/*
 * checkpoint out LIMIT_MS PID...   takes all that the processes have on GPUs to the host
 * checkpoint in PID...             brings it back
 * checkpoint try DEVICE            does both to a process of its own; DEVICE is as in ballast.c
 *
 * By cuCheckpointProcess*, which drivers have since CUDA 12.8. Nothing is held by this program: a process stays in the
 * state that it was brought to, and `in` continues from any state. PIDs that do not use CUDA are left alone.
 *
 * One line of JSON goes to stdout:
 *   {"outcome":"done","lock_s":L,"copy_s":C}   L: until the GPUs had ended what was submitted
 *   {"outcome":"busy","why":"..."}             not now. Of out: no process uses CUDA. Of in: a GPU has not enough free memory
 *   {"outcome":"unable","why":"..."}           of out: work did not end within the limit (0: no limit), or the driver
 *                                              cannot checkpoint a process. All of them run as before
 * try adds "back_s" and "whole": the memory has its contents again.
 *
 * Exit status: 0 it has said one of these; 2 usage; 4 CUDA failed, and processes may be blocked; 5 no CUDA driver or
 * no such device; 6 the driver cannot do it.
 */
#define PROGRAM "checkpoint"
#include "hold.h"

#include <sys/wait.h>
#include <time.h>

enum { CUDA_ERROR_NOT_READY = 600, CUDA_ERROR_NOT_SUPPORTED = 801 };

/* CUprocessState */
enum { RUNNING, LOCKED, CHECKPOINTED };

struct lock_args { /* CUcheckpointLockArgs */
  unsigned timeout_ms, reserved;
  uint64_t more[7];
};

static struct {
  CUresult (*get_state)(int pid, int *state);
  CUresult (*lock)(int pid, struct lock_args *args);
  CUresult (*checkpoint)(int pid, void *args);
  CUresult (*restore)(int pid, void *args);
  CUresult (*unlock)(int pid, void *args);
} cu;

static const struct symbol symbols[] = {
    {"cuCheckpointProcessGetState", &cu.get_state}, {"cuCheckpointProcessLock", &cu.lock},
    {"cuCheckpointProcessCheckpoint", &cu.checkpoint}, {"cuCheckpointProcessRestore", &cu.restore},
    {"cuCheckpointProcessUnlock", &cu.unlock},
};

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* answer says why something is not done. */
static void answer(const char *outcome, const char *why) { printf("{\"outcome\":\"%s\",\"why\":\"%s\"}\n", outcome, why); }

static const char *reason(const char *call, CUresult r, unsigned limit_ms) {
  static char text[160];
  if (r == CUDA_ERROR_NOT_READY)
    snprintf(text, sizeof text, "work that it had given the GPU did not end within %g s", limit_ms / 1e3);
  else if (r == CUDA_ERROR_NOT_SUPPORTED)
    snprintf(text, sizeof text, "the driver cannot checkpoint it: it has managed memory, memory of other processes, or MPS");
  else
    snprintf(text, sizeof text, "%s: %s (%d)", call, error_name(r), r);
  return text;
}

static void must_do(CUresult (*call)(int pid, void *args), const char *name, int pid) {
  const CUresult r = call(pid, NULL);
  if (r != CUDA_SUCCESS) fail(EXIT_CUDA, "%s of process %d, which stays blocked: %s (%d)", name, pid, error_name(r), r);
}

/* undo lets the first of the processes go on; the first `saved` of them have nothing on a GPU. */
static void undo(const int *pids, int locked, int saved) {
  for (int i = 0; i < saved; i++) must_do(cu.restore, "cuCheckpointProcessRestore", pids[i]);
  for (int i = 0; i < locked; i++) must_do(cu.unlock, "cuCheckpointProcessUnlock", pids[i]);
}

/* take_out reports whether the processes have nothing on GPUs any more. Else it says why. */
static int take_out(const int *pids, int count, unsigned limit_ms, double *lock_s, double *copy_s) {
  const double began = seconds();
  for (int i = 0; i < count; i++) {
    struct lock_args args = {.timeout_ms = limit_ms};
    const CUresult r = cu.lock(pids[i], &args);
    if (r == CUDA_SUCCESS) continue;
    undo(pids, i, 0);
    answer("unable", reason("cuCheckpointProcessLock", r, limit_ms));
    return 0;
  }
  *lock_s = seconds() - began;
  for (int i = 0; i < count; i++) {
    const CUresult r = cu.checkpoint(pids[i], NULL);
    if (r == CUDA_SUCCESS) continue;
    undo(pids, count, i);
    answer("unable", reason("cuCheckpointProcessCheckpoint", r, limit_ms));
    return 0;
  }
  *copy_s = seconds() - began - *lock_s;
  return 1;
}

/* bring_back reports whether the processes run again. Else a GPU lacks memory, and the next call continues. */
static int bring_back(const int *pids, int count) {
  int state;
  for (int i = 0; i < count; i++) {
    if (cu.get_state(pids[i], &state) != CUDA_SUCCESS || state != CHECKPOINTED) continue;
    const CUresult r = cu.restore(pids[i], NULL);
    if (r == CUDA_ERROR_OUT_OF_MEMORY) return 0;
    if (r != CUDA_SUCCESS) fail(EXIT_CUDA, "cuCheckpointProcessRestore of process %d, which stays blocked: %s (%d)", pids[i], error_name(r), r);
  }
  for (int i = 0; i < count; i++)
    if (cu.get_state(pids[i], &state) == CUDA_SUCCESS && state == LOCKED) must_do(cu.unlock, "cuCheckpointProcessUnlock", pids[i]);
  return 1;
}

static int out(unsigned limit_ms, int *pids, int count) {
  int users = 0, state;
  double lock_s, copy_s;
  for (int i = 0; i < count; i++)
    if (cu.get_state(pids[i], &state) == CUDA_SUCCESS && state == RUNNING) pids[users++] = pids[i];
  if (users == 0)
    answer("busy", "it does not use CUDA yet");
  else if (take_out(pids, users, limit_ms, &lock_s, &copy_s))
    printf("{\"outcome\":\"done\",\"lock_s\":%f,\"copy_s\":%f}\n", lock_s, copy_s);
  return 0;
}

static int in(const int *pids, int count) {
  const double began = seconds();
  if (bring_back(pids, count))
    printf("{\"outcome\":\"done\",\"copy_s\":%f}\n", seconds() - began);
  else
    answer("busy", "its GPU has not enough free memory");
  return 0;
}

/* What the process of try has on the GPU, in words of 4 bytes. */
enum { WORDS = 1 << 20, WORD = 0x5eed };

/* subject is that process. It says through `up` that it is ready, and checks its memory when `down` ends. */
static int subject(const char *named, int up, int down) {
  CUresult (*device_get)(CUdevice *device, int ordinal), (*retain)(void **context, CUdevice device), (*set_current)(void *context);
  CUresult (*allocate)(unsigned long long *at, size_t bytes), (*fill)(unsigned long long at, unsigned value, size_t count);
  CUresult (*copy)(void *to, unsigned long long from, size_t bytes);
  const struct symbol used[] = {{"cuDeviceGet", &device_get}, {"cuDevicePrimaryCtxRetain", &retain}, {"cuCtxSetCurrent", &set_current},
                                {"cuMemAlloc_v2", &allocate}, {"cuMemsetD32_v2", &fill}, {"cuMemcpyDtoH_v2", &copy}};
  CUdevice device;
  void *context;
  unsigned long long at;
  char ready = 0;
  uint64_t ordinal = 0; /* a device that is named by its UUID is the only one that is shown */
  unsigned *back = malloc(WORDS * sizeof *back);
  if (!is_uuid(named) && (!parse_number(named, &ordinal) || ordinal > INT32_MAX)) fail(EXIT_USAGE, "%s: no device", named);
  load_driver(used, sizeof used / sizeof *used, named);
  must(device_get(&device, (int)ordinal), "cuDeviceGet", NULL);
  must(retain(&context, device), "cuDevicePrimaryCtxRetain", NULL);
  must(set_current(context), "cuCtxSetCurrent", NULL);
  must(allocate(&at, WORDS * sizeof *back), "cuMemAlloc", NULL);
  must(fill(at, WORD, WORDS), "cuMemsetD32", NULL);
  if (!back || write(up, &ready, 1) != 1 || read(down, &ready, 1) != 0) return EXIT_CUDA;
  must(copy(back, at, WORDS * sizeof *back), "cuMemcpyDtoH", NULL);
  for (size_t i = 0; i < WORDS; i++)
    if (back[i] != WORD) return EXIT_NO_ROOM;
  return 0;
}

/* try makes the process before the driver is loaded, because CUDA does not survive fork. */
static int try(const char *device) {
  int up[2], down[2], status;
  char ready;
  double lock_s, copy_s;
  if (pipe(up) || pipe(down)) fail(EXIT_CUDA, "pipe: %s", strerror(errno));
  const int pid = fork();
  if (pid < 0) fail(EXIT_CUDA, "fork: %s", strerror(errno));
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(down[1]);
    _exit(subject(device, up[1], down[0]));
  }
  close(up[1]);
  load_driver(symbols, sizeof symbols / sizeof *symbols, "");
  if (read(up[0], &ready, 1) != 1) {
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CUDA; /* it has said why */
  }
  if (!take_out(&pid, 1, 10000, &lock_s, &copy_s)) return 0;
  const double saved = seconds();
  if (!bring_back(&pid, 1)) fail(EXIT_CUDA, "cuCheckpointProcessRestore: the GPU has not enough free memory");
  const double back_s = seconds() - saved;
  close(down[1]);
  waitpid(pid, &status, 0);
  printf("{\"outcome\":\"done\",\"lock_s\":%f,\"copy_s\":%f,\"back_s\":%f,\"whole\":%s}\n", lock_s, copy_s, back_s, status == 0 ? "true" : "false");
  return 0;
}

int main(int argc, char **argv) {
  static const char usage[] = "usage: checkpoint out LIMIT_MS PID... | in PID... | try DEVICE";
  const int count = argc - 2;
  int *pids = calloc((size_t)argc, sizeof *pids);
  if (count < 1 || !pids) fail(EXIT_USAGE, "%s", usage);
  if (strcmp(argv[1], "try") == 0 && count == 1) return try(argv[2]);
  for (int i = 0; i < count; i++) {
    uint64_t number;
    if (!parse_number(argv[i + 2], &number) || number > INT32_MAX) fail(EXIT_USAGE, "%s: not a number. %s", argv[i + 2], usage);
    pids[i] = (int)number;
  }
  const int outwards = strcmp(argv[1], "out") == 0 && count > 1;
  if (!outwards && strcmp(argv[1], "in") != 0) fail(EXIT_USAGE, "%s", usage);
  load_driver(symbols, sizeof symbols / sizeof *symbols, "");
  return outwards ? out((unsigned)pids[0], pids + 1, count - 1) : in(pids, count);
}
