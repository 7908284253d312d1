// program.cc: what the programs have in common.
#include "program.h"

#include <chrono>
#include <errno.h>
#include <fcntl.h>
#include <filesystem>
#include <stdarg.h>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

void say(const char *format, ...)
{
	char line[512];
	va_list arguments;
	va_start(arguments, format);
	int length = vsnprintf(line, sizeof line - 1, format, arguments);
	va_end(arguments);
	line[length++] = '\n';
	if (write(STDOUT_FILENO, line, static_cast<size_t>(length)) != length)
		_exit(3);
}

void wait_after(const char *line)
{
	char answer[64];
	say("%s", line);
	if (fgets(answer, sizeof answer, stdin) == nullptr)
		_exit(3);
}

void state(const char *when)
{
	fake_cuda_state s = fake_state();
	say("%s: contexts %d first %d allocations %u handles %u mappings %u reservations %u violations %u", when,
	    s.contexts, s.contexts > 0 ? s.order[0] : -1, s.allocations, s.handles, s.mappings, s.reservations, s.violations);
}

std::vector<int> numbers(size_t n, int from)
{
	std::vector<int> all(n);
	for (size_t i = 0; i < n; i++)
		all[i] = from + static_cast<int>(i * i % 97);
	return all;
}

long digest(const int *x, int n)
{
	long *out = device<long>(1), value = -1;
	TRY(LAUNCH(sum, grid, block, 0, nullptr, x, n, out));
	TRY(cudaMemcpy(&value, out, sizeof value, cudaMemcpyDeviceToHost));
	TRY(cudaFree(out));
	return value;
}

Meeting::Meeting()
{
	const char *of = getenv("SWAPPED_MEET"), *comma = of ? strrchr(of, ',') : nullptr;
	if (!comma)
		return;
	room = {of, comma};
	guests = atoi(comma + 1);
	const std::filesystem::directory_iterator came(room);
	if (std::distance(begin(came), end(came)) >= guests) { // it is a program that was started again
		guests = 0;
		return;
	}
	const std::string mine = room + "/" + std::to_string(getpid()), early = mine + ".early";
	held = open(early.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (held < 0 || flock(held, LOCK_EX) || rename(early.c_str(), mine.c_str()))
		say("meeting: %s", strerror(errno));
}

void Meeting::wait()
{
	flock(held, LOCK_UN);
	for (int met = 0; met < guests; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
		met = 0;
		for (const auto &guest : std::filesystem::directory_iterator(room)) {
			if (guest.path().extension() == ".early")
				continue;
			const int fd = open(guest.path().c_str(), O_RDWR | O_CLOEXEC);
			flock(fd, LOCK_SH);
			close(fd);
			met++;
		}
	}
	guests = 0;
}
