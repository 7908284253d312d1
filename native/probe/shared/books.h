/* books.h: the decisions of schedGPU's clients, as a function of the books alone. No function here
 * makes a system call, waits or looks at a clock. The caller holds the lock. */
#ifndef CASE_SHARED_BOOKS_H
#define CASE_SHARED_BOOKS_H

#include <stdbool.h>

#include "state.h"

/* books_sum is the checksum of `size` bytes, a multiple of 8. */
uint64_t books_sum(const void *from, size_t size);
uint64_t books_config_checksum(const struct case_shared_config *config);
uint64_t books_checksum(const struct case_shared_books *books);

/* books_config_valid and books_valid say whether this library can have written the argument. */
bool books_config_valid(const struct case_shared_config *config);
bool books_valid(const struct case_shared_config *config, const struct case_shared_books *books);

bool books_same(const struct case_shared_process *a, const struct case_shared_process *b);

/* books_holding is what a client has on a device, or NULL if it was never granted the device. */
struct case_shared_holding *books_holding(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint32_t device);

/* books_ask appends a request, gives it an id and returns it. NULL: the books have no room for another
 * request. */
struct case_shared_request *books_ask(struct case_shared_books *books, const struct case_shared_request *request);

/* books_request is a request of this client, or NULL. */
struct case_shared_request *books_request(struct case_shared_books *books, const struct case_shared_process *process,
                                       uint64_t id);
void books_withdraw(struct case_shared_books *books, struct case_shared_request *request);

/* books_forget takes out all that a client has and asks for. */
void books_forget(struct case_shared_books *books, const struct case_shared_process *process);

/* books_grant answers each request that can be granted now, by the policy. It refuses nobody, and
 * returns whether the clients of a device are in deadlock. */
bool books_grant(const struct case_shared_config *config, struct case_shared_books *books);

/* books_settle does the same. It also refuses requests that have waited as long as they may, and
 * the last request of a device whose clients are in deadlock. The caller has first looked for dead
 * clients, because nobody may be refused for what a dead client holds. */
void books_settle(const struct case_shared_config *config, struct case_shared_books *books, uint64_t now_ns);

#endif
