package schedshm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caserun/caserun/runner/probe/probetest"
)

// api is a client of schedgpu.h (native/probe/tests/api.c).
func api(t *testing.T, env []string) apiClient {
	t.Helper()
	return apiClient{probetest.Start(t, native(t, "build/api"), env...)}
}

// apiClient is a process that native/probe/tests/api.c describes.
type apiClient struct{ *client }

// gets sends a line and expects the result want.
func (c apiClient) gets(want, format string, args ...any) {
	c.Say(format, args...)
	c.Hear(want)
}

// The client API behaves the same with both architectures.
func TestClientAPI(t *testing.T) {
	play(t, node{capacity: 1000 * mib}, "fifo", func(s scene) {
		c := api(s.TB.(*testing.T), s.env(0))
		c.gets("0", "init")
		c.gets("0", "init")
		c.gets("0", "pre %d 0 0", 600*mib)
		c.gets("0", "pre %d 0 none", 100*mib)
		s.uses(700 * mib)
		c.gets("1", "post %d 0", 701*mib)
		c.gets("1", "post %d 1", mib)
		c.gets("0", "post %d 0", 50*mib) // part of the second task
		s.uses(650 * mib)
		c.gets("0", "post %d 0", 300*mib) // the remainder of the second task and part of the first
		s.uses(350 * mib)
		c.gets("1 0 0", "child %d 0", 200*mib)
		c.gets("600", "pre %d 0 none", 700*mib)
		c.gets("600", "pre %d 0 20", 700*mib)
		c.gets("2", "pre %d 0 none", 1001*mib)
		c.gets("101", "pre %d 1 none", mib)
		c.gets("101", "pre %d -1 none", mib)
		c.gets("101", "post %d -1", mib)
		s.uses(350 * mib)
		other := api(s.TB.(*testing.T), s.env(0))
		other.Say("pre %d 0 0", 1000*mib) // it needs no schedGPUInit
		s.wait(1)
		c.gets("0", "post %d 0", 350*mib)
		other.Hear("0")
		c.Finish()
		other.Finish()
		s.settled()
	})
}

// Without a scheduler the API returns an error.
func TestClientAPIAlone(t *testing.T) {
	c := api(t, []string{"CASE_SOCKET=/nonexistent/socket", "CASE_TOKEN=" + strings.Repeat("0", 32)})
	c.gets("3", "init")
	c.gets("3", "pre %d 0 0", mib)
	if text := c.Finish(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "No such file or directory") {
		t.Errorf("stderr %q", text)
	}
}

// Without a run the clients of a user share a file that the first client makes.
func TestClientAPIWithoutARun(t *testing.T) {
	env := alone(t, filepath.Join(memory(t), "state"))
	a, b := api(t, env), api(t, env)
	a.gets("0", "pre %d 3 0", 15<<30)
	b.gets("600", "pre %d 3 none", 2<<30)
	b.gets("0", "pre %d 2 none", 2<<30)
	b.gets("101", "pre %d 4 none", mib)
	a.gets("0", "post %d 3", 15<<30)
	a.Finish()
	b.gets("0", "pre %d 3 0", 14<<30)
}
