/* gpus.c: see node.h. The node's GPUs are those that ivmd's CUDA_VISIBLE_DEVICES lists, in its order, or else all that NVML knows. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

enum { MOST_GPUS = 64, NAME = 96 }; /* NVML needs this much room for a UUID */

static char names[MOST_GPUS][NAME]; /* as CUDA_VISIBLE_DEVICES has them: numbers or UUIDs */
static int count = -1;              /* nobody has asked */

static void read_list(const char *list)
{
	while (*list != '\0' && count < MOST_GPUS) {
		const size_t length = strcspn(list, ",");
		snprintf(names[count++], NAME, "%.*s", (int)length, list);
		list += length + (list[length] == ',');
	}
}

/* ask_nvml leaves the list empty where there is no NVML. CUDA may count GPUs in another order, so they are listed by UUID. */
static void ask_nvml(void)
{
	void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	int (*init)(void), (*get_count)(unsigned *), (*get_device)(unsigned, void **), (*get_uuid)(void *, char *, unsigned), (*end)(void);
	unsigned found = 0;
	void *device;

	if (nvml == NULL)
		return;
	*(void **)&init = dlsym(nvml, "nvmlInit_v2");
	*(void **)&get_count = dlsym(nvml, "nvmlDeviceGetCount_v2");
	*(void **)&get_device = dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
	*(void **)&get_uuid = dlsym(nvml, "nvmlDeviceGetUUID");
	*(void **)&end = dlsym(nvml, "nvmlShutdown");
	if (init != NULL && get_count != NULL && get_device != NULL && get_uuid != NULL && end != NULL && init() == 0) {
		if (get_count(&found) == 0)
			while ((unsigned)count < found && count < MOST_GPUS && get_device((unsigned)count, &device) == 0 && get_uuid(device, names[count], NAME) == 0)
				count++;
		end();
	}
	dlclose(nvml);
}

/* add adds a name to a list unless it is there. */
static void add(char *list, const char *name)
{
	const size_t length = strlen(name);

	for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',')
		if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
			return;
	stpcpy(stpcpy(list + strlen(list), *list != '\0' ? "," : ""), name);
}

int gpus_count(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	if (count >= 0)
		return count;
	count = 0;
	if (visible != NULL)
		read_list(visible);
	else
		ask_nvml();
	return count;
}

const char *gpus_seen_from(int number)
{
	static char list[MOST_GPUS * (NAME + 1)];

	if (number == NO_GPU && getenv("CUDA_VISIBLE_DEVICES") == NULL)
		return NULL;
	gpus_count();
	if (number != NO_GPU && (number < 0 || number >= count))
		return NULL;
	list[0] = '\0';
	if (number != NO_GPU)
		add(list, names[number]);
	for (int i = 0; i < count; i++)
		add(list, names[i]);
	return list;
}
