package connectproxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/drivers/exec"
	"berth/client/drivers/executor"
	"berth/client/hooks"
	"berth/client/machine/netns"
	"berth/client/mesh/connect"
	"berth/consul/mesh"
	"berth/structs"
	"berth/test/consultest"
	"berth/test/kit"
)

// The test binary is also the supervisor of a task: `<test binary> executor <dir>`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds each wait of a test.
const patience = 2 * time.Minute

// fixture is a network namespace with a Consul outside and two proxies inside.
type fixture struct {
	t         *testing.T
	consul    *consultest.Agent
	dir       string
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the driver makes control groups and namespaces")
	}
	m := &fixture{t: t, consul: consultest.Start(t, consultest.Options{ACLs: true, Server: true})}
	var err error
	m.dir, err = os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(m.dir) })
	m.namespace = filepath.Join(m.dir, "namespace")
	if err := netns.Make(m.namespace); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(m.namespace); err != nil {
			t.Error(err)
		}
	})
	m.openSockets()
	return m
}

// openSockets opens the sockets of the allocation until the end of the test.
func (m *fixture) openSockets() {
	m.t.Helper()
	dial := func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", m.consul.Addr)
	}
	consulSockets := connect.NewSockets(dial, dial, hclog.NewNullLogger())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); consulSockets.Run(ctx) }()
	m.t.Cleanup(func() { cancel(); <-ended })
	if err := os.MkdirAll(filepath.Join(m.dir, "alloc/tmp"), 0o777); err != nil {
		m.t.Fatal(err)
	}
	env := &hooks.AllocEnv{
		Alloc: &structs.Allocation{ID: "a"},
		Group: &structs.TaskGroup{
			Networks: []*structs.NetworkResource{{Mode: "bridge"}},
			Tasks:    []*structs.Task{{Kind: structs.NewTaskKind(structs.KindConnectProxy, "web")}},
		},
		Dir: m.dir,
	}
	if err := consulSockets.Hook(env).Up(m.t.Context(), env); err != nil {
		m.t.Fatal(err)
	}
}

func (m *fixture) driver() *Driver {
	return New(Config{Consul: true, ConsulPath: os.Getenv("CONSUL_BIN")}, exec.DefaultConfig(), executor.Config{
		Dir:     filepath.Join(m.dir, "ex"),
		Command: []string{os.Args[0], "executor"},
	})
}

// task returns the config of a proxy with a token for its service.
func (m *fixture) task(p mesh.Proxy) *driver.TaskConfig {
	m.t.Helper()
	base := filepath.Join(m.dir, p.Service)
	cfg := &driver.TaskConfig{
		ID:   "alloc/" + p.Service,
		Task: p.Service,
		Dirs: driver.Dirs{
			Task:        base,
			AllocShared: filepath.Join(m.dir, "alloc"),
			Local:       base + "/local",
			Secrets:     base + "/secrets",
			Logs:        filepath.Join(m.dir, "logs"),
		},
		User:      "nobody",
		Resources: structs.Resources{CPU: 100, MemoryMB: 128},
		Network:   &driver.Network{Namespace: m.namespace},
		Proxy:     &p,
	}
	for _, dir := range []string{cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			m.t.Fatal(err)
		}
	}
	token := m.consul.Token(fmt.Sprintf(`service %q { policy = "write" }
		service_prefix "" { policy = "read" }
		node_prefix "" { policy = "read" }`, p.Service))
	path := filepath.Join(cfg.Dirs.Secrets, driver.SITokenFile)
	if err := os.WriteFile(path, []byte(token), 0o440); err != nil {
		m.t.Fatal(err)
	}
	return cfg
}

func (m *fixture) start(d *Driver, cfg *driver.TaskConfig) *driver.Handle {
	m.t.Helper()
	h, err := d.Start(m.t.Context(), cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := d.Destroy(ctx, cfg.ID, h); err != nil {
			m.t.Error(err)
		}
		if m.t.Failed() {
			out, _ := os.ReadFile(filepath.Join(cfg.Dirs.Logs, cfg.Task+".stdout.0"))
			m.t.Logf("%s:\n%s", cfg.Task, out)
		}
	})
	return h
}

// serve answers each line in the namespace until the end of the test.
func (m *fixture) serve(address string) {
	m.t.Helper()
	var ln net.Listener
	err := netns.Do(m.namespace, func() (err error) {
		ln, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
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
					fmt.Fprintf(conn, "echo %s\n", s.Text())
				}
			}()
		}
	}()
	m.t.Cleanup(func() { _ = ln.Close(); <-ended })
}

// talk sends a line over a connection and returns the answer.
func talk(conn net.Conn, line string) (string, error) {
	_ = conn.SetDeadline(time.Now().Add(patience))
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(answer), err
}

// connect connects to an address in the namespace until the answer is what it should be.
func (m *fixture) connect(address string, answers bool) (conn net.Conn) {
	m.t.Helper()
	end := time.Now().Add(patience)
	for {
		var answer string
		err := netns.Do(m.namespace, func() (err error) {
			conn, err = net.DialTimeout("tcp", address, 5*time.Second)
			return err
		})
		if err == nil {
			answer, err = talk(conn, "hello")
			if answer == "echo hello" && answers {
				m.t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			_ = conn.Close()
			if err != nil && !answers {
				return nil
			}
		}
		if time.Now().After(end) {
			m.t.Fatalf("%s: the answer is %q, %v", address, answer, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (m *fixture) intend(action api.IntentionAction) {
	m.t.Helper()
	_, err := m.consul.API.Connect().IntentionUpsert(&api.Intention{
		SourceName:      "web",
		DestinationName: "api",
		Action:          action,
	}, nil)
	if err != nil {
		m.t.Fatal(err)
	}
}

// Two proxies pass connections on over mTLS, intentions decide on them, and both outlive the agent. A
// connection outlives Consul.
func TestBuiltInProxy_LeadsToAServiceOverMTLS(t *testing.T) {
	m := newFixture(t)
	err := m.consul.API.Agent().ServiceRegister(&api.AgentServiceRegistration{
		Name: "api",
		Port: 9001,
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{
			Address: "127.0.0.1", // both proxies are in one namespace
			Port:    21000,
			Checks:  api.AgentServiceChecks{{Name: "Consul", TCP: m.consul.Addr, Interval: "1s", Status: "passing"}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.serve("127.0.0.1:9001")
	d := m.driver()
	apiTask := m.task(mesh.Proxy{Service: "api", Listen: "0.0.0.0:21000", Local: "127.0.0.1:9001"})
	webTask := m.task(mesh.Proxy{
		Service:   "web",
		Listen:    "0.0.0.0:21001",
		Local:     "127.0.0.1:9002",
		Upstreams: []mesh.ProxyUpstream{{Name: "api", Bind: "127.0.0.1:9191"}},
	})
	handles := []*driver.Handle{m.start(d, apiTask), m.start(d, webTask)}

	m.connect("127.0.0.1:9191", false) // without an intention, ACLs deny
	m.intend(api.IntentionActionAllow)
	m.connect("127.0.0.1:9191", true)
	m.intend(api.IntentionActionDeny)
	m.connect("127.0.0.1:9191", false)
	m.intend(api.IntentionActionAllow)
	conn := m.connect("127.0.0.1:9191", true)
	m.connect("127.0.0.1:21000", false) // it takes mTLS alone

	next := m.driver() // of an agent after a restart
	for _, h := range handles {
		if err := next.Recover(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	m.consul.Kill()
	if answer, err := talk(conn, "still"); err != nil || answer != "echo still" {
		t.Errorf("while Consul is away, the answer is %q, %v", answer, err)
	}
	m.consul.Run() // the test leaves its service alone: an agent would register it again
	if err := next.Stop(t.Context(), webTask.ID, "SIGINT", patience); err != nil {
		t.Fatal(err)
	}
	res, err := next.Wait(t.Context(), webTask.ID)
	if err != nil || !res.Successful() {
		t.Errorf("the proxy ends with %+v, %v", res, err)
	}
}

// Envoy finds its configuration in the root of its task, also if its program is at a place that tasks do not
// see.
func TestEnvoy_StartsWithItsConfiguration(t *testing.T) {
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: the driver makes control groups and namespaces")
	}
	dir, err := os.MkdirTemp("/tmp", "b")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m := &fixture{t: t, dir: dir}
	envoy := script(t, dir, "envoy", `echo "$0 $*"; cat "$2"`)
	d := New(Config{Consul: true, EnvoyPath: envoy}, exec.DefaultConfig(), executor.Config{
		Dir:     filepath.Join(dir, "ex"),
		Command: []string{os.Args[0], "executor"},
	})
	base := filepath.Join(dir, "edge")
	cfg := &driver.TaskConfig{
		ID:   "alloc/edge",
		Task: "edge",
		Dirs: driver.Dirs{
			Task:        base,
			AllocShared: filepath.Join(dir, "alloc"),
			Local:       base + "/local",
			Secrets:     base + "/secrets",
			Logs:        filepath.Join(dir, "logs"),
		},
		Resources: structs.Resources{CPU: 100, MemoryMB: 64},
		Proxy:     &mesh.Proxy{Service: "edge", Gateway: true},
	}
	for _, dir := range []string{cfg.Dirs.AllocShared, cfg.Dirs.Local, cfg.Dirs.Secrets, cfg.Dirs.Logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(cfg.Dirs.Secrets, driver.EnvoyBootstrapFile)
	if err := os.WriteFile(path, []byte("the configuration\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	m.start(d, cfg)
	res, err := d.Wait(t.Context(), cfg.ID)
	out, _ := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "edge.stdout.0"))
	want := "/run/berth/bin/envoy -c /secrets/envoy_bootstrap.json -l info --concurrency 1 " +
		"--disable-hot-restart\nthe configuration\n"
	if err != nil || !res.Successful() || string(out) != want {
		t.Errorf("Envoy ends with %+v, %v and says %q", res, err, out)
	}
}
