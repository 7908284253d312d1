// seems.cc: see seems.h.
//
// Frameworks take a fraction of what is free, or of the total. The driver's numbers are those of the whole device, where
// a run may have a limit, and others have been granted what they have not allocated yet.
#include "seems.h"

#include <algorithm>

#include "device/device.h"
#include "probe/client.h"
#include "program/mode.h"
#include "revoke.h"
#include "task.h"

namespace lazy {

size_t seems(size_t total) { return room().seems > 0 ? std::min<size_t>(total, room().seems) : total; }

void await_seems(const Task &task, size_t *free, size_t *total)
{
	const int device = one_device() ? scheduled() : task.device();
	const uint64_t held = task.charged(), most = room().device > 0 ? std::min<uint64_t>(*total, room().device) : *total;
	const uint64_t beside = most > held ? most - held : 0;
	uint64_t more = 0;

	*total = seems(*total);
	if (can_be_revoked()) { // others give way
		*free = beside;
		return;
	}
	if (room().device == 0)
		return;
	*free = std::min<uint64_t>(*free, beside);
	if (device >= 0 && client_await_room(device, &more))
		*free = std::min<uint64_t>(*free, more + task.granted_unused());
}

} // namespace lazy
