package client

import (
	"bytes"
	"context"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/assembly"
	"berth/client/drivers/drivertest"
	"berth/rpc"
	"berth/structs"
	"berth/test/kit"
)

// agentMain is a real agent in a separate process, which the tests start and kill.
func agentMain(dataDir, server string) int {
	cfg := DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = dataDir
	withoutCNI(cfg)
	cfg.Servers = []string{server}
	cfg.Version = "test"
	cfg.Drivers.RawExec.Enabled = true
	c, err := New(cfg, Deps{Logger: hclog.New(&hclog.LoggerOptions{
		Level:  hclog.Debug,
		Output: os.Stderr,
	})})
	if err != nil {
		println(err.Error())
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c.Run(ctx)
	return 0
}

// restarted is this machine with an agent on it and fake servers.
type restarted struct {
	t       *testing.T
	dir     string
	servers *fakeServers
	addr    string
	agent   *exec.Cmd
	log     *bytes.Buffer
}

func newMachine(t *testing.T) *restarted {
	t.Helper()
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root: the exec driver makes namespaces and mounts")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	m := &restarted{t: t, dir: dir, servers: newFakeServers(), log: &bytes.Buffer{}}
	m.addr = m.servers.listen(t)
	t.Cleanup(func() { // also after a cleanup that gave up
		m.kill()
		if t.Failed() {
			t.Logf("the agents' logs:\n%s", m.log)
		}
	})
	t.Cleanup(func() {
		m.clear()
		m.kill()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return m
}

// listen serves the methods of the fake servers on loopback until the end of the test.
func (p *fakeServers) listen(t *testing.T) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.servers = []string{ln.Addr().String()}
	ctx, cancel := context.WithCancel(context.Background())
	l := rpc.NewListener(ln, hclog.NewNullLogger(),
		map[byte]func(net.Conn){rpc.ByteMux: p.rpc.ServeMux})
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		p.rpc.Close()
		wg.Wait()
	})
	return p.servers[0]
}

func (m *restarted) start() {
	m.t.Helper()
	m.agent = exec.Command(os.Args[0], "agent-under-test", m.dir, m.addr)
	m.agent.Stderr = m.log
	if err := m.agent.Start(); err != nil {
		m.t.Fatal(err)
	}
}

// kill ends the agent as a power switch would.
func (m *restarted) kill() {
	m.end(syscall.SIGKILL)
}

func (m *restarted) end(sig syscall.Signal) {
	if m.agent == nil {
		return
	}
	_ = m.agent.Process.Signal(sig)
	_ = m.agent.Wait()
	m.agent = nil
}

func (m *restarted) until(condition string, cond func() bool) {
	m.t.Helper()
	waitUntil(m.t, condition, cond)
}

// waitUntil waits for a condition. It fails the test if that takes too long.
func waitUntil(t *testing.T, condition string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", condition)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// newConnected returns a client of fake servers behind a real connection. It is not running.
func newConnected(t *testing.T, addr string) *Client {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Enabled = true
	cfg.DataDir = t.TempDir()
	withoutCNI(cfg)
	cfg.Servers = []string{addr}
	fake := drivertest.NewMachine()
	signals := newSignals()
	close(signals.ready)
	noInfos := func() map[string]*structs.DriverInfo { return nil }
	c, err := New(cfg, Deps{Build: func(assembly.Parts) (*assembly.Subsystems, error) {
		return &assembly.Subsystems{
			Drivers: fakeDrivers{signals, fake.Drivers(), noInfos},
			Plugins: &fakePlugins{signals: signals},
		}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConnection_IsMadeAgainAtOnce(t *testing.T) {
	p := newFakeServers()
	p.ttl = time.Hour // no heartbeat is due
	c := newConnected(t, p.listen(t))
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { c.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	var first, now *rpc.Session
	waitUntil(t, "the node has registered", func() bool {
		p.do(func() { first = p.session })
		return first != nil
	})
	first.Close()
	waitUntil(t, "the servers can call it again", func() bool {
		p.do(func() { now = p.session })
		return now != first
	})
}

// TestWaitBeat_EndsWithTheConnectionOfTheHeartbeat: another call has made a new connection before the node
// waits for its next heartbeat. The servers do not know yet that this one is the node's.
func TestWaitBeat_EndsWithTheConnectionOfTheHeartbeat(t *testing.T) {
	p := newFakeServers()
	addr := p.listen(t)
	c := newConnected(t, addr)
	defer c.close()
	renewed, err := c.registration.renewLease(t.Context(), c.registration.register, 0)
	if err != nil {
		t.Fatal(err)
	}
	pool := c.pool.(*rpc.Pool)
	used, err := pool.Session(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	p.do(func() { p.session.Close() })
	waitUntil(t, "there is a new connection", func() bool {
		s, err := pool.Session(t.Context(), addr)
		return err == nil && s != used
	})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(ended)
		c.registration.waitBeat(ctx, time.Hour, renewed)
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("no heartbeat is due after the connection of the last one was lost")
	}
	cancel()
	<-ended
}

// A server that rejects connections is asked once in a heartbeat, and the next one serves it.
func TestRenewLease_ConnectsOnceToAServerThatIsDown(t *testing.T) {
	p := newFakeServers()
	up := p.listen(t)
	c := newConnected(t, up)
	defer c.close()
	const down = "down:1"
	dials := 0
	pool := rpc.NewPool(func(addr string, timeout time.Duration) (net.Conn, error) {
		if addr == down {
			dials++
			return nil, syscall.ECONNREFUSED
		}
		return rpc.Dial(addr, timeout)
	}, hclog.NewNullLogger(), nil)
	defer pool.Close()
	c.pool = pool
	c.servers.Set([]string{down, up})
	_, err := c.registration.renewLease(t.Context(), c.registration.register, 0)
	if err != nil || dials != 1 {
		t.Errorf("got %v after %d attempts to connect, want one", err, dials)
	}
}

func (m *restarted) runsAlloc(id string) func() bool {
	return func() bool { return m.servers.status(id) == structs.AllocRunning }
}

// lastEvent is the type of the last event of the task of an allocation.
func (m *restarted) lastEvent(id string) (last string) {
	m.servers.do(func() {
		if s := m.servers.allocs[id].TaskStates["web"]; s != nil && len(s.Events) > 0 {
			last = s.Events[len(s.Events)-1].Type
		}
	})
	return last
}

func (m *restarted) updates() (n int) {
	m.servers.do(func() { n = m.servers.updates })
	return n
}

// clear makes the agent remove everything that a failed test has left: plugins after the allocations that
// have volumes of them.
func (m *restarted) clear() {
	if m.agent == nil {
		m.start()
	}
	isPlugin := func(id string) bool { return id == "plug" }
	m.remove(func(id string) bool { return !isPlugin(id) })
	m.remove(isPlugin)
}

// remove makes the agent remove some of its allocations.
func (m *restarted) remove(which func(id string) bool) {
	m.servers.do(func() {
		maps.DeleteFunc(m.servers.allocs, func(id string, _ *structs.Allocation) bool { return which(id) })
		m.servers.index++
		m.servers.wake()
	})
	m.until("the removed allocations have left nothing", func() bool {
		left, _ := os.ReadDir(filepath.Join(m.dir, "alloc"))
		return !slices.ContainsFunc(left, func(e os.DirEntry) bool { return which(e.Name()) })
	})
}

// read reads a file below the data directory, "" if it is not there.
func (m *restarted) read(path string) string {
	b, _ := os.ReadFile(filepath.Join(m.dir, path))
	return strings.TrimSpace(string(b))
}

// execAlloc runs a script with the exec driver.
func execAlloc(id, script string) *structs.Allocation {
	a := testAlloc(id)
	t := a.Job.TaskGroups[0].Tasks[0]
	t.Driver, t.Config = "exec", map[string]any{
		"command": "/bin/sh",
		"args":    []any{"-c", script},
	}
	t.KillTimeout = time.Second
	t.Resources = &structs.Resources{CPU: 100, MemoryMB: 32}
	return a
}

// processesOf returns the processes on this machine whose command line has the text.
func processesOf(t *testing.T, text string) (pids []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(line), text) { // it may have ended since
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	return pids
}

func TestKilledAgent_LeavesItsTasks(t *testing.T) {
	m := newMachine(t)
	m.start()
	// Each start appends a line. The pulse file shows that the process runs.
	marker := "marker-" + structs.NewID() // in the command line of the task's processes
	m.servers.place(execAlloc("a1", `: `+marker+
		`; echo start $NOMAD_ALLOC_ID >> /alloc/data/starts; while :; do date +%s%N > ${BERTH_TASK_DIR}/pulse; sleep 0.05; done`))
	m.until("the allocation runs", m.runsAlloc("a1"))
	m.until("the task has written", func() bool { return m.read("alloc/a1/web/local/pulse") != "" })
	if len(processesOf(t, marker)) == 0 {
		t.Fatal("no process of the task is found by its marker")
	}
	m.kill()
	before := m.read("alloc/a1/web/local/pulse")
	m.until("the task writes without an agent",
		func() bool { return m.read("alloc/a1/web/local/pulse") != before })
	m.start()
	m.until("the next agent reports that it has the task", func() bool {
		return m.lastEvent("a1") == structs.TaskEventRestored
	})
	before = m.read("alloc/a1/web/local/pulse")
	m.until("the task writes beside the next agent",
		func() bool { return m.read("alloc/a1/web/local/pulse") != before })
	if got := m.read("alloc/a1/alloc/data/starts"); got != "start a1" {
		t.Errorf("started: %q", got)
	}
	m.end(syscall.SIGTERM) // and once more, in order
	m.start()
	m.until("the allocation runs", m.runsAlloc("a1"))
	m.servers.stopAlloc("a1")
	m.until("it is stopped", func() bool {
		return m.servers.status("a1") == structs.AllocComplete
	})
	if pids := processesOf(t, marker); len(pids) > 0 {
		t.Errorf("the processes %v of the task live although it was stopped", pids)
	}
	m.servers.remove("a1")
	m.until("its directory is gone", func() bool {
		_, err := os.Stat(filepath.Join(m.dir, "alloc", "a1"))
		return os.IsNotExist(err)
	})
}

func TestKilledAgent_NextReportsAnEnd(t *testing.T) {
	m := newMachine(t)
	m.start()
	a := execAlloc("a1", `until [ -e /alloc/data/go ]; do sleep 0.02; done; exit 7`)
	a.Job.Type = structs.JobBatch
	a.Job.TaskGroups[0].RestartPolicy = &structs.RestartPolicy{Mode: "fail"}
	m.servers.place(a)
	m.until("the allocation runs", m.runsAlloc("a1"))
	m.kill()
	err := os.WriteFile(filepath.Join(m.dir, "alloc/a1/alloc/data/go"), nil, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	m.start()
	m.until("the end is reported", func() bool {
		return m.servers.status("a1") == structs.AllocFailed
	})
	m.servers.do(func() {
		for _, e := range m.servers.allocs["a1"].TaskStates["web"].Events {
			if e.Type == structs.TaskEventTerminated && e.ExitCode != 7 {
				t.Errorf("exit code %s", strconv.Itoa(e.ExitCode))
			}
		}
	})
	m.servers.remove("a1")
	m.until("its directory is gone", func() bool {
		_, err := os.Stat(filepath.Join(m.dir, "alloc", "a1"))
		return os.IsNotExist(err)
	})
}
