/* program.h: what the programs of IVM share: options, devices, and the end of a program whose call fails. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <ivm.h>

#include <unistd.h>

#include "options.h" /* read_options comes before ivm_enter */

/* must ends the PE, and so the application, if a call has failed. It returns the call's result. */
static inline int must(const char *call, int result)
{
	if (result >= 0)
		return result;
	fprintf(stderr, "ivm_%s: %s\n", call, ivm_error(result));
	_exit(1);
}

/* host_of stores the name of the node that has a device: nodes take turns. It returns the device's number on its node. */
static inline int host_of(long device, char host[256])
{
	const char *names = getenv("IVM_HOSTS");
	int count = 1;

	host[0] = '\0';
	for (const char *p = names; p != NULL && *p != '\0'; p++)
		count += *p == ',';
	for (long skip = device % count; names != NULL && skip > 0; skip--)
		names = strchr(names, ',') + 1;
	if (names != NULL)
		snprintf(host, 256, "%.*s", (int)strcspn(names, ","), names);
	return (int)(device / count);
}

static inline ivm_dev device_of(enum ivm_dev_type type, long number)
{
	char host[256];
	ivm_dev dev;
	const int own = host_of(number, host);

	must("create_dev", ivm_create_dev(host[0] != '\0' ? host : NULL, type, own, &dev));
	return dev;
}

/* device returns a device of processors. */
static inline ivm_dev device(long number) { return device_of(IVM_CPU, number); }

#endif
