/* client.h: what schedgpu.c needs of the library beside the task API. */
#ifndef CASE_CLIENT_H
#define CASE_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* case_client makes this process a client of whoever decides here: the environment says
 * who, or it is the clients of the state file `file`, which is made where there is none.
 * false: nobody does; the reason is on stderr. */
bool case_client(const char *file);

/* The lazy runtime's, where it is linked in: it accounts for what the program allocates,
 * which draws from what was pre-allocated. lazy_accounts: it does so in this process. */
#define CASE_WEAK __attribute__((weak, visibility("hidden")))
CASE_WEAK bool lazy_accounts(void);
CASE_WEAK int lazy_pre_allocate(uint64_t bytes, int device, uint32_t wait_ms);
CASE_WEAK int lazy_post_free(uint64_t bytes, int device);

#ifdef __cplusplus
}
#endif
#endif
