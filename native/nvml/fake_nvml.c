/*
 * A libnvidia-ml.so.1 for tests: FAKE_GPUS idle devices (default 4) that the
 * driver lists in the reverse of PCI bus order. In PCI bus order device N has the
 * UUID GPU-N0000000-0000-0000-0000-000000000000, N a digit, 16 GiB, compute
 * capability 9.0 and 132 SMs.
 *
 * Built with OF_FAKE_CUDA its devices are those of the fake CUDA driver
 * (native/fake): FAKE_CUDA_DEVICES devices of FAKE_CUDA_MEMORY bytes each,
 * with the same UUIDs and defaults, in PCI bus order.
 *
 * FAKE_MIG is how many of the first devices are instances of MIG, of one GPU that comes
 * first on the bus. Their UUIDs begin with MIG- instead of GPU-. FAKE_NVML_MIG_GONE is one
 * of them, counted from 0, that is destroyed, with FAKE_NVML_MIG_GONE_WHEN once that file is
 * there. FAKE_NVML_MIG_DENIED is one that the process may not use.
 *
 * FAKE_NVML_FAIL is an error that the count of devices answers.
 *
 * FAKE_NVML_LOST is a device, counted from 0 in PCI bus order, that has fallen off
 * the bus: each call that concerns it fails with GPU_IS_LOST. With
 * FAKE_NVML_LOST_WHEN it is lost once that file is there.
 *
 * FAKE_NVML_HANGS is a device whose calls do not return any more, once the file
 * FAKE_NVML_HANGS_WHEN is there.
 *
 * FAKE_NVML_HANGS_IN is a function without a device that does not return, such as
 * nvmlShutdown; with FAKE_NVML_HANGS_WHEN once that file is there.
 *
 * FAKE_NVML_SAME_UUID, if set, gives all devices one UUID.
 *
 * FAKE_NVML_PROCESSES is a file of processes with contexts, a device and a PID in
 * each line, and each process uses 1 MiB. Or it is a directory, in which each
 * process of the fake CUDA driver keeps a file, named by its PID, with a device and
 * the bytes that it uses in each line. Without either the fakes do not tell.
 *
 * FAKE_NVML_ODD is a list of what answers numbers that cannot be, as drivers do
 * around resets: rates (utilization), memory (in use), samples (the driver's own),
 * buffer (how many of these), processes (how many), devices (how many),
 * cores, capability, texts (of driver and device), clock, energy, watts. The meters
 * of the last two must be there. In a list with the word once, only every second
 * answer is so.
 *
 * FAKE_METER gives the devices meters, of 100 W for device 0, 200 W for device 1,
 * and so on. It is a list of the words counter (of energy), power (its mean over a
 * second) and instant (power as a field value). fails makes what is listed fail
 * from the second call on with GPU_IS_LOST, and falls makes the counter begin
 * again from 0 at the second call.
 *
 * Declared here and not included, so that it builds without a driver: nvml.h's
 * ABI is stable, and a version's suffix is part of the symbol. go-nvml asks
 * whether a later version of a symbol exists before it uses one.
 */
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15 };
enum { FI_DEV_POWER_INSTANT = 186, VALUE_TYPE_UNSIGNED_INT = 1 };

typedef uintptr_t Device; /* place in PCI bus order, from 1: a handle is not NULL. Instances come first */
static const Device split = 0x100; /* the GPU that has the instances */

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

typedef struct {
  unsigned long long total, free, used;
} Memory;

static unsigned long long setting(const char *name, unsigned long long otherwise) {
  const char *value = getenv(name);
  return value ? strtoull(value, NULL, 10) : otherwise;
}

static int odd(const char *word) {
  static unsigned calls;
  const char *list = getenv("FAKE_NVML_ODD");

  if (list == NULL || strstr(list, word) == NULL) return 0;
  return strstr(list, "once") == NULL || __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) % 2 == 1;
}

/* off says whether a device is off the bus. */
static int off(Device d) {
  const char *number = getenv("FAKE_NVML_LOST"), *when = getenv("FAKE_NVML_LOST_WHEN");

  return number != NULL && (Device)atoi(number) + 1 == d && (when == NULL || access(when, F_OK) == 0);
}

/* gone says whether an instance is destroyed. */
static int gone(Device d) {
  const char *number = getenv("FAKE_NVML_MIG_GONE"), *when = getenv("FAKE_NVML_MIG_GONE_WHEN");

  return number != NULL && (Device)atoi(number) + 1 == d && (when == NULL || access(when, F_OK) == 0);
}

/* denied says whether the process may not use an instance. */
static int denied(Device d) {
  const char *number = getenv("FAKE_NVML_MIG_DENIED");

  return number != NULL && (Device)atoi(number) + 1 == d;
}

/* stuck does not return if the device's calls hang. */
static void stuck(Device d) {
  const char *number = getenv("FAKE_NVML_HANGS"), *when = getenv("FAKE_NVML_HANGS_WHEN");

  if (number == NULL || (Device)atoi(number) + 1 != d || when == NULL || access(when, F_OK) != 0) return;
  for (;;) pause();
}

/* hangs does not return if this function is the one that hangs. */
static void hangs(const char *name) {
  const char *hung = getenv("FAKE_NVML_HANGS_IN"), *when = getenv("FAKE_NVML_HANGS_WHEN");

  if (hung == NULL || strcmp(name, hung) != 0 || (when != NULL && access(when, F_OK) != 0)) return;
  for (;;) pause();
}
#define NEEDS(d) \
  do { \
    stuck(d); \
    if (off(d)) return GPU_IS_LOST; \
    if (gone(d)) return INVALID_ARGUMENT; \
    if (denied(d)) return NO_PERMISSION; \
  } while (0)

/* place is a device's place in PCI bus order, from 1, by NVML's index, and the other way round. */
#ifdef OF_FAKE_CUDA
static unsigned devices(void) { return (unsigned)setting("FAKE_CUDA_DEVICES", 2); }
static unsigned long long memory(void) { return setting("FAKE_CUDA_MEMORY", 1 << 30); }
enum { reversed = 0 };
#define SPLIT 0xee
#define UUID "%s-ca5e0000-0000-0000-0000-0000000000%02x"
#else
static unsigned devices(void) { return (unsigned)setting("FAKE_GPUS", 4); }
static unsigned long long memory(void) { return 16ULL << 30; }
enum { reversed = 1 };
#define SPLIT 9
#define UUID "%s-%u0000000-0000-0000-0000-000000000000"
#endif

static unsigned instances(void) {
  unsigned long long wanted = setting("FAKE_MIG", 0);
  return wanted < devices() ? (unsigned)wanted : devices();
}
static int is_instance(Device d) { return d <= instances(); }

/* gpus is how many GPUs there are: one that is split, if there are instances, and those that are whole. */
static unsigned gpus(void) { return devices() - instances() + (instances() > 0); }

static Device place(unsigned index) {
  unsigned nth = reversed ? gpus() - 1 - index : index;
  return instances() == 0 ? nth + 1 : nth == 0 ? split : instances() + nth;
}

static unsigned index_at(Device d) {
  unsigned nth = instances() == 0 ? (unsigned)d - 1 : d == split || is_instance(d) ? 0 : (unsigned)d - instances();
  return reversed ? gpus() - 1 - nth : nth;
}

int nvmlInit_v2(void) {
  hangs(__func__);
  return SUCCESS;
}

int nvmlShutdown(void) {
  hangs(__func__);
  return SUCCESS;
}

/* text writes a text of the driver. An odd one is neither UTF-8 nor one line. */
static int text(char *out, unsigned size, const char *fine) {
  snprintf(out, size, "%s%s", fine, odd("texts") ? "\xff\n\033[31m" : "");
  return SUCCESS;
}

const char *nvmlErrorString(int code) {
  (void)code;
  return "the fake's error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  hangs(__func__);
  return text(out, size, "fake");
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
  hangs(__func__);
  return text(out, size, "fake");
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
  hangs(__func__);
  *out = 13000;
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
  int error = (int)setting("FAKE_NVML_FAIL", SUCCESS);
  hangs(__func__);
  if (error == SUCCESS) *out = odd("devices") ? ~0U : gpus();
  return error;
}

int nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
  if (index >= gpus()) return INVALID_ARGUMENT;
  NEEDS(place(index));
  *out = place(index);
  return SUCCESS;
}

int nvmlDeviceGetIndex(Device d, unsigned *out) {
  *out = index_at(d);
  return SUCCESS;
}

int nvmlDeviceGetUUID(Device d, char *out, unsigned size) {
  NEEDS(d);
  snprintf(out, size, UUID, is_instance(d) ? "MIG" : "GPU", d == split ? SPLIT : getenv("FAKE_NVML_SAME_UUID") != NULL ? 0 : (unsigned)d - 1);
  return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) {
  char of[48];
  for (*out = 1; *out <= devices(); ++*out) {
    if (nvmlDeviceGetUUID(*out, of, sizeof of) != SUCCESS) continue;
    if (strcmp(uuid, of) == 0) return SUCCESS;
  }
  return NOT_FOUND;
}

int nvmlDeviceGetPciInfo_v3(Device d, PciInfo *out) {
  NEEDS(d);
  unsigned bus = d == split || is_instance(d) ? 1 : (unsigned)d;
  *out = (PciInfo){.bus = bus};
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", bus);
  return SUCCESS;
}

int nvmlDeviceGetName(Device d, char *out, unsigned size) {
  NEEDS(d);
  return text(out, size, is_instance(d) ? "Fake GPU MIG 1g.2gb" : "Fake GPU");
}

int nvmlDeviceGetMemoryInfo(Device d, Memory *out) {
  NEEDS(d);
  *out = (Memory){.total = memory(), .free = memory()};
  if (odd("memory")) out->used = ~0ULL;
  return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
  NEEDS(d);
  *major = odd("capability") ? 99999 : 9;
  *minor = 0;
  return SUCCESS;
}

int nvmlDeviceGetNumGpuCores(Device d, unsigned *out) {
  NEEDS(d);
  if (is_instance(d)) return INVALID_ARGUMENT;
  *out = odd("cores") ? ~0U : 132 * 128;
  return SUCCESS;
}

int nvmlDeviceGetMigMode(Device d, unsigned *current, unsigned *pending) {
  NEEDS(d);
  *current = *pending = d == split;
  return is_instance(d) ? INVALID_ARGUMENT : SUCCESS;
}

/* Between two instances there may be a number that has none. */
int nvmlDeviceGetMaxMigDeviceCount(Device d, unsigned *out) {
  *out = d == split ? instances() + 1 : 7;
  return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device d, unsigned index, Device *out) {
  if (d != split || index >= instances() || gone(index + 1)) return NOT_FOUND;
  if (denied(index + 1)) return NO_PERMISSION;
  *out = index + 1;
  return SUCCESS;
}

int nvmlDeviceGetGpuInstanceId(Device d, unsigned *out) {
  NEEDS(d);
  *out = (unsigned)d + 6;
  return is_instance(d) ? SUCCESS : INVALID_ARGUMENT;
}

typedef struct {
  unsigned sms, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
  unsigned long long memory_mb;
} Attributes;

int nvmlDeviceGetAttributes_v2(Device d, Attributes *out) {
  NEEDS(d);
  if (!is_instance(d)) return NOT_SUPPORTED;
  *out = (Attributes){.sms = 16, .copy_engines = 1, .gpu_slices = 1, .compute_slices = 1, .memory_mb = memory() >> 20};
  return SUCCESS;
}

typedef struct {
  unsigned pid;
  unsigned long long used;
} Process;

/* used is what a process has on a device, as its file in a directory says; 0: nothing, or the process has ended. */
static unsigned long long used(const char *directory, const char *pid, Device d) {
  char path[4096];
  unsigned device;
  unsigned long long bytes = 0;
  FILE *file;

  if (kill((pid_t)atoi(pid), 0) != 0) return 0;
  snprintf(path, sizeof path, "%s/%s", directory, pid);
  if ((file = fopen(path, "r")) == NULL) return 0;
  while (fscanf(file, "%u %llu", &device, &bytes) == 2 && device + 1 != d) bytes = 0;
  fclose(file);
  return bytes;
}

int nvmlDeviceGetComputeRunningProcesses(Device d, unsigned *count, Process *out) {
  const char *path = getenv("FAKE_NVML_PROCESSES");
  FILE *file;
  DIR *directory;
  unsigned device, pid, found = 0, room = *count;

  NEEDS(d);
  if (odd("processes")) {
    *count = ~0U / 2;
    return INSUFFICIENT_SIZE;
  }
  *count = 0;
  if (path != NULL && (directory = opendir(path)) != NULL) {
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
      unsigned long long bytes = atoi(entry->d_name) > 0 ? used(path, entry->d_name, d) : 0;
      if (bytes > 0 && found++ < room) out[found - 1] = (Process){.pid = (unsigned)atoi(entry->d_name), .used = bytes};
    }
    closedir(directory);
    *count = found;
    return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
  }
  if (path == NULL || (file = fopen(path, "r")) == NULL) return SUCCESS;
  while (fscanf(file, "%u %u", &device, &pid) == 2)
    if (device + 1 == d && found++ < room) out[found - 1] = (Process){.pid = pid, .used = 1 << 20};
  fclose(file);
  *count = found;
  return found <= room ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetClockInfo(Device d, int type, unsigned *mhz) {
  (void)type;
  NEEDS(d);
  if (!odd("clock")) return NOT_SUPPORTED;
  *mhz = ~0U;
  return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(Device d, int type, unsigned *mhz) {
  (void)type;
  NEEDS(d);
  *mhz = odd("clock") ? ~0U : 1980;
  return SUCCESS;
}

/* The node has utilization only where it is odd, because a process that uses a device is not known. */
int nvmlDeviceGetUtilizationRates(Device d, unsigned out[2]) {
  const char *list = getenv("FAKE_NVML_ODD");

  NEEDS(d);
  if (list == NULL || strstr(list, "rates") == NULL) return NOT_SUPPORTED;
  out[0] = out[1] = odd("rates") ? ~0U : 40;
  return SUCCESS;
}

typedef struct {
  unsigned long long microseconds;
  unsigned value, rest;
} Sample;

/* Two samples of now, of which one is odd. */
int nvmlDeviceGetSamples(Device d, int kind, unsigned long long since, int *type, unsigned *count, Sample *out) {
  const char *list = getenv("FAKE_NVML_ODD");
  struct timespec now;

  (void)kind, (void)since;
  NEEDS(d);
  if (list == NULL || (strstr(list, "samples") == NULL && strstr(list, "buffer") == NULL)) return NOT_SUPPORTED;
  *type = VALUE_TYPE_UNSIGNED_INT;
  *count = odd("buffer") ? ~0U : 2;
  if (out == NULL) return SUCCESS;
  clock_gettime(CLOCK_REALTIME, &now);
  for (unsigned i = 0; i < 2; i++)
    out[i] = (Sample){.microseconds = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000 - 1 + i, .value = i == 0 ? 250 : 60};
  return SUCCESS;
}

static int meter(const char *word) {
  const char *list = getenv("FAKE_METER");
  return list != NULL && strstr(list, word) != NULL;
}

/* lost counts a device's calls of one kind and says whether this one fails. */
static int lost(unsigned *calls, Device d) { return ++calls[d % 16] > 1 && meter("fails"); }

static unsigned watts(Device d) { return 100 * (unsigned)d; }

int nvmlDeviceGetTotalEnergyConsumption(Device d, unsigned long long *millijoules) {
  static unsigned calls[16];
  static unsigned long long fallen[16];
  struct timespec now;

  NEEDS(d);
  if (!meter("counter")) return NOT_SUPPORTED;
  if (lost(calls, d)) return GPU_IS_LOST;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *millijoules = (unsigned long long)(watts(d) * (1e3 * (double)now.tv_sec + (double)now.tv_nsec / 1e6));
  if (meter("falls") && calls[d % 16] == 2) fallen[d % 16] = *millijoules;
  *millijoules -= fallen[d % 16];
  if (odd("energy")) *millijoules = ~0ULL;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device d, unsigned *milliwatts) {
  static unsigned calls[16];

  NEEDS(d);
  if (!meter("power")) return NOT_SUPPORTED;
  if (lost(calls, d)) return GPU_IS_LOST;
  *milliwatts = odd("watts") ? ~0U : 1000 * watts(d);
  return SUCCESS;
}

typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type, result;
  union {
    double d;
    unsigned u;
  } value;
} FieldValue;

/* The instantaneous power is half a watt above the mean, which tells them apart. */
int nvmlDeviceGetFieldValues(Device d, int count, FieldValue *values) {
  NEEDS(d);
  for (int i = 0; i < count; i++) {
    int known = values[i].field == FI_DEV_POWER_INSTANT && meter("instant");

    values[i].type = VALUE_TYPE_UNSIGNED_INT;
    values[i].result = known ? SUCCESS : NOT_SUPPORTED;
    values[i].value.u = 1000 * watts(d) + 500;
  }
  return SUCCESS;
}
