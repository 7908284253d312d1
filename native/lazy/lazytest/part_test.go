package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

// A library that calls the driver works on the program's memory while the scheduler takes it: what the
// driver is asked for passes the gate too. The library looks functions up as a static runtime does, or is linked
// with them.
func TestLazyKeepsResultsOfWorkForTheDriver(t *testing.T) {
	for n, c := range []struct{ part, env string }{
		{"part.so", "FAKE_CUDA_KERNEL_US=0"}, {"part_linked.so", "FAKE_CUDA_KERNEL_US=2000"}, {"part.so", "FAKE_CUDA_KERNEL_US=300"},
		{"part_linked.so", "FAKE_CUDA_KERNEL_US=300"},
	} {
		t.Run(c.part+" "+c.env, func(t *testing.T) {
			t.Parallel()
			program := "beside_part " + absolute(t, lazyDir, "build/13", c.part)
			p, k := startTaking(t, uint64(n), cudaVersions[n%2], program, c.env)
			p.finish(k.answer).mustSucceed()
			p.wantNative()
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
			unable := slices.IndexFunc(k.revoked, func(r schedulers.Revoked) bool { return r.Outcome == schedulers.Unable })
			if done < 3 || freed == 0 || unable >= 0 {
				t.Errorf("%d revocations done, %d bytes freed: want some; unable: %d", done, freed, unable)
			}
		})
	}
}

// Where work may reach the driver past the gate, memory stays where it is, and the answer says why.
func TestLazyTakesNoMemoryFromWorkPastTheGate(t *testing.T) {
	driver := absolute(t, fakeDir, "build/13/libcuda.so.1")
	for name, c := range map[string]struct {
		does string
		with []string
		why  string
	}{
		"a call":                    {`((int (*)(void *, long, int, long))find("cuMemExportToShareableHandle"))(0, 0, 0, 0)`, nil, "a part of the program calls cuMemExportToShareableHandle"},
		"a function of a table":     {`table(CONTEXT)[0][5](0, 0, 0)`, nil, "a part calls function 5 of table 21318c60-9714-3248-8ca6-41ff7324c8f2"},
		"a table":                   {`table(UNKNOWN)`, nil, "a part has table 11111111-1111-1111-1111-111111111111 of the driver"},
		"the function after itself": {`dlsym(RTLD_NEXT, "cuLaunchKernel")`, nil, "a part of the program calls cuLaunchKernel"},
		"in the whole process":      {`dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); dlsym(RTLD_DEFAULT, "cuMemExportToShareableHandle")`, nil, "a part of the program calls cuMemExportToShareableHandle"},
		"dlsym as libc has it":      {`dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym", "GLIBC_2.2.5")`, nil, "a part of the program calls dlsym past this library"},
		"next, by its version":      {`dlvsym(RTLD_NEXT, "cuLaunchKernel", "none")`, nil, "a part of the program calls cuLaunchKernel"},
		"apart":                     {`dlopen("libz.so.1", RTLD_NOW | RTLD_DEEPBIND)`, nil, "libz.so.1 was opened apart from other libraries"},
		"in a namespace":            {`dlmopen(LM_ID_NEWLM, "libz.so.1", RTLD_NOW)`, nil, "libz.so.1 was opened apart from other libraries"},
		"it exports memory":         {`static const char *volatile name = "cudaIpcGetMemHandle"; (void)name`, nil, "part.so may export memory (CASE_EXPORTS=0: it does not)"},
		"it is linked":              {`extern int cuMemExportToShareableHandle(void *); static int (*volatile f)(void *) = cuMemExportToShareableHandle; (void)f`, []string{driver}, "part.so is linked with cuMemExportToShareableHandle"},
	} {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, "13", "lazy_program", "resumes_in_a_thread", movable, preloaded(t, "part.so", fmt.Sprintf(findsDriver, c.does), c.with...)).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		grant(t, r.next(t, "grow")) // it has bound before it allocates
		p.hear("launched")
		if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Unable || was.Why != c.why {
			t.Errorf("%s: %v, %q, want %q", name, was.Outcome, was.Why, c.why)
		}
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// findsDriver is an object that does something with the driver before the program begins.
const findsDriver = `#define _GNU_SOURCE
#include <dlfcn.h>
#define CONTEXT "\x21\x31\x8c\x60\x97\x14\x32\x48\x8c\xa6\x41\xff\x73\x24\xc8\xf2"
#define STORAGE "\xc6\x93\x33\x6e\x11\x21\xdf\x11\xa8\xc3\x68\xf3\x55\xd8\x95\x93"
#define UNKNOWN "\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11\x11"
#define need(condition) do { if (!(condition)) __builtin_trap(); } while (0)
const char reaches[] = "libcuda.so.1";
typedef int (*functions[6])(unsigned long, unsigned, unsigned long);
static inline void *find(const char *name) { return dlsym(dlopen("libcuda.so.1", RTLD_NOW), name); }
static inline functions *table(const char *id)
{
	functions *found = 0;
	((int (*)(functions **, const char *))find("cuGetExportTable"))(&found, id);
	return found;
}
__attribute__((constructor)) static void begin(void) { %s; }
`

// What a part asks for that gives the device no work changes nothing, and neither does what it has and does not call.
func TestLazyTakesMemoryBesideHarmlessCalls(t *testing.T) {
	driver := absolute(t, fakeDir, "build/13/libcuda.so.1")
	for name, c := range map[string]struct {
		does string
		with []string
	}{
		"work that passes the gate": {`find("cuMemcpyDtoDAsync_v2"); find("cuMemFree_v2"); dlsym(RTLD_DEFAULT, "cuLaunchKernel")`, nil},
		"no work":                   {`find("cuDeviceGetCount"); find("cuEventRecord")`, nil},
		"looked up only":            {`find("cuMemExportToShareableHandle"); find("cuCtxCreate_v2")`, nil},
		"tables":                    {`table(CONTEXT)[0][4](0, 0, 0); table(CONTEXT)[0][4](0, 0, 0); table(STORAGE)[0][2](0, 0, 0)`, nil},
		"by their versions": {`need(dlvsym(RTLD_DEFAULT, "malloc", "GLIBC_2.2.5")); need(!dlvsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyPeer", "1"));
			void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
			need(dlvsym(runtime, "cudaMalloc", "libcudart.so.13") == dlsym(runtime, "cudaMalloc"))`, nil},
		"nothing":     {``, nil},
		"CUDA, apart": {`dlopen("libcuda.so.1", RTLD_NOW | RTLD_DEEPBIND)`, nil},
		"linked":      {`extern int cuDriverGetVersion(int *); int v; cuDriverGetVersion(&v); extern int cuMemAlloc_v2(void *); static int (*volatile f)(void *) = cuMemAlloc_v2; (void)f`, []string{driver}},
	} {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, "13", "lazy_program", "resumes_in_a_thread", movable, preloaded(t, "part.so", fmt.Sprintf(findsDriver, c.does), c.with...)).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		grant(t, r.next(t, "grow"))
		p.hear("launched")
		if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Done || was.Moved.Bytes != 16<<20 {
			t.Errorf("%s: %+v", name, was)
		}
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// A thread whose first call has to ask for memory brings it back.
func TestLazyResumesInANewThread(t *testing.T) {
	for _, version := range cudaVersions {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, version, "lazy_program", "resumes_in_a_thread", movable).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		p.hear("launched")
		mustRevoke(t, s, begin.ID, 1, schedulers.Revocation{Action: schedulers.Yield, Bytes: 1 << 40, Deadline: patience})
		more := r.next(t, "more")
		giveSwap(t, more, fakeChunks(t, int(more.Bytes/moving.Chunk), moving.Chunk))
		if was := r.next(t, "revoked").Answer(); was.Outcome != schedulers.Done || was.Moved.Bytes != 16<<20 {
			t.Errorf("CUDA %s: %+v", version, was)
		}
		p.goOn()
		grant(t, r.next(t, "resume"))
		p.finish(grant).mustSucceed()
		p.lines = append([]string{"launched"}, p.lines...)
		nativeIn := lazyCommand(t, version, "resumes_in_a_thread")
		nativeIn.Stdin = strings.NewReader("\n")
		out, err := nativeIn.Output()
		if want := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); err != nil || !slices.Equal(p.lines, want) {
			t.Errorf("CUDA %s: %v\n%s\nwant\n%s\n%s", version, err, p.lines, want, p.stderr.String())
		}
	}
}

// The program is told of the device's memory less its own, wherever its own is now, and whatever others
// have on the device.
func TestLazyTellsFreeMemoryBesideItsOwn(t *testing.T) {
	for _, version := range cudaVersions {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, version, "lazy_program", "free_memory", movable).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		p.hear("nothing: 1016 and 1016 of 1024 MiB") // but for the device heap
		grant(t, r.next(t, "grow"))
		p.hear("64 MiB: 952 and 952 of 1024 MiB")
		p.hear("allocated")
		if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Done || was.Moved.Bytes != 64<<20 {
			t.Errorf("CUDA %s: %+v", version, was)
		}
		p.goOn()
		p.hear("still: 952 and 952 of 1024 MiB")
		p.finish(grant).mustSucceed()
	}
}
