/* ivm.h: a program of processing elements (PEs) that share named objects. A PE is a process on a device. ivmd starts the first
 * one, the root, whose id is 0. PEs start further ones, which begin at main, too, and ask for their id. docs/design/ivm.md has the model.
 *
 * Each call returns 0 or more, or a negative errno value, whose text for these calls ivm_error has. Sizes and offsets are in bytes.
 * Before ivm_enter and after ivm_exit each call returns -ENOTCONN. Threads of a PE may call at once. A call ends the process if
 * ivmd has gone. "Blocks" says what a call waits for besides ivmd's answer; it says nothing where a call waits for no other PE.
 *
 * Each call may also return -EMFILE: the process or its node can have no more descriptors.
 *
 * A call about memory may also return, where it touches a copy on a GPU:
 *   -ENODEV  the process has no CUDA driver, or does not see the GPU
 *   -ENOMEM  the GPU has not so much memory
 *   -EIO     CUDA has failed, and a line on stderr names the call and the error; or the network between nodes has. */
#ifndef IVM_H
#define IVM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int ivm_pe;  /* a PE's id. The root has 0, and others get 1, 2, 3 and so on. No id is given twice. */
typedef int ivm_dev; /* a device, by the same number in every PE */

enum ivm_dev_type {
	IVM_THIS_DEV, /* for ivm_create_dev: the device of the calling PE */
	IVM_CPU,      /* processors of the node, with memory that its PEs share. A node may have several such devices. */
	IVM_GPU,      /* a GPU of the node. Its PEs see it as device 0 of CUDA, and the other GPUs after it. */
};

enum { IVM_NAME = 63 }; /* bytes of the longest name of an object */

/* ivm_error returns the text of a negative result. The text lasts. */
const char *ivm_error(int result);

/* Initialization and finalization */

/* ivm_enter makes the process a PE. It is the first call of each PE. A process that ends before it has started no PE.
 *   -ENOTCONN  ivmd did not start this process
 *   -EALREADY  it is a PE, or it has been one */
int ivm_enter(void);

/* ivm_exit is the last call. It unmaps everything. No other thread may be in a call. A PE that ends without it, or with another
 * status than 0 after it, ends the application with an error. The root's status after it is the application's. */
int ivm_exit(void);

/* Devices */

/* ivm_create_dev stores the device of a type and a number from 0 in *dev, and makes it if there is none. The root is on IVM_CPU 0.
 * Host is NULL for the caller's node, or a name of those in IVM_HOSTS. Number is ignored for IVM_THIS_DEV. GPU N is the one that ivmd's CUDA_VISIBLE_DEVICES
 * lists after N others, or the one that NVML does if the variable is not set. One that is listed twice is two devices, with copies of
 * their own.
 *   -EHOSTUNREACH  the application has no such node
 *   -ENODEV        the node has no such device */
int ivm_create_dev(const char *host, enum ivm_dev_type type, int number, ivm_dev *dev);

/* ivm_destroy_dev removes a device and its mirrors.
 *   -ENODEV  there is no such device
 *   -EBUSY   a PE is on it, until its process has ended, or the master copy of an object is */
int ivm_destroy_dev(ivm_dev dev);

/* Processing elements */

/* ivm_create_pes starts PEs on a device, as many as count and the greatest id allow. They have the caller's program, arguments and
 * environment as ivmd got them, and one new group. It stores their ids, which follow one another, unless pes is NULL. It returns how
 * many it has started: 0 if the greatest id was given already.
 *   -ENODEV  there is no such device
 *   others   no process could be started: such as -EAGAIN */
int ivm_create_pes(ivm_dev dev, int count, ivm_pe *pes);

/* ivm_kill_pes ends PEs of a device at once, which is not an error of the application. It stops at the first that it cannot end.
 * What they have written stays. Blocks until they have ended.
 *   -EPERM   the root, or the caller
 *   -ESRCH   there is no such PE on the device, or it has ended by itself */
int ivm_kill_pes(ivm_dev dev, int count, const ivm_pe *pes);

int ivm_get_my_id(ivm_pe *id);
int ivm_get_my_group_id(int *group); /* 0 for the root. PEs of one ivm_create_pes share a group. */
int ivm_get_my_dev_type(enum ivm_dev_type *type);

/* ivm_set_max_pes_id sets the greatest id that ivm_create_pes gives, for all PEs of the application. */
int ivm_set_max_pes_id(ivm_pe id);

/* ivm_wait takes one signal of a PE. Blocks until there is one. Signals are counted, so none is lost. The PE need not be started yet.
 *   -ESRCH   the PE has ended or called ivm_exit, and all its signals are taken
 *   -EINVAL  no PE can get this id */
int ivm_wait(ivm_pe pe);

/* ivm_signal lets one wait for the caller continue: one that there is, or the next. */
int ivm_signal(void);

/* Memory. The names of objects are of the application. An object has a master copy on the device where it was allocated, and a mirror
 * on each other device that has mapped it. PEs of one device share its copy.
 *
 * Of a copy on a GPU, addresses are memory of the GPU in its primary context, which kernels and copies of the CUDA runtime can use, and
 * processors cannot. PEs have different addresses for it. Calls that copy come after what the default streams of the GPUs concerned
 * have to do. What is in other streams, the caller waits for before it calls, also before it unmaps. */

/* ivm_malloc allocates an object of zeros, with its master copy on the caller's device, and maps it. Its memory is used when it is touched,
 * and on a GPU at once.
 *   -EEXIST  there is an object of this name
 *   -EINVAL  the name is empty or longer than IVM_NAME, or bytes is 0
 *   -ENOMEM  there is not so much memory
 *   -EFBIG   ivmd may have no files of this size (ulimit -f). A copy in memory of the node is one to the kernel */
int ivm_malloc(const char *name, size_t bytes, void **at);

/* ivm_free removes the object that is mapped at an address, and unmaps it there. Its name is free at once. Other mappings stay valid
 * until they are unmapped.
 *   -EFAULT  the address is not the result of a mapping
 *   -ENOENT  another PE has removed the object: it is unmapped all the same */
int ivm_free(void *at);

/* ivm_map maps an object. It stores its size unless bytes is NULL. If the caller's device has no mirror yet, the call makes one
 * with what the master copy has now. A mirror that there is stays as it is. Blocks while another PE of the device does the same.
 *   -ENOENT  there is no such object
 *   -ENOMEM  there is not so much memory */
int ivm_map(const char *name, void **at, size_t *bytes);

/* ivm_map_subset maps bytes of an object from an offset on, and *at is the address of the first. Of a mirror only these bytes are
 * made and take memory, in whole pages. On a GPU the mirror takes as much memory as the object, in whole units of CUDA (2 MiB), and
 * only these bytes are copied. It is otherwise like ivm_map.
 *   -ERANGE  not all bytes are in the object
 *   -EINVAL  bytes is 0 */
int ivm_map_subset(const char *name, size_t offset, size_t bytes, void **at);

/* ivm_unmap unmaps. The mirror remains for other PEs of the device.
 *   -EFAULT  the address is not the result of a mapping */
int ivm_unmap(void *at);

/* ivm_sync_put writes bytes at an address from the mirror of the caller's device to the master copy. ivm_sync_get reads them from the
 * master copy to the mirror. On the device of the master copy they only check their arguments.
 *   -EFAULT  the caller has mapped no object there
 *   -ERANGE  not all bytes are in the mapping
 *   -ENOENT  another PE has removed the object, whose other copy is on another node */
int ivm_sync_put(const void *at, size_t bytes);
int ivm_sync_get(void *at, size_t bytes);

/* A part of an object, by its address in the caller, and the device whose mirror is meant. */
struct ivm_part {
	ivm_dev dev;
	void *at;
	size_t bytes;
};

/* ivm_sync_put_group scatters: it writes each part from the master copy to the mirror of the part's device. ivm_sync_get_group gathers:
 * it reads each part from that mirror to the master copy, in the order of the list. The caller may be on any device. A part whose
 * device has the master copy is only checked. All parts are checked before the first byte is copied. Blocks while a PE makes one of
 * the mirrors.
 *   -EFAULT, -ERANGE  as for ivm_sync_put
 *   -ENODEV  there is no such device
 *   -ENOENT  another PE has removed the object
 *   -ENXIO   the device has no mirror of the part */
int ivm_sync_put_group(const struct ivm_part *parts, int count);
int ivm_sync_get_group(const struct ivm_part *parts, int count);

#ifdef __cplusplus
}
#endif

#endif
