/* library.h: functions of a library that is there with a GPU only. */
#ifndef LIBRARY_H
#define LIBRARY_H

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

/* function returns a function of a library, and ends the process if there is none. */
static inline void *function(const char *library, const char *name)
{
	void *opened = dlopen(library, RTLD_NOW), *found = opened != NULL ? dlsym(opened, name) : NULL;

	if (found == NULL) {
		fprintf(stderr, "%s has no %s: %s\n", library, name, dlerror());
		_exit(1);
	}
	return found;
}

/* succeeded ends the process if a call of such a library has failed. */
static inline void succeeded(const char *call, int error)
{
	if (error == 0)
		return;
	fprintf(stderr, "%s: error %d\n", call, error);
	_exit(1);
}

#endif
