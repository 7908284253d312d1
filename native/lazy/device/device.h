// device.h: the device of a process under task binding (device.cc).
//
// A program under task binding sees one device, 0. Real ordinals are the driver's in this
// process. The scheduler's ordinals count all devices of the run: they differ from the
// driver's once the process is confined (confine.h).
#ifndef CASE_LAZY_DEVICE_H
#define CASE_LAZY_DEVICE_H

#include "abi/symbols.h"
#include "probe/case.h"

namespace lazy {

inline const int max_devices = 64;

int home();       // the real ordinal of this process's device, or -1
int scheduled();  // the scheduler's ordinal of the device granted last, or -1
bool has_context(); // the task has been bound before, since any reset

// A device that the program does not see becomes an ordinal that the driver does not have. The
// granted device's real ordinal, which the driver may have told the program, stays as it is.
// Negative values mean the host or nothing. What an earlier task left, such as page-locked host memory,
// may be on a former device: that is device 0 too.
int visible_to_real(int device);
int real_to_visible(int device);

// use_device makes the granted device the calling thread's, unless it is already; a context of
// the program's own on that device stays current.
void use_device();
// choose_device is cudaSetDevice of the granted device: nothing else stays current.
cudaError_t choose_device();

bool equal_devices(); // whether one device can answer for all
void forget_device(); // cudaDeviceReset
// reset_former_devices resets the devices of earlier tasks. Their contexts are kept between tasks
// and may have host memory page-locked.
void reset_former_devices();

// keep_flags notes flags of cudaSetDeviceFlags, applied when a context is made.
void keep_flags(unsigned flags);

// move_to makes the granted device the process's. false: it never will be, because of hidden_by, such as an environment of the
// program's own that hides the device.
bool move_to(const case_task &granted);
bool device_is_hidden(); // move_to has returned false
const char *hidden_by();
// make_context makes the context on the process's device; context_is_ready notes that what
// came before it is replayed.
cudaError_t make_context();
void context_is_ready();
CUcontext context_of_task(); // that make_context has made; nullptr: none

// A process with a context goes to another device (task/move.cc). enter_device makes the context of that device the
// calling thread's. Then either settle_on makes it the process's, also for all other threads, or leave_device undoes it. The
// context that the process leaves stays. device_epoch counts these changes, and all others of home().
cudaError_t enter_device(int ordinal, CUcontext *made);
void settle_on(int ordinal, CUcontext context, int scheduled);
void leave_device(int ordinal);
bool entering_device(); // the calling thread is in one of these two calls
unsigned device_epoch();

// made_by_program notes a context that the program has made itself, until ended_by_program. program_context is the
// thread's, if it is such a one.
void made_by_program(CUcontext context);
void ended_by_program(CUcontext context);
CUcontext program_context();

} // namespace lazy
#endif
