/*
 * slow hold SMS   holds so many SMs of a GPU, so that what else computes there has the others
 * slow probe      counts the SMs that a process gets
 *
 * The GPU is the one that CUDA_VISIBLE_DEVICES names. Both are clients of MPS as the environment says, because without MPS
 * processes do not compute at the same time.
 *
 * One line of JSON goes to stdout, once the SMs are held or counted:
 *   {"sms":S,"seen":N}   S: the GPU's; N: of them those with a block of the kernel
 * hold then waits for the end of stdin, SIGTERM or SIGINT, ends its kernel and exits 0. It must not be killed: MPS has every
 * client fail if one is killed while its kernel runs. If it is, the kernel still ends by itself.
 *
 * Exit status: 0 done; 2 usage; 3 other kernels had the SMs; 4 CUDA failed, or the kernel ended; 5 no CUDA driver or no such
 * device.
 */
#define PROGRAM "slow"
#include "hold.h"

enum { CUDA_ERROR_NOT_READY = 600, ATTRIBUTE_SMS = 16, STREAM_NON_BLOCKING = 1, SEEN = 1024 };
enum { HOLD_THREADS = 1024, PROBE_THREADS = 32, PROBE_BLOCKS_PER_SM = 4 };

/* Times in ns. A beat comes more often than the kernel waits for one, by as much as a host may keep a process from its cores. */
static const struct timespec beat = {.tv_nsec = 5000000}, start_limit = {.tv_sec = 1};
static uint64_t patience = 250000000, probe_time = 1000000;

typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream;

static struct {
  CUresult (*device_get)(CUdevice *device, int ordinal);
  CUresult (*attribute)(int *value, int attribute, CUdevice device);
  CUresult (*retain)(CUcontext *context, CUdevice device);
  CUresult (*set_current)(CUcontext context);
  CUresult (*load)(CUmodule *module, const void *image);
  CUresult (*function)(CUfunction *function, CUmodule module, const char *name);
  CUresult (*host)(void **at, size_t bytes, unsigned flags);
  CUresult (*stream)(CUstream *stream, unsigned flags);
  CUresult (*launch)(CUfunction function, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y, unsigned block_z,
                     unsigned shared, CUstream stream, void **arguments, void **more);
  CUresult (*query)(CUstream stream);
  CUresult (*synchronize)(CUstream stream);
} cu;

static const struct symbol symbols[] = {
    {"cuDeviceGet", &cu.device_get}, {"cuDeviceGetAttribute", &cu.attribute}, {"cuDevicePrimaryCtxRetain", &cu.retain},
    {"cuCtxSetCurrent", &cu.set_current}, {"cuModuleLoadData", &cu.load}, {"cuModuleGetFunction", &cu.function},
    {"cuMemHostAlloc", &cu.host}, {"cuStreamCreate", &cu.stream}, {"cuLaunchKernel", &cu.launch},
    {"cuStreamQuery", &cu.query}, {"cuStreamSynchronize", &cu.synchronize},
};

/* What the host and a kernel share, in page-locked memory. */
struct words {
  uint32_t stop, beat, spill, unused[61];
  uint32_t seen[SEEN]; /* by SM: a block has run there */
};

static volatile struct words *words;
static CUstream stream;

/*
 * A block of hold has 1,024 threads of 57 to 64 registers, so it has all 65,536 registers of an SM, and no other block fits
 * beside it. The registers are for the values at its end, where it never comes, because `spill` is 0. Its first thread looks at
 * the words, and the others wait at the barrier, which takes nothing from the GPU. It ends if `stop` is set, or if `beat`
 * has stayed the same for `patience`.
 *
 * The blocks of probe are small, and live long enough for all to be on the GPU at one time.
 */
#define SEES                                                                            \
  "  mov.u32 %sm, %smid;\n"                                                             \
  "  and.b32 %sm, %sm, 1023;\n"                                                         \
  "  mul.wide.u32 %o, %sm, 4;\n"                                                        \
  "  add.u64 %o, %w, %o;\n"                                                             \
  "  mov.u32 %one, 1;\n"                                                                \
  "  st.volatile.global.u32 [%o+256], %one;\n"                                          \
  "  mov.u64 %since, %globaltimer;\n"
#define LOAD(a, b, c, d, at) "  ld.volatile.global.v4.u32 {%v" #a ", %v" #b ", %v" #c ", %v" #d "}, [%w+" #at "];\n"
#define STORE(a, b, c, d, at) "  st.volatile.global.v4.u32 [%w+" #at "], {%v" #d ", %v" #c ", %v" #b ", %v" #a "};\n"
#define ALL(DO)                                                                                                                \
  DO(0, 1, 2, 3, 16) DO(4, 5, 6, 7, 32) DO(8, 9, 10, 11, 48) DO(12, 13, 14, 15, 64) DO(16, 17, 18, 19, 80)                     \
  DO(20, 21, 22, 23, 96) DO(24, 25, 26, 27, 112) DO(28, 29, 30, 31, 128) DO(32, 33, 34, 35, 144) DO(36, 37, 38, 39, 160)       \
  DO(40, 41, 42, 43, 176) DO(44, 45, 46, 47, 192) DO(48, 49, 50, 51, 208) DO(52, 53, 54, 55, 224)

static const char ptx[] =
    ".version 6.4\n"
    ".target sm_70\n"
    ".address_size 64\n"
    ".visible .entry hold(.param .u64 words, .param .u64 patience) .maxntid 1024, 1, 1\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %t, %sm, %one, %stop, %beat, %last, %v<56>;\n"
    "  .reg .b64 %w, %o, %limit, %now, %since;\n"
    "  ld.param.u64 %w, [words];\n"
    "  ld.param.u64 %limit, [patience];\n"
    "  mov.u32 %t, %tid.x;\n"
    "  setp.ne.u32 %p, %t, 0;\n"
    "  @%p bra ended;\n"
    "  mov.u32 %last, 0;\n"
    SEES
    "look:\n"
    "  ld.volatile.global.v2.u32 {%stop, %beat}, [%w];\n"
    "  setp.ne.u32 %p, %stop, 0;\n"
    "  @%p bra ended;\n"
    "  mov.u64 %now, %globaltimer;\n"
    "  setp.ne.u32 %p, %beat, %last;\n"
    "  @%p mov.u64 %since, %now;\n"
    "  mov.u32 %last, %beat;\n"
    "  sub.u64 %now, %now, %since;\n"
    "  setp.gt.u64 %p, %now, %limit;\n"
    "  @%p bra ended;\n"
    "  nanosleep.u32 500000;\n"
    "  bra look;\n"
    "ended:\n"
    "  bar.sync 0;\n"
    "  ld.volatile.global.u32 %t, [%w+8];\n"
    "  setp.eq.u32 %p, %t, 0;\n"
    "  @%p ret;\n"
    ALL(LOAD)
    ALL(STORE)
    "  ret;\n"
    "}\n"
    ".visible .entry probe(.param .u64 words, .param .u64 time)\n"
    "{\n"
    "  .reg .pred %p;\n"
    "  .reg .b32 %sm, %one;\n"
    "  .reg .b64 %w, %o, %limit, %now, %since;\n"
    "  ld.param.u64 %w, [words];\n"
    "  ld.param.u64 %limit, [time];\n"
    SEES
    "again:\n"
    "  mov.u64 %now, %globaltimer;\n"
    "  sub.u64 %now, %now, %since;\n"
    "  setp.lt.u64 %p, %now, %limit;\n"
    "  @%p bra again;\n"
    "  ret;\n"
    "}\n";

/* prepare makes a context and what a kernel needs. It returns the GPU's number of SMs. */
static int prepare(CUmodule *module) {
  CUdevice device;
  CUcontext context;
  int sms = 0;
  void *at = NULL;
  find_driver(symbols, sizeof symbols / sizeof *symbols);
  must(cu.device_get(&device, 0), "cuDeviceGet", NULL);
  must(cu.attribute(&sms, ATTRIBUTE_SMS, device), "cuDeviceGetAttribute", NULL);
  must(cu.retain(&context, device), "cuDevicePrimaryCtxRetain", NULL);
  must(cu.set_current(context), "cuCtxSetCurrent", NULL);
  must(cu.load(module, ptx), "cuModuleLoadData", NULL);
  must(cu.host(&at, sizeof *words, 0), "cuMemHostAlloc", NULL);
  must(cu.stream(&stream, STREAM_NON_BLOCKING), "cuStreamCreate", NULL);
  memset(at, 0, sizeof *words);
  words = at;
  return sms;
}

static void launch(CUmodule module, const char *name, unsigned blocks, unsigned threads, uint64_t *time) {
  CUfunction kernel;
  uint64_t at = (uintptr_t)words;
  void *arguments[] = {&at, time};
  must(cu.function(&kernel, module, name), "cuModuleGetFunction", NULL);
  must(cu.launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, arguments, NULL), "cuLaunchKernel", NULL);
}

static unsigned seen(void) {
  unsigned count = 0;
  for (int i = 0; i < SEEN; i++) count += words->seen[i];
  return count;
}

static void say(int sms) {
  printf("{\"sms\":%d,\"seen\":%u}\n", sms, seen());
  if (fflush(stdout) != 0) fail(EXIT_CUDA, "write the ready line: %s", strerror(errno));
}

/* hold keeps the kernel alive until it is told to end. */
static void hold(unsigned wanted, const sigset_t *unblocked) {
  CUmodule module;
  const int sms = prepare(&module);
  const uint32_t most = (uint32_t)(start_limit.tv_sec * 1000000000 / beat.tv_nsec);
  int ready = 0;
  launch(module, "hold", wanted, HOLD_THREADS, &patience);
  while (!ended(unblocked, &beat)) {
    words->beat++;
    const CUresult r = cu.query(stream);
    if (r == CUDA_SUCCESS) fail(EXIT_CUDA, "the kernel ended by itself: for %g s this program got no core", (double)patience / 1e9);
    if (r != CUDA_ERROR_NOT_READY) must(r, "cuStreamQuery", NULL);
    if (!ready && seen() == wanted) {
      say(sms);
      ready = 1;
    }
    if (!ready && words->beat > most) break;
  }
  words->stop = 1;
  must(cu.synchronize(stream), "cuStreamSynchronize", NULL);
  if (!ready && words->beat > most) fail(EXIT_NO_ROOM, "only %u of %u SMs were free within %d s", seen(), wanted, (int)start_limit.tv_sec);
}

static void probe(void) {
  CUmodule module;
  const int sms = prepare(&module);
  launch(module, "probe", (unsigned)sms * PROBE_BLOCKS_PER_SM, PROBE_THREADS, &probe_time);
  must(cu.synchronize(stream), "cuStreamSynchronize", NULL);
  say(sms);
}

int main(int argc, char **argv) {
  uint64_t wanted = 0;
  const int holds = argc == 3 && strcmp(argv[1], "hold") == 0 && parse_number(argv[2], &wanted) && wanted > 0 && wanted <= SEEN;
  if (!holds && !(argc == 2 && strcmp(argv[1], "probe") == 0)) fail(EXIT_USAGE, "usage: slow hold SMS | slow probe");
  sigset_t unblocked;
  catch_signals(&unblocked);
  if (holds)
    hold((unsigned)wanted, &unblocked);
  else
    probe();
  return 0;
}
