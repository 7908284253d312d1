// mode.h: how the process was started (mode.cc).
#ifndef CASE_LAZY_MODE_H
#define CASE_LAZY_MODE_H

#include <stdint.h>

#include <string>

namespace lazy {

enum class Mode {
	unknown, // until somebody asks; mode() never returns it
	passive, // the device was chosen before the process began: report errors only
	pinned,  // the program chooses devices itself: account, defer nothing
	task     // task binding: bind at the first launch
};
// mode is settled when it is first asked for. A program that asks for tasks itself chooses
// devices itself. A program that is partly static does not: the compiler has found some of its
// tasks (probe/static.h), and the lazy runtime makes the others. A module that uses devices outside of
// static tasks makes its program partly static, unless a module asks for tasks itself.
Mode mode();
void static_elsewhere(bool asks);

// one_device: task binding, where the program sees one device, 0.
inline bool one_device() { return mode() == Mode::task; }

// has_instances: one of the run's devices (CASE_DEVICES) is an instance of MIG. CUDA shows a process one instance, which is settled
// before the driver starts. So each program of such a run has one device.
bool has_instances();

// chooses_devices is called where the program asks for a task. false: the mode is settled as
// task, so the program knows its one device as 0.
bool chooses_devices();

// guarded: nothing is mapped beside an allocation (CASE_GUARD). A kernel that accesses
// memory beyond the allocation's last granule then faults.
bool guarded();

// may_be_taken: the scheduler can take memory back (CASE_MOVABLE). asked_to_move: this program's. movable: the memory
// can go, because all that the program allocates is the library's.
bool may_be_taken();
bool asked_to_move();
bool movable();
// exports says who may export device memory to other processes (CASE_EXPORTS). "": nobody.
std::string exports();

// Room is how many bytes of memory the run has for a task: on a device, and on the host where memory can move
// (CASE_CAPACITY). Zeros: the run does not say. seems is how large a device is to seem; 0: as large as it is.
struct Room {
	uint64_t device, host, seems;
};
const Room &room();

// Memory comes in granules of 2 MiB, but mixes and explicit tasks state sums of sizes. This
// allowance is enough for the rounding of eight objects.
inline const uint64_t rounding = 16 << 20; // bytes

// What the run declares that the job needs (CASE_FOOTPRINT), and the allowance for rounding.
// Zero: nothing is declared.
struct Footprint {
	uint64_t bytes, blocks;
	uint32_t threads_per_block;
};
const Footprint &declared();

// record_limit is how much host memory may be recorded before the task binds early, in bytes.
uint64_t record_limit();

} // namespace lazy
#endif
