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

/* device returns a device of processors. */
static inline ivm_dev device(long number)
{
	ivm_dev dev;

	must("create_dev", ivm_create_dev(NULL, IVM_CPU, (int)number, &dev));
	return dev;
}

#endif
