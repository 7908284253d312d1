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

#include <atomic>
#include <string>

class ranks {
public:
	/* Messages have up to so many bytes. */
	explicit ranks(size_t message) : own(number("CASE_RANK", 0)), count(number("CASE_RANKS", 1)), message_((message + 7) / 8 * 8)
	{
		if (count == 1)
			return;
		const char *folder = getenv("CASE_RENDEZVOUS");
		if (folder == nullptr)
			die(EXIT_INPUT, "CASE_RENDEZVOUS is not set: give the job ranks: in its mix");
		const std::string path = std::string(folder) + "/synth";
		const size_t bytes = sizeof(meeting) + (size_t)count * count * room();
		const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		if (file < 0 || ftruncate(file, bytes) != 0)
			die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
		memory_ = static_cast<char *>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
		if (memory_ == MAP_FAILED)
			die(EXIT_INPUT, "%s: %s", path.c_str(), strerror(errno));
		close(file);
	}

	const int own, count;

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

	size_t message_;
	char *memory_ = nullptr;
};

#endif
