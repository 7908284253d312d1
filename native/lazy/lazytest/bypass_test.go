package lazytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const deepPlugin = `
#include <stdio.h>
int cudaMalloc(void **, unsigned long), cudaMemset(void *, int, unsigned long), cudaFree(void *);
int cudaMemcpy(void *, const void *, unsigned long, int);

void part(void)
{
	void *p = NULL;
	int value = 0, a = cudaMalloc(&p, 1000), b = cudaMemset(p, 1, 1000), c = cudaMemcpy(&value, p, 4, 2), d = cudaFree(p);

	printf("%d %d %d %d value %x\n", a, b, c, d, value);
	fflush(stdout); /* in a namespace of its own nobody else does */
}
`

// It opens the plugin as its second argument says: with RTLD_DEEPBIND, or in a namespace of
// its own.
const deepProgram = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

int main(int count, char **arguments)
{
	int deep = count == 3 && strcmp(arguments[2], "deep") == 0;
	void *opened = deep ? dlopen(arguments[1], RTLD_NOW | RTLD_DEEPBIND) : dlmopen(LM_ID_NEWLM, arguments[1], RTLD_NOW);

	if (opened == NULL)
		return 1;
	((void (*)(void))dlsym(opened, "part"))();
	return 0;
}
`

// What is bound past the preloaded library works as it does natively, and has no task: a known
// limit. A runtime that the program itself is linked with still makes its context on the
// granted device.
func TestLazyIsBypassed(t *testing.T) {
	buildLazy(t)
	runtime := absolute(t, fakeDir, "build/13/libcudart.so.13")
	dir := t.TempDir()
	build := func(name, text string, with ...string) string {
		t.Helper()
		source, out := filepath.Join(dir, name+".c"), filepath.Join(dir, name)
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if said, err := exec.Command("cc", append([]string{"-o", out, source}, with...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		return out
	}
	plugin := build("plugin.so", deepPlugin, "-shared", "-fPIC", runtime)
	without := build("without", deepProgram, "-ldl")
	with := build("with", deepProgram, "-ldl", "-Wl,--no-as-needed", runtime)
	for _, c := range []struct{ program, how, events string }{
		{without, "deep", ""}, {without, "apart", ""}, {with, "apart", ""}, {with, "deep", "begin gone"},
	} {
		p := prepareLazy(t, "13", "", plugin+" "+c.how)
		p.cmd.Path = c.program
		p.start().finish(grant).mustSucceed()
		p.wantLine("0 0 0 0 value 1010101")
		p.wantEvents(c.events)
	}
}
