/* devices.c: see devices.h. NVML makes no context, which would take memory of the device. It counts
 * the machine's devices whatever CUDA_VISIBLE_DEVICES says (section 3.1 of the paper). It is loaded
 * when it is needed, because the library depends on libc alone. */
#include "devices.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Of nvml.h, whose ABI is stable. */
struct pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, ids, subsystem;
	char bus_id[32];
};
struct memory {
	unsigned long long total, free, used;
};
struct nvml {
	int (*init)(void), (*shutdown)(void), (*handle)(unsigned, void **);
	int (*uuid)(void *, char *, unsigned), (*pci)(void *, struct pci *), (*memory)(void *, struct memory *);
};

/* What a context may take, as a run reserves it (docs/reference/live-runs.md, --context-reserve). */
static const uint64_t context_bytes = UINT64_C(576) << 20;

static bool load(struct nvml *nvml, void *library)
{
	const struct {
		const char *name;
		void **to;
	} functions[] = {
		{"nvmlInit_v2", (void **)&nvml->init},
		{"nvmlShutdown", (void **)&nvml->shutdown},
		{"nvmlDeviceGetHandleByIndex_v2", (void **)&nvml->handle},
		{"nvmlDeviceGetUUID", (void **)&nvml->uuid},
		{"nvmlDeviceGetPciInfo_v3", (void **)&nvml->pci},
		{"nvmlDeviceGetMemoryInfo", (void **)&nvml->memory},
	};

	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if ((*functions[i].to = dlsym(library, functions[i].name)) == NULL)
			return false;
	return true;
}

/* parse_uuid reads "GPU-00112233-4455-...". */
static void parse_uuid(const char *text, uint8_t uuid[16])
{
	unsigned byte;

	text = strchr(text, '-') != NULL ? strchr(text, '-') + 1 : text;
	for (int i = 0; i < 16 && sscanf(text, "%2x", &byte) == 1; i++) {
		uuid[i] = (uint8_t)byte;
		text += text[2] == '-' ? 3 : 2;
	}
}

static int read_device(const struct nvml *nvml, unsigned index, struct case_shared_device *device, char bus_id[32])
{
	void *handle;
	struct pci pci;
	struct memory memory;
	char uuid[96];
	int failed = nvml->handle(index, &handle);

	if (!failed)
		failed = nvml->uuid(handle, uuid, sizeof uuid);
	if (!failed)
		failed = nvml->pci(handle, &pci);
	if (!failed)
		failed = nvml->memory(handle, &memory);
	if (failed)
		return failed;
	*device = (struct case_shared_device){.capacity = memory.free, .context_bytes = context_bytes};
	parse_uuid(uuid, device->uuid);
	memcpy(bus_id, pci.bus_id, sizeof pci.bus_id);
	return 0;
}

/* read_all asks for one device after another, because the lazy runtime answers for NVML how many
 * there are (lazy/driver/nvml.cc). It returns NVML's answer for the last device. */
static int read_all(const struct nvml *nvml, struct case_shared_config *config)
{
	char bus_id[CASE_SHARED_DEVICES][32];
	int failed = 0;

	for (unsigned i = 0; i < CASE_SHARED_DEVICES; i++) {
		struct case_shared_device device = {.zero = 0};
		char id[32];
		unsigned at = i;
		if ((failed = read_device(nvml, i, &device, id)) != 0)
			break;
		for (; at > 0 && strncmp(id, bus_id[at - 1], sizeof id) < 0; at--) {
			config->device[at] = config->device[at - 1];
			memcpy(bus_id[at], bus_id[at - 1], sizeof id);
		}
		config->device[at] = device;
		memcpy(bus_id[at], id, sizeof id);
		config->devices = i + 1;
	}
	for (unsigned i = 0; i < config->devices; i++)
		config->device[i].ordinal = (int32_t)i;
	return failed;
}

bool shared_devices(struct case_shared_config *config, char *why, size_t why_size)
{
	struct nvml nvml;
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (library == NULL || !load(&nvml, library)) {
		snprintf(why, why_size, "the GPUs cannot be listed: %s", dlerror());
		return false;
	}
	int failed = nvml.init();
	if (!failed) {
		failed = read_all(&nvml, config);
		nvml.shutdown();
	}
	dlclose(library);
	if (config->devices == 0) {
		snprintf(why, why_size, "NVML finds no GPU: error %d", failed);
		return false;
	}
	return true;
}
