/* api.c: a client of schedgpu.h that does what its standard input says, a line at a time,
 * and prints each result; runner/schedshm's tests speak to it.
 *
 *   init                     schedGPUInit
 *   pre BYTES DEVICE WAIT    preCudaMalloc; WAIT in milliseconds, 0 for the default, "none"
 *   post BYTES DEVICE        postCudaFree
 *   child BYTES DEVICE       in a child: postCudaFree of the parent's, then preCudaMalloc and
 *                            postCudaFree of so much: three results
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../schedgpu.h"

int main(void)
{
	char line[256], verb[16], wait_text[16];
	size_t bytes;
	int device;

	setvbuf(stdout, NULL, _IONBF, 0);
	while (fgets(line, sizeof line, stdin) != NULL) {
		const int words = sscanf(line, "%15s %zu %d %15s", verb, &bytes, &device, wait_text);
		if (words == 1 && strcmp(verb, "init") == 0)
			printf("%d\n", schedGPUInit());
		else if (words == 4 && strcmp(verb, "pre") == 0)
			printf("%d\n", preCudaMalloc(bytes, device, strcmp(wait_text, "none") == 0 ? SCHEDGPU_NO_WAIT : (unsigned)atoi(wait_text)));
		else if (words == 3 && strcmp(verb, "post") == 0)
			printf("%d\n", postCudaFree(bytes, device));
		else if (words == 3 && strcmp(verb, "child") == 0) {
			if (fork() == 0) {
				const int post = postCudaFree(bytes, device), pre = preCudaMalloc(bytes, device, SCHEDGPU_NO_WAIT);
				printf("%d %d %d\n", post, pre, postCudaFree(bytes, device));
				_exit(0);
			}
			wait(NULL);
		} else
			return 2;
	}
	return 0;
}
