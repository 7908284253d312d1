// lock.h: the machine's lock.
#ifndef FAKE_LOCK_H
#define FAKE_LOCK_H

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace fake {

using Clock = std::chrono::steady_clock;

// Lock is a recursive lock whose holder can wait for a change, however often it holds the lock.
class Lock {
public:
	void lock()
	{
		if (holds()) {
			depth_++;
			return;
		}
		enter();
		take(1);
	}
	void unlock()
	{
		if (--depth_ > 0)
			return;
		leave();
		inner_.unlock();
	}

	// wait lets others have the lock until something has changed, or until then.
	void wait(Clock::time_point until = Clock::time_point::max())
	{
		const unsigned depth = leave();
		std::unique_lock<std::mutex> held(inner_, std::adopt_lock);
		if (until == Clock::time_point::max())
			change_.wait(held);
		else
			change_.wait_until(held, until);
		while (shut())
			change_.wait(held);
		held.release();
		take(depth);
	}

	// close, by who has the lock, keeps all other threads out until it is opened.
	void close()
	{
		closer_ = pthread_self();
		closed_ = true;
	}
	void open()
	{
		closed_ = false;
		changed();
	}
	void changed() { change_.notify_all(); }

	// without does something while others may have the lock.
	template <class F> auto without(F body)
	{
		const unsigned depth = leave();
		inner_.unlock();
		struct Back {
			Lock *lock;
			unsigned depth;
			~Back() { lock->enter(), lock->take(depth); }
		} back{this, depth};
		return body();
	}

private:
	std::mutex inner_;
	std::condition_variable change_;
	pthread_t owner_ = {};
	bool owned_ = false;
	unsigned depth_ = 0;
	bool closed_ = false;
	pthread_t closer_ = {};

	bool shut() const { return closed_ && !pthread_equal(closer_, pthread_self()); }
	void enter()
	{
		std::unique_lock<std::mutex> held(inner_);
		while (shut())
			change_.wait(held);
		held.release();
	}

	// Only the owner finds itself here.
	bool holds() const
	{
		return __atomic_load_n(&owned_, __ATOMIC_ACQUIRE) && pthread_equal(__atomic_load_n(&owner_, __ATOMIC_RELAXED), pthread_self());
	}
	void take(unsigned depth)
	{
		__atomic_store_n(&owner_, pthread_self(), __ATOMIC_RELAXED);
		__atomic_store_n(&owned_, true, __ATOMIC_RELEASE);
		depth_ = depth;
	}
	unsigned leave()
	{
		const unsigned depth = depth_;
		depth_ = 0;
		__atomic_store_n(&owned_, false, __ATOMIC_RELEASE);
		return depth;
	}
};

} // namespace fake
#endif
