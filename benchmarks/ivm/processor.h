/* processor.h: binds a process to a processor, so that a device of processors is one processor. */
#ifndef PROCESSOR_H
#define PROCESSOR_H

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define BIND_OPTION(bind) {"--bind", &(bind), 0, 0, "device D, or rank D, is processor D of those that it may use"}

/* bind_to binds the process. Numbers begin again where there are no more processors. */
static inline void bind_to(long number)
{
	cpu_set_t may, one;
	size_t cpu = 0;

	if (sched_getaffinity(0, sizeof may, &may) != 0) {
		perror("sched_getaffinity");
		exit(1);
	}
	for (number %= CPU_COUNT(&may); !CPU_ISSET(cpu, &may) || number-- > 0;)
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof one, &one) != 0) {
		perror("sched_setaffinity");
		exit(1);
	}
}

#endif
