/* books.h: the decisions of schedGPU's clients, as a function of the books alone. Nothing
 * here makes a system call, waits or looks at a clock: who calls holds the lock. */
#ifndef CASE_SHARED_BOOKS_H
#define CASE_SHARED_BOOKS_H

#include <stdbool.h>

#include "state.h"

/* checksum_words is that of `size` bytes, a multiple of 8. */
uint64_t checksum_words(const void *from, size_t size);
uint64_t config_checksum(const struct case_shared_config *config);
uint64_t books_checksum(const struct case_shared_books *books);

/* config_valid and books_valid say whether these can have been written by this library. */
bool config_valid(const struct case_shared_config *config);
bool books_valid(const struct case_shared_config *config, const struct case_shared_books *books);

bool same_process(const struct case_shared_process *a, const struct case_shared_process *b);

/* holding_of is what a client has on a device, or NULL where it has not been granted it. */
struct case_shared_holding *holding_of(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint32_t device);

/* free_bytes of a device; negative where clients that were lost to the books hold more
 * than there is. */
int64_t free_bytes(const struct case_shared_config *config, const struct case_shared_books *books, uint32_t device);

/* ask appends a request, whose id is at least from_id, and returns it. NULL: there are as
 * many already as there may be. */
struct case_shared_request *ask(struct case_shared_books *books, const struct case_shared_request *request,
                                uint64_t from_id);

/* request_of is a request of this client, or NULL. */
struct case_shared_request *request_of(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint64_t id);
void withdraw(struct case_shared_books *books, struct case_shared_request *request);

/* forget takes out all that a client has and asks for. */
void forget(struct case_shared_books *books, const struct case_shared_process *process);

/* grant_all answers each request that can be granted now, by the policy. */
void grant_all(const struct case_shared_config *config, struct case_shared_books *books);

/* settle does the same, refuses what has waited as long as it may, and, where a device's
 * clients all wait for each other, the request that came last. */
void settle(const struct case_shared_config *config, struct case_shared_books *books, uint64_t now_ns);

#endif
