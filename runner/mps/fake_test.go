package mps

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary acts as nvidia-cuda-mps-control and -server when it is started under their
// names. Its answers equal driver 580's byte for byte. Tests control it by commands that start
// with "fake_", and by words in FAKE_MPS.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case control:
		if len(os.Args) > 1 && os.Args[1] == "-f" {
			os.Exit(fakeDaemon())
		}
		os.Exit(fakeFrontEnd())
	case serverProgram:
		// Like NVIDIA's, it ends with its control daemon.
		_, _ = io.Copy(io.Discard, os.Stdin)
		if fakeIs("stubborn-server") {
			time.Sleep(time.Hour)
		}
		os.Exit(0)
	}
	if os.Getenv("MPS_TEST_HARNESS") != "" {
		os.Exit(harness())
	}
	os.Exit(m.Run())
}

func fakeIs(word string) bool {
	return slices.Contains(strings.Fields(os.Getenv("FAKE_MPS")), word)
}

func fakeSocket() string {
	return filepath.Join(os.Getenv("CUDA_MPS_PIPE_DIRECTORY"), "control")
}

func fakeFrontEnd() int {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return 1
	}
	conn, err := net.Dial("unix", fakeSocket())
	if err != nil {
		fmt.Println("Cannot find MPS control daemon process")
		return 1
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, line); err != nil {
		return 1
	}
	if fakeIs("quits-before-it-answers") && strings.HasPrefix(line, "quit") {
		fmt.Println("Cannot find MPS control daemon process")
		return 1
	}
	answer, err := io.ReadAll(conn)
	fmt.Print(string(answer))
	if err != nil || string(answer) == fakeRefusal {
		return 1
	}
	return 0
}

const fakeRefusal = "Cannot send command to MPS control daemon process\n"

type fakeState struct {
	server  *exec.Cmd
	ended   chan struct{} // closed when the server has
	stdin   io.Closer
	clients []string
	status  string
	refuses int // of the next commands
}

func fakeDaemon() int {
	pipe := os.Getenv("CUDA_MPS_PIPE_DIRECTORY")
	fmt.Printf("[Control %d] Starting control daemon using socket %s\n", os.Getpid(), fakeSocket())
	if fakeIs("fails-at-start") {
		fmt.Println("[Control] Failed to start: an MPS client is not allowed here")
		return 7
	}
	if err := os.WriteFile(filepath.Join(pipe, control+".pid"), fmt.Append(nil, os.Getpid()), 0o666); err != nil {
		fmt.Println(err)
		return 1
	}
	if fakeIs("never-answers") {
		time.Sleep(time.Hour)
	}
	l, err := net.Listen("unix", fakeSocket())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	s := fakeState{status: "ACTIVE"}
	for {
		conn, err := l.Accept()
		if err != nil {
			return 1
		}
		line, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil { // the front end was killed before it said anything
			conn.Close()
			continue
		}
		fmt.Printf("[Control %d] Cmd:%s", os.Getpid(), line)
		if quit := s.answer(conn, strings.Fields(line)); quit {
			if fakeIs("quits-before-it-answers") {
				_, _ = io.Copy(io.Discard, conn) // until the front end has ended
				awaitCollected(conn)
			}
			conn.Close()
			return 0
		}
		conn.Close()
	}
}

// awaitCollected returns once the process at the other end has been waited for, so that its end is known. Its parent is another
// process, so only a look can tell.
func awaitCollected(conn net.Conn) {
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		panic(err)
	}
	var peer *unix.Ucred
	if e := raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); e != nil || err != nil {
		panic(errors.Join(e, err))
	}
	for unix.Kill(int(peer.Pid), 0) == nil {
		time.Sleep(time.Millisecond)
	}
}

func (s *fakeState) serverPID() string {
	if s.server == nil {
		return ""
	}
	return fmt.Sprint(s.server.Process.Pid)
}

func (s *fakeState) answer(w io.Writer, argv []string) (quit bool) {
	known := func() bool {
		if len(argv) < 2 || argv[1] != s.serverPID() {
			fmt.Fprintf(w, "Server %s not found\n", argv[1])
			return false
		}
		return true
	}
	if s.server != nil {
		select {
		case <-s.ended:
			fmt.Printf("[Control] Server %s exited with status 9\n", s.serverPID())
			s.server, s.clients, s.status = nil, nil, "ACTIVE"
		default:
		}
	}
	// A server is healthy again once its last client has gone, unless the test says when.
	if fakeIs("recovers") && len(s.clients) == 0 {
		s.status = "ACTIVE"
	}
	if s.refuses > 0 {
		s.refuses--
		argv = []string{"refused"}
	}
	switch argv[0] {
	case "refused":
		fmt.Fprint(w, fakeRefusal)
	case "fake_refuses":
		s.refuses, _ = strconv.Atoi(argv[1])
	case "get_server_list":
		if s.server != nil {
			fmt.Fprintln(w, s.serverPID())
		}
	case "get_server_status":
		if known() {
			fmt.Fprintln(w, s.status)
		}
	case "get_client_list":
		if known() {
			for _, c := range s.clients {
				fmt.Fprintln(w, c)
			}
		}
	case "terminate_client":
		if i := slices.Index(s.clients, argv[2]); known() && i >= 0 {
			s.clients = slices.Delete(s.clients, i, i+1)
			fmt.Fprintln(w, 0)
		} else {
			fmt.Fprintf(w, "Invalid process %s!\n1\n", argv[2])
		}
	case "quit":
		if fakeIs("hangs-on-quit") || len(s.clients) > 0 {
			return false
		}
		if s.server != nil {
			s.stdin.Close()
			if !fakeIs("stubborn-server") {
				<-s.ended
			}
		}
		return true
	case "fake_connect":
		if s.server == nil {
			s.startServer()
		}
		s.clients = append(s.clients, argv[1:]...)
	case "fake_unlisted_client":
		s.clients[0] = "1" // the server no longer knows the client that it listed
	case "fake_leave":
		s.clients = slices.DeleteFunc(s.clients, func(c string) bool { return c == argv[1] })
	case "fake_fault":
		s.status = "FAULT"
	case "fake_recover":
		s.status = "ACTIVE"
	case "fake_env":
		for _, kv := range os.Environ() {
			fmt.Fprintln(w, kv)
		}
	case "fake_kill_server":
		_ = s.server.Process.Kill()
		<-s.ended
	case "fake_die":
		fmt.Println("[Control] out of cheese")
		os.Exit(3)
	case "fake_hang":
		time.Sleep(time.Hour)
	default:
		fmt.Fprintf(w, "Unknown command %q\n", strings.Join(argv, " "))
	}
	return false
}

func (s *fakeState) startServer() {
	s.server = exec.Command(filepath.Join(filepath.Dir(os.Args[0]), serverProgram))
	s.stdin, _ = s.server.StdinPipe()
	if err := s.server.Start(); err != nil {
		panic(err)
	}
	server, ended := s.server, make(chan struct{})
	s.ended = ended
	go func() {
		_ = server.Wait()
		close(ended)
	}()
}

// harness acts as a run that is killed: it starts a daemon with a server, prints their PIDs, and
// waits.
func harness() int {
	d, err := start(context.Background(), Config{}, os.Getenv("MPS_TEST_HARNESS"), usual)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := d.command(context.Background(), "fake_connect 77"); err != nil {
		fmt.Println(err)
		return 1
	}
	servers, err := d.listServers(context.Background())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(d.proc.PID(), servers[0])
	<-d.Done()
	return 0
}

// install puts the fake first on PATH.
func install(t *testing.T, words string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{control, serverProgram} {
		if err := os.Symlink(self, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("FAKE_MPS", words)
	// Under -race every process, including each command, sleeps for 1 s when it exits.
	t.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
}
