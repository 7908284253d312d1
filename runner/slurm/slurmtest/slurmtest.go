// Package slurmtest runs a Slurm of four nodes on this machine, for tests: munged, slurmctld and four
// slurmds, as the user of the test, from Debian's packages.
package slurmtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caserun/caserun/runner/child"
)

const (
	// rootVariable names the directory in which .ci/slurm has unpacked the packages. Without it the
	// packages must be installed.
	rootVariable = "CASERUN_TEST_SLURM"
	// nodeVariable names the node of a slurmd and of its slurmstepds. In the processes of jobs, Slurm's own does.
	nodeVariable, jobNodeVariable = "SLURMTEST_NODE", "SLURMD_NODENAME"
	// awaitLimit is how long the longest wait may take, on a machine that has much else to do. The start takes 1 to 2 s on two
	// cores that have not. That a node is down shows after 10 to 20 s.
	awaitLimit = 5 * time.Minute
)

// nodes are the names of the cluster's nodes. Each has four CPUs, 4,000 MB and two fake GPUs. Four jobs may share the first GPU
// (--gres=shard:1).
var nodes = []string{"n1", "n2", "n3", "n4"}

// Cluster is a Slurm that runs until the end of a test.
type Cluster struct {
	// Dir has the configuration, the state and the logs.
	Dir string

	t       testing.TB
	env     []string // of the daemons
	daemons map[string]*child.Process
}

// Start starts a cluster, waits until its nodes are idle, and sets the environment of the test so that
// sbatch and its like use this cluster. extra are lines of slurm.conf that go before those of the
// package. Everything ends with the test, however the test ends.
//
// The test fails if the packages are missing. Files of tests that call it have the tag slurm.
func Start(t testing.TB, extra ...string) *Cluster {
	t.Helper()
	root, plugins := packages(t)
	c := &Cluster{t: t, daemons: map[string]*child.Process{}}
	var err error
	if c.Dir, err = os.MkdirTemp("", "slurm-"); err != nil {
		t.Fatal(err)
	}
	c.guard()
	bin := c.path("bin")
	for name, value := range map[string]string{
		"SLURM_CONF":      c.path("slurm.conf"),
		"PATH":            strings.Join([]string{bin, filepath.Join(root, "usr/bin"), filepath.Join(root, "usr/sbin"), os.Getenv("PATH")}, ":"),
		"LD_LIBRARY_PATH": strings.TrimSuffix(filepath.Dir(plugins)+":"+plugins+":"+os.Getenv("LD_LIBRARY_PATH"), ":"),
	} {
		c.env = append(c.env, name+"="+value)
		t.Setenv(name, value)
	}
	if err := c.write(root, plugins, extra); err != nil {
		t.Fatal(err)
	}
	c.start("munged", "munged", "-F", "--socket="+c.path("munge/socket"), "--key-file="+c.path("munge/key"), "--seed-file="+c.path("munge/seed"),
		"--pid-file="+c.path("munge/pid"), "--log-file="+c.path("log/munged"))
	c.Await("munged listens", func() bool { return exec.Command("munge", "-n", "-S", c.path("munge/socket")).Run() == nil })
	c.StartController()
	for _, node := range nodes {
		c.StartNode(node)
	}
	c.Await("all nodes are idle", func() bool {
		states, _ := exec.Command("sinfo", "-h", "-o", "%D %T").Output()
		return string(states) == fmt.Sprintf("%d idle\n", len(nodes))
	})
	return c
}

// packages finds the packages: the directory that they are in, and Slurm's plugins.
func packages(t testing.TB) (root, plugins string) {
	t.Helper()
	root = os.Getenv(rootVariable)
	if root == "" {
		root = "/"
	}
	var err error
	if root, err = filepath.Abs(root); err != nil {
		t.Fatal(err)
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr/lib/*/slurm-wlm"))
	_, missing := os.Stat(filepath.Join(root, "usr/sbin/slurmctld-wlm"))
	if missing == nil && len(found) == 1 {
		return root, found[0]
	}
	t.Fatalf("%s has no Debian packages of Slurm: run .ci/slurm DIR and set %s=DIR", root, rootVariable)
	return "", ""
}

func (c *Cluster) path(name string) string { return filepath.Join(c.Dir, name) }

// guard starts a process that waits for the end of this one, or of the test. It then kills every
// process of the cluster, jobs included, and removes the directory. The processes are those whose
// environment names the cluster's configuration: a slurmstepd leaves its slurmd's group and session.
func (c *Cluster) guard() {
	c.t.Helper()
	const script = `trap '' HUP INT TERM
cat
while found=$(grep -lszFx "SLURM_CONF=$0/slurm.conf" /proc/[0-9]*/environ); [ -n "$found" ]; do
	for file in $found; do pid=${file#/proc/}; kill -9 "${pid%/environ}" 2>/dev/null; done
done
rm -rf "$0"`
	guard := exec.Command("/bin/sh", "-c", script, c.Dir)
	guard.Env = []string{"PATH=/usr/bin:/bin"}
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := guard.StdinPipe()
	if err == nil {
		err = guard.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Log(c.logs())
		}
		in.Close()
		if err := guard.Wait(); err != nil {
			c.t.Errorf("end the cluster: %v", err)
		}
		for _, d := range c.daemons {
			<-d.Done()
		}
	})
}

// write makes the directory's files.
func (c *Cluster) write(root, plugins string, extra []string) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	if err := os.Chmod(c.Dir, 0o755); err != nil { // munged wants its socket where everybody may go
		return err
	}
	for _, dir := range []string{"bin", "log", "munge", "state", "spool"} {
		if err := os.Mkdir(c.path(dir), 0o755); err != nil {
			return err
		}
	}
	// A daemon that was started as slurmctld-wlm ignores GRES, because it compares its own name.
	for _, name := range []string{"slurmctld", "slurmd", "slurmstepd"} {
		if err := os.Symlink(filepath.Join(root, "usr/sbin", name+"-wlm"), c.path("bin/"+name)); err != nil {
			return err
		}
	}
	key := make([]byte, 1024)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	ports, err := freePorts(1 + len(nodes))
	if err != nil {
		return err
	}
	var conf bytes.Buffer
	for _, line := range extra {
		fmt.Fprintln(&conf, line)
	}
	fmt.Fprintf(&conf, configuration, c.Dir, host, me.Username, plugins, ports[0])
	for i, node := range nodes {
		fmt.Fprintf(&conf, "NodeName=%s NodeHostname=%s NodeAddr=127.0.0.1 Port=%d CPUs=4 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=4000 Gres=gpu:fake:2,shard:4\n",
			node, host, ports[1+i])
	}
	return errors.Join(
		os.WriteFile(c.path("munge/key"), key, 0o600),
		os.WriteFile(c.path("slurm.conf"), conf.Bytes(), 0o644),
		// A fake GPU is any character device. Nothing is confined, so jobs never open it.
		os.WriteFile(c.path("gres.conf"), []byte("NodeName=n[1-4] Name=gpu Type=fake File=/dev/null,/dev/zero\nNodeName=n[1-4] Name=shard Count=4 File=/dev/null\n"), 0o644),
		os.WriteFile(c.path("cgroup.conf"), []byte("CgroupPlugin=autodetect\n"), 0o644))
}

// configuration is slurm.conf without its nodes. Its arguments are the directory, the host, the user,
// the plugins' directory and the controller's port.
//
// A job that was requeued waits until its old credential has expired, and a node that says nothing is
// down after SlurmdTimeout. Both are short here, so that tests do not wait for minutes.
const configuration = `ClusterName=test
SlurmctldHost=%[2]s(127.0.0.1)
SlurmctldPort=%[5]d
SlurmUser=%[3]s
SlurmdUser=%[3]s
AuthType=auth/munge
AuthInfo=socket=%[1]s/munge/socket,cred_expire=10
CredType=cred/munge
PluginDir=%[4]s
StateSaveLocation=%[1]s/state
SlurmdSpoolDir=%[1]s/spool/%%n
SlurmctldPidFile=%[1]s/slurmctld.pid
SlurmdPidFile=%[1]s/slurmd-%%n.pid
SlurmctldLogFile=%[1]s/log/slurmctld
SlurmdLogFile=%[1]s/log/%%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu,shard
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// freePorts finds TCP ports that nobody listens on. They are below the ports that Linux gives to
// outgoing connections, so that a daemon that was killed finds its port free again.
func freePorts(n int) (ports []int, err error) {
	for range 1000 {
		draw, err := rand.Int(rand.Reader, big.NewInt(16_000))
		if err != nil {
			return nil, err
		}
		port := 16_000 + int(draw.Int64())
		l, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			continue
		}
		defer l.Close()
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("%d of %d TCP ports are free", len(ports), n)
}

// start starts a daemon, which ends with this process.
func (c *Cluster) start(name string, args ...string) { c.t.Helper(); c.startWith(nil, name, args...) }

// startWith starts a daemon with more in its environment.
func (c *Cluster) startWith(env []string, name string, args ...string) {
	c.t.Helper()
	program, err := exec.LookPath(args[0])
	if err != nil {
		c.t.Fatal(err)
	}
	said, err := os.OpenFile(c.path("log/"+name+".stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		c.t.Fatal(err)
	}
	defer said.Close()
	cmd := exec.Command(program, args[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = slices.Concat(c.env, env), said, said
	if c.daemons[name], err = child.Start(cmd, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

// StartController starts slurmctld, with the state that the last one left.
func (c *Cluster) StartController() {
	c.t.Helper()
	c.start("slurmctld", "slurmctld", "-D")
}

// StartNode starts a node's slurmd.
func (c *Cluster) StartNode(node string) {
	c.t.Helper()
	c.startWith([]string{nodeVariable + "=" + node}, node, "slurmd", "-D", "-N", node, "-d", c.path("bin/slurmstepd"))
}

// KillController kills slurmctld with SIGKILL.
func (c *Cluster) KillController() { c.t.Helper(); c.kill("slurmctld") }

// KillNode kills a node's slurmd with SIGKILL. What runs on the node goes on.
func (c *Cluster) KillNode(node string) { c.t.Helper(); c.kill(node) }

// LoseNode ends all of a node at once: its slurmd, what watches its jobs, and the jobs. Nobody tells the controller.
func (c *Cluster) LoseNode(node string) {
	c.t.Helper()
	c.kill(node)
	for _, variable := range []string{nodeVariable, jobNodeVariable} { // who would tell of the jobs' end goes first
		for _, pid := range c.with(variable + "=" + node) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
	}
}

// with are the cluster's processes that have a variable in their environment.
func (c *Cluster) with(variable string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may be gone
		vars := strings.Split(string(text), "\x00")
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err == nil && slices.Contains(vars, variable) && slices.Contains(vars, "SLURM_CONF="+c.path("slurm.conf")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ResumeNodes gives drained nodes back to the cluster, as an administrator does. Slurm drains nodes on which
// a controller that was killed has forgotten tasks.
func (c *Cluster) ResumeNodes() {
	c.t.Helper()
	states, _ := exec.Command("sinfo", "-h", "-N", "-o", "%N %T").Output() // nothing while no controller answers
	for line := range strings.Lines(string(states)) {
		node, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(state, "drain") {
			continue
		}
		if out, err := exec.Command("scontrol", "update", "NodeName="+node, "State=RESUME").CombinedOutput(); err != nil {
			c.t.Logf("resume %s, which is %s: %v: %s", node, state, err, out)
		}
	}
}

// RegisterNodes makes the nodes say which jobs they have, as an administrator does. A controller that was killed may take a job for running that
// no node has, and asks by itself only rarely: slurmctld 22.05 had not asked after 13 minutes. false: no controller answers.
func (c *Cluster) RegisterNodes() bool {
	c.t.Helper()
	return exec.Command("scontrol", "reconfigure").Run() == nil
}

func (c *Cluster) kill(name string) {
	c.t.Helper()
	if err := c.daemons[name].Kill(); err != nil {
		c.t.Fatal(err)
	}
	delete(c.daemons, name)
}

// Await waits until a condition holds, and ends the test if a daemon ends before by itself.
func (c *Cluster) Await(what string, holds func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), awaitLimit)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		for name, d := range c.daemons {
			select {
			case <-d.Done():
				c.t.Fatalf("before %s: %s ended: %v", what, name, d.Err())
			default:
			}
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			c.t.Fatalf("not within %v: %s", awaitLimit, what)
		}
	}
}

// logTail is how much of each log a failed test shows.
const logTail = 4000

// logs are the ends of the daemons' logs.
func (c *Cluster) logs() string {
	var out strings.Builder
	names, _ := filepath.Glob(c.path("log/*"))
	slices.Sort(names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			text = []byte(err.Error())
		}
		if len(text) > 0 {
			fmt.Fprintf(&out, "%s:\n", name)
			_, _ = io.WriteString(&out, string(text[max(0, len(text)-logTail):])+"\n")
		}
	}
	return out.String()
}
