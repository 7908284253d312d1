// serving.cc: see serving.h.
#include <pthread.h>
#include <stdlib.h>

#include "device.h"
#include "serving.h"

namespace lazy {
namespace {

pthread_mutex_t calling = PTHREAD_MUTEX_INITIALIZER; // is held while the thread serves, but for its waits for the scheduler
bool exiting = false;
thread_local bool serving = false;

void end()
{
	pthread_mutex_lock(&calling);
	exiting = true;
	pthread_mutex_unlock(&calling);
}

// begin returns whether the process exits. The handler is registered when there is a context, and so after those of the CUDA runtime: it
// runs before them.
bool begin()
{
	static bool registered = false;

	if (!registered && context_of_task() != nullptr)
		registered = atexit(end) == 0;
	pthread_mutex_lock(&calling);
	serving = true;
	return exiting || (!registered && context_of_task() != nullptr);
}

} // namespace

Serving::Serving() : exits(begin()) {}

Serving::~Serving()
{
	serving = false;
	pthread_mutex_unlock(&calling);
}

AwaitsScheduler::AwaitsScheduler() : serving_(serving)
{
	if (serving_)
		pthread_mutex_unlock(&calling);
}

AwaitsScheduler::~AwaitsScheduler()
{
	if (serving_)
		pthread_mutex_lock(&calling);
}

void renew_serving()
{
	calling = PTHREAD_MUTEX_INITIALIZER;
	exiting = false;
}

} // namespace lazy
