/* hosts.h: the names of an application's nodes, for devices that are spread over them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* host_of returns the name of a node: nodes take turns. It lasts until the next call. */
static inline const char *host_of(int i)
{
	static char name[256];
	const char *names = getenv("IVM_HOSTS");
	int count = 1;

	if (names == NULL)
		return gethostname(name, sizeof name) == 0 ? name : NULL;
	for (const char *p = names; *p != '\0'; p++)
		count += *p == ',';
	for (i %= count; i > 0; i--)
		names = strchr(names, ',') + 1;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(names, ","), names);
	return name;
}
