/* ranks.h: the processes of a job with ranks, which meet in shared memory: a file in CASE_RENDEZVOUS. A process without CASE_RANKS is
 * alone. The harness ends the others if one fails, so none waits for ever. */
#ifndef RANKS_H
#define RANKS_H

#include "../rodinia/common/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>

class ranks {
public:
	ranks() : own(number("CASE_RANK", 0)), count(number("CASE_RANKS", 1)) {}

	const int own, count;

	/* meet comes before all that follows. Messages have up to so many bytes. */
	void meet(size_t message = 1 << 18)
	{
		message_ = (message + 7) / 8 * 8;
		if (count == 1)
			return;
		const char *folder = getenv("CASE_RENDEZVOUS");
		if (folder == nullptr)
			die(EXIT_INPUT, "CASE_RENDEZVOUS is not set: give the job ranks: in its mix");
		const std::string path = std::string(folder) + "/ranks";
		const size_t bytes = sizeof(meeting) + (size_t)count * count * room();
		const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (file < 0 || ftruncate(file, bytes) != 0)
			die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
		memory_ = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
		if (memory_ == MAP_FAILED)
			die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
		close(file);
	}

	/* barrier waits until all ranks have come. */
	void barrier()
	{
		if (count == 1)
			return;
		meeting *m = reinterpret_cast<meeting *>(memory_);
		const uint32_t times = m->times;
		if (++m->come < (uint32_t)count) {
			wait_while(&m->times, times);
			return;
		}
		m->come = 0;
		tell(&m->times);
	}

	/* send copies a message, and waits only while the receiver has not taken the last two. */
	void send(int to, const void *message, size_t bytes)
	{
		box *b = box_of(own, to);
		wait_while(&b->taken, b->sent - DEPTH);
		memcpy(place(b, b->sent), message, bytes);
		tell(&b->sent);
	}
	void receive(int from, void *message, size_t bytes)
	{
		box *b = box_of(from, own);
		wait_while(&b->sent, b->taken);
		memcpy(message, place(b, b->taken), bytes);
		tell(&b->taken);
	}

	/* send_parts and receive_parts are for a message of any length. The receiver takes parts while others are sent. */
	void send_parts(int to, const void *message, size_t bytes)
	{
		for (size_t at = 0; at < bytes; at += message_)
			send(to, static_cast<const char *>(message) + at, std::min(message_, bytes - at));
	}
	void receive_parts(int from, void *message, size_t bytes)
	{
		for (size_t at = 0; at < bytes; at += message_)
			receive(from, static_cast<char *>(message) + at, std::min(message_, bytes - at));
	}

	/* Ranks share items evenly: a rank has those from its first one up to that of the next rank, `most` at most. */
	size_t first(int rank, size_t items) const { return items * rank / count; }
	size_t most(size_t items) const { return (items + count - 1) / count; }

	/* scatter gives each rank its items, of so many bytes each. The root, rank 0, has them at(item). */
	template <class F> void scatter(size_t items, size_t bytes, F at, void *mine)
	{
		char *to = static_cast<char *>(mine);
		for (size_t i = first(own, items); i < first(own + 1, items); i++, to += bytes)
			if (own == 0)
				memcpy(to, at(i), bytes);
			else
				receive_parts(0, to, bytes);
		for (int rank = 1; own == 0 && rank < count; rank++)
			for (size_t i = first(rank, items); i < first(rank + 1, items); i++)
				send_parts(rank, at(i), bytes);
	}

	/* gather gives the root the items of all ranks, in order. */
	void gather(size_t items, size_t bytes, const void *mine, void *all)
	{
		const auto length = [&](int rank) { return (first(rank + 1, items) - first(rank, items)) * bytes; };
		if (own != 0)
			return send_parts(0, mine, length(own));
		if (length(0) > 0)
			memcpy(all, mine, length(0));
		for (int rank = 1; rank < count; rank++)
			receive_parts(rank, static_cast<char *>(all) + first(rank, items) * bytes, length(rank));
	}

private:
	enum { DEPTH = 2 };
	struct meeting {
		std::atomic<uint32_t> come, times;
	};
	struct box {
		std::atomic<uint32_t> sent, taken;
	};

	static int number(const char *name, int fallback)
	{
		const char *text = getenv(name);
		return text == nullptr ? fallback : (int)parse_int(text, name, 0, 256);
	}
	static void wait_while(std::atomic<uint32_t> *at, uint32_t value)
	{
		while (*at == value)
			syscall(SYS_futex, at, FUTEX_WAIT, value, nullptr, nullptr, 0);
	}
	static void tell(std::atomic<uint32_t> *at)
	{
		++*at;
		syscall(SYS_futex, at, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
	}
	size_t room() const { return sizeof(box) + DEPTH * message_; }
	box *box_of(int from, int to) { return reinterpret_cast<box *>(memory_ + sizeof(meeting) + ((size_t)from * count + to) * room()); }
	char *place(box *b, uint32_t of) { return reinterpret_cast<char *>(b + 1) + of % DEPTH * message_; }

	size_t message_ = 0;
	char *memory_ = nullptr;
};

#endif
