package connect

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/hooks"
	"berth/consul/mesh"
	"berth/structs"
)

// consulServer answers each line with its name and the line, and ends its direction when the other one has
// ended.
type consulServer struct {
	t    *testing.T
	ln   net.Listener
	away atomic.Bool
}

func startConsul(t *testing.T, name string) *consulServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &consulServer{t: t, ln: ln}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for s := bufio.NewScanner(conn); s.Scan(); {
					fmt.Fprintf(conn, "%s %s\n", name, s.Text())
				}
				fmt.Fprintln(conn, "end")
			}()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-ended })
	return c
}

func (c *consulServer) dial(ctx context.Context) (net.Conn, error) {
	if c.away.Load() {
		return nil, errors.New("away")
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", c.ln.Addr().String())
}

// fixture is an allocation with the sockets of an agent.
type fixture struct {
	*Sockets
	t    *testing.T
	env  *hooks.AllocEnv
	hook hooks.Alloc
	end  func()
}

// newFixture makes an allocation in a directory with a path that is too long for a socket.
func newFixture(t *testing.T, http, grpc Dial) *fixture {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("x", 120))
	if err := os.MkdirAll(filepath.Join(dir, "alloc/tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, env: &hooks.AllocEnv{
		Alloc: &structs.Allocation{ID: "a"},
		Group: &structs.TaskGroup{
			Networks: []*structs.NetworkResource{{Mode: "bridge"}},
			Tasks:    []*structs.Task{{}, {Kind: structs.NewTaskKind(structs.KindConnectNative, "web")}},
		},
		Dir: dir,
	}}
	f.agent(http, grpc)
	return f
}

// agent starts another agent for the allocation.
func (f *fixture) agent(http, grpc Dial) {
	f.t.Helper()
	f.Sockets = NewSockets(http, grpc, hclog.NewNullLogger())
	f.hook = f.Hook(f.env)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); f.Run(ctx) }()
	f.end = func() { cancel(); <-ended }
	f.t.Cleanup(f.end)
}

func (f *fixture) up() {
	f.t.Helper()
	if err := f.hook.Up(f.t.Context(), f.env); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) down() {
	f.t.Helper()
	if err := f.hook.Down(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) path(name string) string { return filepath.Join(f.env.Dir, "alloc", name) }

// dial connects to a socket as a task does.
func (f *fixture) dial(name string) (net.Conn, error) {
	d, err := openShared(filepath.Join(f.env.Dir, "alloc"), name)
	if err != nil {
		f.t.Fatal(err)
	}
	defer d.close()
	return net.Dial("unix", d.path(filepath.Base(name)))
}

func (f *fixture) must(name string) net.Conn {
	f.t.Helper()
	conn, err := f.dial(name)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func checkAnswer(t *testing.T, conn net.Conn, line, want string) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, err := fmt.Fprintln(conn, line)
	if err != nil {
		t.Error(err)
	}
	got, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || got != want+"\n" {
		t.Errorf("the answer is %q, %v; want %q", got, err, want)
	}
}

// checkEnded checks that the other side has ended a connection.
func checkEnded(t *testing.T, conn net.Conn) {
	t.Helper()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	n, err := conn.Read(make([]byte, 1))
	if n > 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection has not ended: %d, %v", n, err)
	}
}

func TestSockets_LeadToConsul(t *testing.T) {
	http := startConsul(t, "http")
	grpc := startConsul(t, "grpc")
	f := newFixture(t, http.dial, grpc.dial)
	f.up()
	f.up() // again: nothing changes
	for name, want := range map[string]string{mesh.HTTPSocket: "http", mesh.GRPCSocket: "grpc"} {
		conn := f.must(name)
		checkAnswer(t, conn, "hello", want+" hello")
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		last, err := bufio.NewReader(conn).ReadString('\n') // the end of one direction leaves the other
		if err != nil || last != "end\n" {
			t.Errorf("after the end of the request: %q, %v", last, err)
		}
		info, err := os.Lstat(f.path(name))
		if err != nil || info.Mode() != os.ModeSocket|0o666 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	http.away.Store(true)
	checkEnded(t, f.must(mesh.HTTPSocket))
	http.away.Store(false)
	conn := f.must(mesh.HTTPSocket)
	checkAnswer(t, conn, "again", "http again")
	f.down()
	f.down()
	checkEnded(t, conn)
	for _, name := range []string{mesh.HTTPSocket, mesh.GRPCSocket} {
		if _, err := os.Lstat(f.path(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
	left, err := os.ReadDir(f.env.Dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// The next agent opens the sockets again in the place of the former agent's, where tasks look for them.
func TestSockets_AreOpenedAgainByTheNextAgent(t *testing.T) {
	c := startConsul(t, "consul")
	f := newFixture(t, c.dial, c.dial)
	f.up()
	conn := f.must(mesh.HTTPSocket)
	checkAnswer(t, conn, "one", "consul one")
	f.end()
	checkEnded(t, conn)
	if _, err := f.dial(mesh.HTTPSocket); err == nil {
		t.Error("a socket of an agent that has ended accepts")
	}
	f.up() // it has ended: nothing listens
	if _, err := f.dial(mesh.HTTPSocket); err == nil {
		t.Error("an agent that has ended opens a socket")
	}
	f.agent(c.dial, c.dial)
	f.up()
	checkAnswer(t, f.must(mesh.HTTPSocket), "two", "consul two")
	f.down()
}

func TestSockets_BoundTheConnections(t *testing.T) {
	c := startConsul(t, "consul")
	f := newFixture(t, c.dial, c.dial)
	f.up()
	var all []net.Conn
	for range maxConnections {
		conn := f.must(mesh.HTTPSocket)
		checkAnswer(t, conn, "x", "consul x")
		all = append(all, conn)
	}
	last := f.must(mesh.HTTPSocket)
	fmt.Fprintln(last, "waits")
	_ = last.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := last.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection over the bound: %v", err)
	}
	_ = all[0].Close()
	_ = last.SetDeadline(time.Now().Add(time.Minute))
	if got, err := bufio.NewReader(last).ReadString('\n'); err != nil || got != "consul waits\n" {
		t.Errorf("after the end of another: %q, %v", got, err)
	}
	f.down()
}

// A task can change the shared directory. The agent follows none of its links, neither for the socket nor for
// its mode or its removal.
func TestSockets_FollowNoLinkOfATask(t *testing.T) {
	c := startConsul(t, "consul")
	f := newFixture(t, c.dial, c.dial)
	outside := t.TempDir()
	victim := filepath.Join(outside, "victim")
	if err := os.WriteFile(victim, []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkVictim := func(when string) {
		t.Helper()
		text, err := os.ReadFile(victim)
		info, statErr := os.Lstat(victim)
		if err != nil || statErr != nil || string(text) != "theirs" || info.Mode() != 0o600 {
			t.Errorf("%s: the file outside is %q, %v, %v", when, text, info, err)
		}
		if left, _ := os.ReadDir(outside); len(left) != 1 {
			t.Errorf("%s: outside are %v", when, left)
		}
	}
	if err := os.Symlink(victim, f.path(mesh.HTTPSocket)); err != nil {
		t.Fatal(err)
	}
	f.up()
	checkAnswer(t, f.must(mesh.HTTPSocket), "x", "consul x")
	checkVictim("with a link in the place of a socket")

	replace := func() {
		t.Helper()
		if err := os.RemoveAll(f.path("tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, f.path("tmp")); err != nil {
			t.Fatal(err)
		}
	}
	replace()
	if err := os.Symlink(victim, filepath.Join(outside, "consul_http.sock")); err != nil {
		t.Fatal(err)
	}
	f.down()
	if _, err := os.Lstat(filepath.Join(outside, "consul_http.sock")); err != nil {
		t.Error("the agent has removed a file outside")
	}
	_ = os.Remove(filepath.Join(outside, "consul_http.sock"))
	if err := f.hook.Up(t.Context(), f.env); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("with a link in the place of the directory: %v", err)
	}
	checkVictim("with a link in the place of the directory")
}

func TestHook_IsForNetworksWithTasksInTheMesh(t *testing.T) {
	f := newFixture(t, nil, nil)
	for name, edit := range map[string]func(g *structs.TaskGroup){
		"no network":   func(g *structs.TaskGroup) { g.Networks = nil },
		"host network": func(g *structs.TaskGroup) { g.Networks[0] = &structs.NetworkResource{Mode: "host"} },
		"no kind":      func(g *structs.TaskGroup) { g.Tasks[1] = &structs.Task{} },
	} {
		g := *f.env.Group
		g.Networks = append([]*structs.NetworkResource{}, g.Networks...)
		g.Tasks = append([]*structs.Task{}, g.Tasks...)
		edit(&g)
		if f.Hook(&hooks.AllocEnv{Alloc: f.env.Alloc, Group: &g}) != nil {
			t.Errorf("%s: there is a hook", name)
		}
	}
}
