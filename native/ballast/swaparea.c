/*
 * swaparea BYTES PIECE
 *
 * Makes host memory that processes' device memory can be moved to, page-locked, in pieces of
 * PIECE bytes: CUDA's virtual memory management makes each (cuMemCreate on a NUMA node), so that it can
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
#include "host.h"

#include <sys/socket.h>

enum { EXIT_NOBODY = 6 };
enum { SOCKET = 3, PIECES_A_PACKET = 64 };

static CUresult (*cuMemExportToShareableHandle)(void *file, CUmemGenericAllocationHandle memory, int type, unsigned long long flags);

static const struct symbol symbols[] = {HOST_SYMBOLS, {"cuMemExportToShareableHandle", &cuMemExportToShareableHandle}};

/* export returns a descriptor, which keeps the memory beside the handle. */
static int export(CUmemGenericAllocationHandle memory) {
  int file = -1;
  must(cuMemExportToShareableHandle(&file, memory, HANDLE_FILE_DESCRIPTOR, 0), "cuMemExportToShareableHandle", NULL);
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
  uint64_t bytes, piece;
  if (argc != 3 || !parse_number(argv[1], &bytes) || !parse_number(argv[2], &piece) || bytes == 0 || piece == 0 || bytes % piece != 0) {
    fputs("usage: swaparea BYTES PIECE, of which BYTES is a multiple\n", stderr);
    return EXIT_USAGE;
  }
  sigset_t unblocked;
  catch_signals(&unblocked);
  load_driver(symbols, sizeof symbols / sizeof *symbols, "");
  const int node = numa_node(gpu(0));
  int files[PIECES_A_PACKET];
  size_t count = 0;
  for (uint64_t made = 0; made < bytes && !ended(&unblocked, &(struct timespec){0});) {
    files[count++] = export(make_piece(node, piece, made));
    made += piece;
    if (count == PIECES_A_PACKET || made == bytes) {
      send_files(files, count, made, node);
      count = 0;
    }
  }
  ended(&unblocked, NULL);
  return 0;
}
