package lazytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caserun/caserun/schedulers"
)

func fakePart(t *testing.T) string {
	t.Helper()
	path := absolute(t, lazyDir, "build/13/part.so")
	return path
}

// A library that calls the driver works on the program's memory while the scheduler takes it: what the
// driver is asked for passes the gate too.
func TestLazyKeepsResultsOfWorkForTheDriver(t *testing.T) {
	for n, env := range [][]string{nil, {"FAKE_CUDA_KERNEL_US=2000"}, {"FAKE_CUDA_KERNEL_US=300"}} {
		t.Run(strings.Join(env, " "), func(t *testing.T) {
			t.Parallel()
			program := "beside_part " + fakePart(t)
			p, k := startTaking(t, uint64(n), cudaVersions[n%2], program, env...)
			p.finish(k.answer).mustSucceed()
			p.wantNative()
			done, freed := k.count()
			t.Logf("%d of %d revocations done, %d MiB freed", done, len(k.revoked), freed>>20)
			unable := slices.IndexFunc(k.revoked, func(r schedulers.Revoked) bool {
				return r.Outcome == schedulers.Unable && !strings.HasSuffix(r.Why, "may call the driver")
			})
			if done < 3 || freed == 0 || unable >= 0 {
				t.Errorf("%d revocations done, %d bytes freed: want some; unable: %d", done, freed, unable)
			}
		})
	}
}

// Where work may reach the driver past the gate, memory stays where it is, and the answer says why.
func TestLazyTakesNoMemoryFromWorkPastTheGate(t *testing.T) {
	const driverName = "libcuda.so.1"
	const find = "#define _GNU_SOURCE\n#include <dlfcn.h>\n__attribute__((constructor)) static void find(void) { %s; }\n"
	driver := absolute(t, fakeDir, "build/13/libcuda.so.1")
	for name, c := range map[string]struct {
		does string
		with []string
		why  string
	}{
		"internal functions":        {`dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuGetExportTable")`, nil, "a part of the program calls cuGetExportTable"},
		"a context of its own":      {`dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxCreate_v2")`, nil, "a part of the program calls cuCtxCreate"},
		"the function after itself": {`dlsym(RTLD_NEXT, "cuLaunchKernel")`, nil, "a part of the program calls cuLaunchKernel"},
		"in the whole process":      {`dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL); dlsym(RTLD_DEFAULT, "cuGetExportTable")`, nil, "a part of the program calls cuGetExportTable"},
		"it has not looked yet":     {`static const char *volatile name = "libcuda.so.1"; (void)name`, nil, "part.so may call the driver"},
		"it exports memory":         {`static const char *volatile name = "cudaIpcGetMemHandle"; (void)name`, nil, "memory may be exported to other processes by part.so"},
		"it is linked":              {`extern int cuDriverGetVersion(int *); int version; cuDriverGetVersion(&version)`, []string{driver}, "part.so is linked with the driver"},
	} {
		s, r := startRevoking(t, moving)
		p := prepareLazyAt(t, s, r, "13", "lazy_program", "resumes_in_a_thread", movable, preloaded(t, "part.so", fmt.Sprintf(find, c.does), c.with...)).start()
		begin := r.next(t, "begin")
		grant(t, begin)
		if strings.Contains(c.does, driverName) || strings.Contains(c.does, "Ipc") || c.with != nil { // it binds before it allocates
			grant(t, r.next(t, "grow"))
		}
		p.hear("launched")
		if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Unable || was.Why != c.why {
			t.Errorf("%s: %v, %q, want %q", name, was.Outcome, was.Why, c.why)
		}
		p.goOn()
		p.finish(grant).mustSucceed()
	}
}

// What a part asks for that gives the device no work changes nothing.
func TestLazyTakesMemoryBesideHarmlessCalls(t *testing.T) {
	const find = `#define _GNU_SOURCE
#include <dlfcn.h>
__attribute__((constructor)) static void find(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	dlsym(driver, "cuDeviceGetCount");
	dlsym(driver, "cuMemcpyDtoDAsync_v2");
	dlsym(driver, "cuEventRecord");
	dlsym(driver, "cuMemFree_v2");
	dlsym(RTLD_DEFAULT, "cuLaunchKernel");
}`
	s, r := startRevoking(t, moving)
	p := prepareLazyAt(t, s, r, "13", "lazy_program", "resumes_in_a_thread", movable, preloaded(t, "part.so", find)).start()
	begin := r.next(t, "begin")
	grant(t, begin)
	grant(t, r.next(t, "grow"))
	p.hear("launched")
	if was := evictAll(t, p, begin.ID); was.Outcome != schedulers.Done || was.Moved.Bytes != 16<<20 {
		t.Errorf("%+v", was)
	}
	p.goOn()
	p.finish(grant).mustSucceed()
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
