/*
 * A libnvidia-ml.so.1 for tests: FAKE_GPUS idle devices (default 4) that the
 * driver lists in the reverse of PCI bus order. In PCI bus order device N has the
 * UUID GPU-N0000000-0000-0000-0000-000000000000, N a digit, 16 GiB, compute
 * capability 9.0 and 132 SMs.
 *
 * Declared here and not included, so that it builds without a driver: nvml.h's
 * ABI is stable, and a version's suffix is part of the symbol. go-nvml asks
 * whether a later version of a symbol exists before it uses one.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3 };

typedef uintptr_t Device; /* place in PCI bus order, from 1: a handle is not NULL */

typedef struct {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} PciInfo;

typedef struct {
  unsigned long long total, free, used;
} Memory;

static unsigned gpus(void) {
  const char *n = getenv("FAKE_GPUS");
  return n ? (unsigned)atoi(n) : 4;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }

const char *nvmlErrorString(int code) {
  (void)code;
  return "the fake's error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  snprintf(out, size, "fake");
  return SUCCESS;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
  snprintf(out, size, "fake");
  return SUCCESS;
}

int nvmlSystemGetCudaDriverVersion_v2(int *out) {
  *out = 13000;
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
  *out = gpus();
  return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *out) {
  if (index >= gpus()) return INVALID_ARGUMENT;
  *out = gpus() - index;
  return SUCCESS;
}

int nvmlDeviceGetUUID(Device d, char *out, unsigned size) {
  snprintf(out, size, "GPU-%u0000000-0000-0000-0000-000000000000", (unsigned)d - 1);
  return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(Device d, PciInfo *out) {
  *out = (PciInfo){.bus = (unsigned)d};
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", (unsigned)d);
  return SUCCESS;
}

int nvmlDeviceGetName(Device d, char *out, unsigned size) {
  (void)d;
  snprintf(out, size, "Fake GPU");
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(Device d, Memory *out) {
  (void)d;
  *out = (Memory){.total = 16ULL << 30, .free = 16ULL << 30};
  return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(Device d, int *major, int *minor) {
  (void)d;
  *major = 9;
  *minor = 0;
  return SUCCESS;
}

int nvmlDeviceGetNumGpuCores(Device d, unsigned *out) {
  (void)d;
  *out = 132 * 128;
  return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses(Device d, unsigned *count, void *out) {
  (void)d;
  (void)out;
  *count = 0;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(Device d, void *out) {
  (void)d;
  (void)out;
  return NOT_SUPPORTED;
}

int nvmlDeviceGetSamples(Device d, int kind, unsigned long long since, int *type, unsigned *count, void *out) {
  (void)d, (void)kind, (void)since, (void)type, (void)count, (void)out;
  return NOT_SUPPORTED;
}
