/*
 * swaparea BYTES
 *
 * Makes host memory that processes' device memory can be moved to, page-locked, in pieces of
 * 32 MiB: CUDA's virtual memory management makes each (cuMemCreate on a NUMA node), so that it can
 * be mapped in the place of device memory, and exports it as a file descriptor.
 *
 * The descriptors go out as packets on descriptor 3, a SOCK_SEQPACKET socket. Each packet is one line
 * of JSON with up to 64 descriptors (SCM_RIGHTS):
 *   {"made":BYTES_SO_FAR,"node":NUMA_NODE}
 * The last has made = BYTES. The program then waits for its end, and exits 0.
 *
 * It makes no CUDA context, so it takes no device memory. The memory is of the NUMA node of the
 * first GPU. It never runs under MPS.
 *
 * Exit status: 0 done; 2 usage; 3 the host has not so much memory; 4 CUDA failed; 5 no CUDA driver
 * or no GPU; 6 nobody takes the descriptors.
 */
#define PROGRAM "swaparea"
#include "hold.h"

#include <sys/socket.h>

enum { EXIT_NOBODY = 6 };

#define PIECE ((uint64_t)32 << 20)
enum { SOCKET = 3, PIECES_A_PACKET = 64 };

typedef unsigned long long CUmemGenericAllocationHandle;
enum { ATTRIBUTE_HOST_NUMA_ID = 134 };                                     /* CUdevice_attribute */
enum { TYPE_PINNED = 1, LOCATION_HOST_NUMA = 3, HANDLE_FILE_DESCRIPTOR = 1 };

struct properties { /* CUmemAllocationProp */
  int type, handle_types;
  struct {
    int type, id;
  } location;
  void *security;
  unsigned char flags[8];
};

static struct {
  CUresult (*cuDeviceGetCount)(int *count);
  CUresult (*cuDeviceGet)(int *device, int ordinal);
  CUresult (*cuDeviceGetAttribute)(int *value, int attribute, int device);
  CUresult (*cuMemCreate)(CUmemGenericAllocationHandle *memory, size_t bytes, const struct properties *p, unsigned long long flags);
  CUresult (*cuMemExportToShareableHandle)(void *file, CUmemGenericAllocationHandle memory, int type, unsigned long long flags);
} cu;

static const struct symbol symbols[] = {
    {"cuDeviceGetCount", &cu.cuDeviceGetCount},
    {"cuDeviceGet", &cu.cuDeviceGet},
    {"cuDeviceGetAttribute", &cu.cuDeviceGetAttribute},
    {"cuMemCreate", &cu.cuMemCreate},
    {"cuMemExportToShareableHandle", &cu.cuMemExportToShareableHandle},
};

/* numa_node is that of the first GPU; 0 where the driver does not know. */
static int numa_node(void) {
  int count = 0, device, node = -1;
  must(cu.cuDeviceGetCount(&count), "cuDeviceGetCount", NULL);
  if (count == 0) fail(EXIT_NO_DEVICE, "no GPU");
  must(cu.cuDeviceGet(&device, 0), "cuDeviceGet", NULL);
  if (cu.cuDeviceGetAttribute(&node, ATTRIBUTE_HOST_NUMA_ID, device) != CUDA_SUCCESS || node < 0) return 0;
  return node;
}

/* make makes a piece and returns its descriptor. The descriptor keeps the memory, beside the handle. */
static int make(int node, uint64_t made) {
  struct properties p = {.type = TYPE_PINNED, .handle_types = HANDLE_FILE_DESCRIPTOR, .location = {LOCATION_HOST_NUMA, node}};
  CUmemGenericAllocationHandle memory;
  int file = -1;
  CUresult r = cu.cuMemCreate(&memory, PIECE, &p, 0);
  if (r == CUDA_ERROR_OUT_OF_MEMORY) fail(EXIT_NO_ROOM, "the host has no more memory after %" PRIu64 " bytes", made);
  must(r, "cuMemCreate", NULL);
  must(cu.cuMemExportToShareableHandle(&file, memory, HANDLE_FILE_DESCRIPTOR, 0), "cuMemExportToShareableHandle", NULL);
  return file;
}

static void send_files(const int *files, size_t count, uint64_t made, int node) {
  char line[96];
  union {
    char bytes[CMSG_SPACE(PIECES_A_PACKET * sizeof(int))];
    struct cmsghdr align;
  } control;
  memset(&control, 0, sizeof control);
  struct iovec text = {line, (size_t)snprintf(line, sizeof line, "{\"made\":%" PRIu64 ",\"node\":%d}\n", made, node)};
  struct msghdr message = {.msg_iov = &text, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(count * sizeof(int))};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(count * sizeof(int));
  memcpy(CMSG_DATA(rights), files, count * sizeof(int));
  while (sendmsg(SOCKET, &message, MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) fail(EXIT_NOBODY, "send descriptors: %s", strerror(errno));
  }
  for (size_t i = 0; i < count; i++) close(files[i]);
}

int main(int argc, char **argv) {
  uint64_t bytes;
  if (argc != 2 || !parse_number(argv[1], &bytes) || bytes == 0 || bytes % PIECE != 0) {
    fprintf(stderr, "usage: swaparea BYTES, a multiple of %" PRIu64 "\n", PIECE);
    return EXIT_USAGE;
  }
  sigset_t unblocked;
  catch_signals(&unblocked);
  load_driver(symbols, sizeof symbols / sizeof *symbols);
  const int node = numa_node();
  int files[PIECES_A_PACKET];
  size_t count = 0;
  for (uint64_t made = 0; made < bytes && !ended(&unblocked, 0);) {
    files[count++] = make(node, made);
    made += PIECE;
    if (count == PIECES_A_PACKET || made == bytes) {
      send_files(files, count, made, node);
      count = 0;
    }
  }
  ended(&unblocked, 1);
  return 0;
}
