package ui

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// site is a directory with the machines of a cluster, and with the storage that they share.
type site struct {
	t       *testing.T
	program string // berth
	fixture string // test/pagefixture, which is the plugin
	dir     string
}

// newSite makes a directory for machines. It skips the test without a binary (BERTH_BIN) or without root.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, program: os.Getenv("BERTH_BIN")}
	if s.program == "" {
		t.Skip("needs a berth binary (BERTH_BIN)")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: it makes namespaces and mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b") // short: sockets are below it
	if err != nil {
		t.Fatal(err)
	}
	s.dir = dir
	t.Cleanup(func() {
		err := errors.Join(s.removeCgroups(), os.RemoveAll(dir))
		if err != nil {
			t.Errorf("something of the machines is still there: %v", err)
		}
	})
	for _, d := range []string{"proc", "machines", "hold"} { // see test/shelf
		err := os.MkdirAll(s.shelf(d), 0o700)
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// shelf is a path in the directory of the plugin.
func (s *site) shelf(elem ...string) string {
	return filepath.Join(append([]string{s.dir, "shelf"}, elem...)...)
}

// socket is the operator socket of a machine.
func (s *site) socket(machine string) string { return filepath.Join(s.dir, machine, "berth.sock") }

// write writes a file of the site and returns its path.
func (s *site) write(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.dir, name)
	err := os.WriteFile(path, []byte(text), 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	return path
}

// removeCgroups removes what the tasks of machines without power have left. A cgroup is busy until the kernel
// has reaped its processes, and tells nobody.
func (s *site) removeCgroups() (err error) {
	for limit := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		left := 0
		for _, inside := range []string{"/*", ""} { // first the tasks, then their parents
			for _, root := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} { // v2 and v1
				groups, _ := filepath.Glob(root + filepath.Base(s.dir) + "-*" + inside)
				for _, g := range groups {
					info, statErr := os.Stat(g)
					if statErr != nil || !info.IsDir() {
						continue
					}
					rmErr := syscall.Rmdir(g)
					if rmErr != nil {
						left++
						err = fmt.Errorf("%s: %w", g, rmErr)
					}
				}
			}
		}
		if left == 0 {
			return nil
		}
		if time.Now().After(limit) {
			return err
		}
	}
}

// machineScript is the first process of a machine, and reaps what its agent leaves. Its arguments are where
// the plugin finds the processes of all machines, and the command of the agent.
const machineScript = `mount --make-rprivate / && mount --rbind /proc "$1" && mount -t proc proc /proc &&
mount -t tmpfs tmpfs /run || exit 1
shift
"$@" &
wait`

// machine is an agent with processes and mounts of its own: all of them end with the first process, as by a
// loss of power, and also with the tests.
type machine struct {
	*site
	name  string
	cmd   *exec.Cmd
	out   printed
	addr  string // http://host:port
	ended chan struct{}
}

// nodeConfig keeps an agent from the Consul and the CNI plugins of the real machine. The plugin mounts in the
// namespace of its machine, so it runs without isolation.
const nodeConfig = `consul {
  address = ""
}
client {
  cni_path = "/nonexistent"
  drivers {
    exec {
      cgroup_parent = %[1]q
    }
    raw_exec {
      enabled       = true
      cgroup_parent = %[1]q
    }
  }
}
server {
  heartbeat_ttl   = "5s"
  heartbeat_grace = "5s"
}
`

// powerOn starts a machine, and waits until its agent serves HTTP.
func (s *site) powerOn(name string, args ...string) *machine {
	s.t.Helper()
	config := s.write(name+".hcl", fmt.Sprintf(nodeConfig, filepath.Base(s.dir)+"-"+name))
	all := append([]string{"-c", machineScript, "sh", s.shelf("proc"), s.program, "agent",
		"-data-dir", filepath.Join(s.dir, name), "-bind", "127.0.0.1", "-name", name, "-config", config,
		"-http-port", "0", "-rpc-port", "0", "-serf-port", "0"}, args...)
	m := &machine{site: s, name: name, cmd: exec.Command("sh", all...), ended: make(chan struct{})}
	m.out.found = make(chan string, 1)
	m.cmd.Stdout = &m.out
	m.cmd.Stderr = &m.out
	m.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the death signal is bound to it
		defer runtime.UnlockOSThread()
		err := m.cmd.Start()
		started <- err
		if err == nil {
			_ = m.cmd.Wait() // until all processes of its namespace have ended
			close(m.ended)
		}
	}()
	err := <-started
	if err != nil {
		s.t.Fatalf("starting %s: %v", name, err)
	}
	s.t.Cleanup(func() {
		m.powerOff()
		if s.t.Failed() {
			s.t.Logf("%s wrote\n%s", name, m.out.String())
		}
	})
	err = os.Symlink(fmt.Sprintf("../proc/%d/mountinfo", m.cmd.Process.Pid), s.shelf("machines", name))
	if err != nil {
		s.t.Fatal(err)
	}
	select {
	case m.addr = <-m.out.found:
	case <-m.ended:
		s.t.Fatalf("%s ended without saying where it serves HTTP", name)
	}
	return m
}

// powerOff ends all processes and mounts of the machine, and waits for that. The plugin sees that it is off.
func (m *machine) powerOff() {
	_ = m.cmd.Process.Kill()
	<-m.ended
	_ = os.Remove(m.shelf("machines", m.name))
}

// printed is the output of an agent.
type printed struct {
	mu    sync.Mutex
	text  bytes.Buffer
	found chan string // the address of its HTTP API, once
	told  bool
}

// Write keeps a part of the output.
func (p *printed) Write(part []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text.Write(part)
	_, after, begun := strings.Cut(p.text.String(), "HTTP API:")
	addr, _, whole := strings.Cut(after, "\n")
	if begun && whole && !p.told {
		p.told = true
		p.found <- strings.TrimSpace(addr)
	}
	return len(part), nil
}

// String returns the end of the output.
func (p *printed) String() string {
	const most = 12000
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.text.String()
	return text[max(0, len(text)-most):]
}

// forward leads connections of a port of its own to a socket, as ssh -L does, until the test ends.
func forward(t *testing.T, socket string) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for {
			from, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() { tunnel(from, socket) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		open.Wait()
	})
	return "http://" + ln.Addr().String()
}

// tunnel copies what both sides of a connection send, until the socket has sent all.
func tunnel(from net.Conn, socket string) {
	defer from.Close()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close() // the browser has gone
	}()
	_, _ = io.Copy(from, to)
}
