/* gpu.h: copies on GPUs, in a PE. CUDA's driver is loaded when one is needed. Calls return 0 or a negative errno value: -ENODEV if the process
 * has no such GPU or no driver, -ENOMEM, or -EIO for another error of the driver, which a line on stderr names. */
#ifndef IVM_GPU_H
#define IVM_GPU_H

#include <stdbool.h>
#include <stddef.h>

/* An address, and the GPU whose memory it is, as the process counts GPUs, or HOST. */
struct place {
	char *at;
	int gpu;
};

enum { HOST = -1 };

/* gpu_make makes a copy of zeros on the PE's own GPU and maps it. It also stores a descriptor of the copy. */
int gpu_make(size_t bytes, struct place *copy, int *file);

/* gpu_map maps a copy by its descriptor. The process gets a context on the copy's GPU. Other PEs have other addresses for it. */
int gpu_map(int file, size_t bytes, struct place *copy);

/* gpu_unmap unmaps a copy of so many bytes. */
void gpu_unmap(const struct place *copy, size_t bytes);

/* gpu_copy copies bytes, after what the default streams of the GPUs have to do. At least one place is on a GPU. */
int gpu_copy(struct place to, struct place from, size_t bytes);

/* gpu_pin registers memory of the host with CUDA, if it can, so that GPUs copy it without staging. It reports whether it has. */
bool gpu_pin(char *at, size_t bytes, int gpu);
void gpu_unpin(char *at, int gpu);

#endif
