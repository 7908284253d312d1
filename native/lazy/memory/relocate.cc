// relocate.cc: see relocate.h.
//
// New memory is mapped at windows first, where both devices reach it if they are peers. So one copy brings each chunk over. Where they
// are not peers, each goes through a chunk of the host. When all is copied, the new memory is mapped in the place of the old.
#include "relocate.h"

#include <algorithm>

#include "device/driver.h"
#include "copies.h"
#include "ranges.h"
#include "swap.h"

namespace lazy {

static bool reach(CUdeviceptr at, size_t bytes, int device)
{
	const CUmemAccessDesc access = {memory_on(device).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return driver()->set_access(at, bytes, &access, 1) == CUDA_SUCCESS;
}

Relocation::~Relocation()
{
	const Driver *d = driver();
	bool bare = windows_ != 0;

	for (size_t i = 0; i < made_; i++) {
		const Part &p = parts_[i];
		bare = d->unmap(p.window, p.bytes) == CUDA_SUCCESS && bare;
		d->release(put_ ? p.old : p.made);
	}
	if (bare)
		d->unreserve(windows_, bytes_);
}

bool Relocation::make(Part *p)
{
	const CUmemAllocationProp prop = memory_on(to_);
	const Driver *d = driver();

	if (d->create(&p->made, p->bytes, &prop, 0) != CUDA_SUCCESS)
		return false;
	if (d->map(p->window, p->bytes, 0, p->made, 0) == CUDA_SUCCESS)
		return true;
	d->release(p->made);
	return false;
}

bool Relocation::open_windows()
{
	direct_ = reach(windows_, bytes_, from_);
	return reach(windows_, bytes_, to_);
}

// open_host lets the other device reach what is on the host. It does no harm if nothing comes of it.
bool Relocation::open_host() const
{
	for (const auto &entry : ranges()) {
		const Range &r = *entry.second;
		for (size_t i = 0; i < r.chunks.size(); i++) {
			const Chunk &c = r.chunks[i];
			if (c.host != nullptr && (!reach(c.host->window, r.unit, to_) || (!c.bare && !reach(address_of(r, i), r.unit, to_))))
				return false;
		}
	}
	return true;
}

bool Relocation::make()
{
	Part margins = {};

	for (const auto &entry : ranges()) {
		Range &r = *entry.second;
		for (size_t i = 0; r.mapped && i < r.chunks.size(); i++) {
			const Chunk &c = r.chunks[i];
			if (c.host == nullptr && c.bare)
				return false;
			if (c.host == nullptr)
				parts_.push_back({&r, i, address_of(r, i), bytes_of(r, i), c.memory, 0, 0});
		}
	}
	if (margin_memory(&margins.old, &margins.at, &margins.bytes))
		parts_.push_back(margins);
	uint64_t bytes = 0;
	for (const Part &p : parts_)
		bytes += p.bytes;
	if (bytes == 0)
		return open_host();
	if (driver()->reserve(&windows_, bytes, 0, 0, 0) != CUDA_SUCCESS) {
		windows_ = 0;
		return false;
	}
	bytes_ = bytes;
	CUdeviceptr window = windows_;
	for (; made_ < parts_.size(); made_++) {
		Part &p = parts_[made_];
		p.window = window;
		if (!make(&p))
			return false;
		window += p.bytes;
	}
	return open_windows() && open_host();
}

// copy_in copies in a context, and waits for it.
static bool copy_in(CUcontext context, CUdeviceptr to, CUdeviceptr from, size_t bytes, uint64_t *copy_ns)
{
	if (driver()->set_current(context) != CUDA_SUCCESS)
		return false;
	CopyStream stream;
	Copies copies;
	const bool begun = stream.ready() && copies.begin(stream) && copies.copy(stream, to, from, bytes) && copies.end(stream);
	return begun ? copies.await_over(copy_ns) : (stream.await_idle(), false);
}

// copy_between takes one chunk of the host, and so one part at a time.
bool Relocation::copy_between(CUcontext here, CUcontext there, uint64_t *copy_ns) const
{
	HostChunk *const via = await_host_chunk(from_, 1);

	if (via == nullptr)
		return false;
	bool fine = reach(via->window, movable_chunk(), to_);
	for (const Part &p : parts_)
		fine = fine && copy_in(here, via->window, p.at, p.bytes, copy_ns) && copy_in(there, p.window, via->window, p.bytes, copy_ns);
	driver()->set_current(here);
	give_host_chunk(via);
	return fine;
}

bool Relocation::copy(CUcontext here, CUcontext there, uint64_t *copy_ns)
{
	if (!direct_ && !parts_.empty())
		return copy_between(here, there, copy_ns);
	CopyStream stream;
	Copies copies;
	bool fine = parts_.empty() || (stream.ready() && copies.begin(stream));
	for (const Part &p : parts_)
		fine = fine && copies.copy(stream, p.window, p.at, p.bytes);
	fine = fine && (parts_.empty() || (copies.end(stream) && copies.await_over(copy_ns)));
	stream.await_idle();
	return fine;
}

// exchange puts memory behind a part's addresses in the place of other memory. false: the driver refuses, and the other is there still, or
// none (the chunk is bare).
bool Relocation::exchange(const Part &p, CUmemGenericAllocationHandle from, CUmemGenericAllocationHandle to) const
{
	const Driver *d = driver();
	bool &bare = p.range->chunks[p.chunk].bare;
	const int device = to == p.made ? to_ : from_;

	if (!bare && d->unmap(p.at, p.bytes) != CUDA_SUCCESS)
		return false;
	bare = true;
	if (d->map(p.at, p.bytes, 0, to, 0) == CUDA_SUCCESS) {
		if (reach(p.at, p.bytes, device)) {
			bare = false;
			return true;
		}
		d->unmap(p.at, p.bytes);
	}
	if (d->map(p.at, p.bytes, 0, from, 0) != CUDA_SUCCESS)
		return false;
	bare = !reach(p.at, p.bytes, device == to_ ? from_ : to_);
	if (bare)
		d->unmap(p.at, p.bytes);
	return false;
}

bool Relocation::put()
{
	const auto is_chunk = [](const Part &p) { return p.range != nullptr; };
	size_t done = 0;

	while (done < parts_.size() && (!is_chunk(parts_[done]) || exchange(parts_[done], parts_[done].old, parts_[done].made)))
		done++;
	if (done < parts_.size()) {
		for (size_t i = 0; i < done; i++)
			if (is_chunk(parts_[i]))
				exchange(parts_[i], parts_[i].made, parts_[i].old);
		await_back(from_);
		return false;
	}
	put_ = true;
	for (const Part &p : parts_)
		is_chunk(p) ? void(p.range->chunks[p.chunk].memory = p.made) : change_margins(p.made, to_);
	for (const auto &entry : ranges())
		for (const Chunk &c : entry.second->chunks)
			if (c.host != nullptr)
				c.host->device = to_;
	return true;
}

} // namespace lazy
