package connect

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/consul"
	"berth/structs"
)

// TestMain also is the program consul of the tests, which does as FAKE says and counts its runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "connect" {
		os.Exit(fakeMain(os.Getenv("FAKE"), os.Getenv("RUNS")))
	}
	goleak.VerifyTestMain(m)
}

func fakeMain(do, runs string) int {
	before, _ := os.ReadFile(runs)
	_ = os.WriteFile(runs, append(before, '.'), 0o600)
	switch {
	case do == "fail twice" && len(before) < 2, do == "fail":
		fmt.Fprintln(os.Stderr, "No sidecar proxy registered\n for it")
		return 1
	case do == "fail in two ways" && len(before) < 2:
		fmt.Fprintln(os.Stderr, "fault", len(before))
		return 1
	case do == "block":
		gate, _ := os.Open(runs + ".gate") // a FIFO without a writer
		_, _ = gate.Read(make([]byte, 1))
	case do == "betray":
		fmt.Fprintln(os.Stderr, os.Getenv("CONSUL_HTTP_TOKEN"))
		return 1
	case do == "nonsense":
		fmt.Println("nonsense")
		return 0
	case do == "flood":
		fmt.Printf("[%s1]", strings.Repeat("1,", maxConfig))
		return 0
	}
	fmt.Printf("{\"args\": %q, \"env\": %q}", strings.Join(os.Args[1:], " "), strings.Join(os.Environ(), " "))
	return 0
}

// fakeEnvoyConsul is a Consul whose program is the test.
type fakeEnvoyConsul struct {
	program string
	do      string
	runs    string // a file with one byte for each run
}

// Command implements EnvoyConsul.
func (c *fakeEnvoyConsul) Command() (*consul.Command, error) {
	return &consul.Command{
		Program: c.program,
		Args:    []string{"-http-addr", "http://127.0.0.1:8500"},
		Env:     []string{"FAKE=" + c.do, "RUNS=" + c.runs},
	}, nil
}

// GRPCAddress implements EnvoyConsul.
func (*fakeEnvoyConsul) GRPCAddress() (string, error) { return "127.0.0.1:8502", nil }

// envoyFixture is an allocation with the task api and the proxies of web and of gateways.
type envoyFixture struct {
	t      *testing.T
	consul *fakeEnvoyConsul
	using  EnvoyConsul
	env    *hooks.TaskEnv
	node   *structs.Node

	progress string
	events   []string // their messages
}

// keepEvents keeps the messages of the allocation's events.
func (fx *envoyFixture) keepEvents() {
	fx.env.Emit = func(e *structs.TaskEvent) {
		fx.events = append(fx.events, e.Message)
		if e.Message != fx.progress {
			fx.t.Errorf("the event tells %q, the allocation %q", e.Message, fx.progress)
		}
	}
}

// checkTold compares the reasons that were told, and their end.
func (fx *envoyFixture) checkTold(want ...string) {
	fx.t.Helper()
	if len(fx.events) > len(want) && strings.HasSuffix(fx.events[0], ": there is no answer yet") {
		fx.events = fx.events[1:] // the first run took longer than hook.QuietTime
	}
	if len(fx.events) != len(want) {
		fx.t.Fatalf("the events are %q, want %q", fx.events, want)
	}
	for i, text := range fx.events {
		begin := strings.HasPrefix(text, "task proxy waits for its configuration of Envoy: ")
		if !begin || !strings.Contains(text, want[i]) {
			fx.t.Errorf("event %d is %q, want %q", i, text, want[i])
		}
	}
	if fx.progress != "" {
		fx.t.Errorf("the allocation still waits: %s", fx.progress)
	}
}

func service(name string, c structs.Connect) *structs.Service {
	return &structs.Service{Name: name, PortLabel: "http", Connect: &c}
}

func newEnvoyFixture(t *testing.T, kind structs.TaskKind) *envoyFixture {
	t.Helper()
	dir := t.TempDir()
	task := &structs.Task{Name: "proxy", Kind: kind, Driver: "connect"}
	dirs := driver.Dirs{Task: filepath.Join(dir, "proxy"), Secrets: filepath.Join(dir, "proxy/secrets")}
	if err := os.MkdirAll(dirs.Secrets, 0o700); err != nil {
		t.Fatal(err)
	}
	fx := &envoyFixture{
		t:      t,
		consul: &fakeEnvoyConsul{program: os.Args[0], runs: filepath.Join(dir, "runs")},
		node:   &structs.Node{Attributes: map[string]string{"driver.connect.proxy": "envoy"}},
	}
	fx.using = fx.consul
	fx.env = &hooks.TaskEnv{
		AllocEnv: &hooks.AllocEnv{
			Alloc: &structs.Allocation{ID: "a1", Ports: []structs.AllocatedPort{{Label: "http", Value: 22222}}},
			Group: &structs.TaskGroup{
				Networks: []*structs.NetworkResource{{Mode: "bridge"}},
				Tasks:    []*structs.Task{{Name: "api"}, task},
				Services: []*structs.Service{
					{Name: "web"}, // of the same name, without a proxy
					service("web", structs.Connect{SidecarService: &structs.SidecarService{}}),
					service("gate", structs.Connect{Gateway: &structs.Gateway{}}),
				},
			},
		},
		Task:   task,
		Config: &driver.TaskConfig{Dirs: dirs, Env: map[string]string{}},
		Seen:   driver.Inside,
		Expand: func(s string) string { return s },
		Node:   func() *structs.Node { return fx.node },
		Emit:   func(*structs.TaskEvent) {},
	}
	return fx
}

func sidecar(t *testing.T) *envoyFixture {
	return newEnvoyFixture(t, structs.NewTaskKind(structs.KindConnectProxy, "web"))
}

func (fx *envoyFixture) up(ctx context.Context) error {
	c := EnvoyConfig{
		Consul:   fx.using,
		Logger:   hclog.NewNullLogger(),
		Progress: func(_, reason string) { fx.progress = reason },
	}
	return NewEnvoy(c, fx.env.AllocEnv, fx.env.Task).Up(ctx, fx.env)
}

func (fx *envoyFixture) path(name string) string {
	return filepath.Join(fx.env.Config.Dirs.Secrets, name)
}

func (fx *envoyFixture) write(name, text string) {
	fx.t.Helper()
	if err := os.WriteFile(fx.path(name), []byte(text), 0o440); err != nil {
		fx.t.Fatal(err)
	}
}

// runs is the number of runs of the program.
func (fx *envoyFixture) runs() int {
	counted, _ := os.ReadFile(fx.consul.runs)
	return len(counted)
}

func (fx *envoyFixture) checkNoFile() {
	fx.t.Helper()
	if _, err := os.Lstat(fx.path(driver.EnvoyBootstrapFile)); !errors.Is(err, fs.ErrNotExist) {
		fx.t.Errorf("a configuration is there: %v", err)
	}
}

func TestNewEnvoy_IsNilForOtherTasks(t *testing.T) {
	for _, kind := range []structs.TaskKind{"", structs.NewTaskKind(structs.KindConnectNative, "web")} {
		if NewEnvoy(EnvoyConfig{}, &hooks.AllocEnv{}, &structs.Task{Kind: kind}) != nil {
			t.Errorf("a task of the kind %q has the hook", kind)
		}
	}
}

func TestPlan_HasTheArgumentsOfTheProgram(t *testing.T) {
	for _, c := range []struct {
		kind, service, mode string
		rootless            bool
		want                string
	}{
		{structs.KindConnectProxy, "web", "bridge", false, "-grpc-addr unix:///alloc/tmp/consul_grpc.sock " +
			"-admin-bind 127.0.0.2:19001 -address 127.0.0.1:19101 -http-addr X " +
			"-sidecar-for _berth-task-a1-group-web-http"},
		{structs.KindConnectProxy, "web", "cni/x", true, "-grpc-addr unix:///host/a1/alloc/tmp/consul_grpc.sock " +
			"-admin-bind 127.0.0.2:19001 -address 127.0.0.1:19101 -http-addr X " +
			"-sidecar-for _berth-task-a1-group-web-http"},
		{structs.KindConnectIngress, "gate", "bridge", false, "-grpc-addr unix:///alloc/tmp/consul_grpc.sock " +
			"-admin-bind 127.0.0.2:19001 -address 127.0.0.1:19101 -http-addr X " +
			"-gateway ingress -proxy-id _berth-task-a1-group-gate-http"},
		{structs.KindConnectTerminating, "gate", "host", false, "-grpc-addr 127.0.0.1:8502 " +
			"-admin-bind 127.0.0.2:22222 -address 127.0.0.1:22222 -http-addr X " +
			"-gateway terminating -proxy-id _berth-task-a1-group-gate-http"},
		{structs.KindConnectMesh, "gate", "", false, "-grpc-addr 127.0.0.1:8502 " +
			"-admin-bind 127.0.0.2:22222 -address 127.0.0.1:22222 -http-addr X " +
			"-gateway mesh -proxy-id _berth-task-a1-group-gate-http"},
	} {
		fx := newEnvoyFixture(t, structs.NewTaskKind(c.kind, c.service))
		fx.env.Group.Networks[0].Mode = c.mode
		if c.rootless {
			fx.env.Seen.AllocShared = "/host/a1/alloc"
		}
		fx.write(driver.SITokenFile, "secret")
		h := &envoy{cfg: EnvoyConfig{Consul: fx.consul}}
		p, err := h.plan(fx.env)
		if err != nil {
			t.Errorf("%s: %v", c.kind, err)
			continue
		}
		got := strings.Join(p.args([]string{"-http-addr", "X"}), " ")
		if want := "connect envoy -bootstrap " + c.want; got != want {
			t.Errorf("%s: the arguments are\n%s, want\n%s", c.kind, got, want)
		}
		if env := p.environ([]string{"A=b"}); !slices.Equal(env, []string{"A=b", "CONSUL_HTTP_TOKEN=secret"}) {
			t.Errorf("the environment is %q", env)
		}
	}
}

func TestPlan_WithoutAToken(t *testing.T) {
	fx := sidecar(t)
	p, err := (&envoy{cfg: EnvoyConfig{Consul: fx.consul}}).plan(fx.env)
	if err != nil || p.token != "" || len(p.environ(nil)) != 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

func TestUp_WritesTheConfiguration(t *testing.T) {
	fx := sidecar(t)
	fx.write(driver.SITokenFile, "secret")
	t.Setenv("OF_THE_AGENT", "1")
	fx.keepEvents()
	if err := fx.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	fx.checkTold() // a short wait tells nothing
	text, err := os.ReadFile(fx.path(driver.EnvoyBootstrapFile))
	if err != nil || !strings.Contains(string(text), "CONSUL_HTTP_TOKEN=secret") ||
		strings.Contains(string(text), "OF_THE_AGENT") {
		t.Errorf("the configuration is %s, %v", text, err)
	}
	args, _, _ := strings.Cut(string(text), "\"env\"")
	if strings.Contains(args, "secret") {
		t.Errorf("the arguments have the token: %s", args)
	}
	if info, err := os.Stat(fx.path(driver.EnvoyBootstrapFile)); err != nil || info.Mode() != 0o440 {
		t.Errorf("the file is %v, %v", info, err)
	}
	want := map[string]string{
		"BERTH_ENVOY_ADMIN_ADDR_web": "127.0.0.2:19001",
		"NOMAD_ENVOY_ADMIN_ADDR_web": "127.0.0.2:19001",
		"BERTH_ENVOY_READY_ADDR_web": "127.0.0.1:19101",
		"NOMAD_ENVOY_READY_ADDR_web": "127.0.0.1:19101",
	}
	if got := fx.env.Config.Env; !maps.Equal(got, want) {
		t.Errorf("the variables are %q", got)
	}
}

func TestUp_DoesNothing(t *testing.T) {
	for name, edit := range map[string]func(*envoyFixture){
		"for a process that runs": func(fx *envoyFixture) { fx.env.Running = true },
		"for the built-in proxy": func(fx *envoyFixture) {
			fx.node.Attributes["driver.connect.proxy"] = "consul"
		},
		"for a node without proxy": func(fx *envoyFixture) { clear(fx.node.Attributes) },
	} {
		t.Run(name, func(t *testing.T) {
			fx := sidecar(t)
			edit(fx)
			if err := fx.up(t.Context()); err != nil {
				t.Fatal(err)
			}
			fx.checkNoFile()
		})
	}
	fx := sidecar(t)
	clear(fx.node.Attributes)
	fx.env.Task.Driver = "docker" // with an image of Envoy
	if err := fx.up(t.Context()); err != nil || fx.runs() != 1 {
		t.Errorf("another driver: %v after %d runs", err, fx.runs())
	}
}

func TestUp_TriesAgainUntilConsulHasTheService(t *testing.T) {
	t.Parallel()
	fx := sidecar(t)
	fx.consul.do = "fail twice"
	fx.keepEvents()
	begin := time.Now()
	if err := fx.up(t.Context()); err != nil || fx.runs() != 3 {
		t.Errorf("got %v after %d runs", err, fx.runs())
	}
	if took := time.Since(begin); took < 2*between {
		t.Errorf("it took %s", took)
	}
	fx.checkTold("No sidecar proxy registered for it")
}

// An event tells why the task waits, once for each reason.
func TestEnvoy_AnEventTellsWhyTheTaskWaits(t *testing.T) {
	t.Parallel()
	fx := sidecar(t)
	fx.consul.do = "fail in two ways"
	fx.keepEvents()
	if err := fx.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	fx.checkTold("fault 0", "fault 1")
}

// A program without an answer ends its silence after the event, which opens the gate.
func TestUp_AnEventTellsOfAProgramWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	fx := sidecar(t)
	fx.consul.do = "block"
	gate := fx.consul.runs + ".gate"
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	fx.keepEvents()
	keep := fx.env.Emit
	fx.env.Emit = func(e *structs.TaskEvent) {
		keep(e)
		f, err := os.OpenFile(gate, os.O_RDWR, 0) // which never waits
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = f.Close() })
		_, _ = f.WriteString("x")
	}
	if err := fx.up(t.Context()); err != nil {
		t.Fatal(err)
	}
	fx.checkTold("there is no answer yet")
}

func TestUp_RemovesTheFileAfterAFailure(t *testing.T) {
	for do, c := range map[string]struct {
		reason string
		runs   int
	}{
		"fail":     {"exit status 1: No sidecar proxy registered for it", attempts},
		"nonsense": {"printed no configuration", attempts},
		"flood":    {"printed no configuration of at most 1048576 bytes", attempts},
		"betray":   {"its message has the token", attempts},
	} {
		t.Run(do, func(t *testing.T) {
			t.Parallel()
			fx := sidecar(t)
			fx.consul.do = do
			fx.keepEvents()
			fx.write(driver.SITokenFile, "secret")
			fx.write(driver.EnvoyBootstrapFile, "of the last start")
			err := fx.up(t.Context())
			if !structs.IsKind(err, structs.KindUnavailable) || !strings.Contains(err.Error(), c.reason) {
				t.Errorf("got %v, want %s", err, c.reason)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error has the token: %v", err)
			}
			fx.checkTold(c.reason)
			if strings.Contains(strings.Join(fx.events, ""), "secret") {
				t.Errorf("an event has the token: %q", fx.events)
			}
			if fx.runs() != c.runs {
				t.Errorf("%d runs", fx.runs())
			}
			fx.checkNoFile()
		})
	}
}

func TestUp_AProgramThatDoesNotStartIsFinal(t *testing.T) {
	fx := sidecar(t)
	fx.consul.program = "/nonexistent"
	err := fx.up(t.Context())
	failure, ok := errors.AsType[*hooks.Failure](err)
	if !ok || !failure.Final {
		t.Errorf("got %v, want a final failure", err)
	}
	fx.checkNoFile()
}

// Each error of the token's file but its absence fails the task: without its token, Envoy would fail later
// and say less.
func TestUp_FailsIfTheTokenCannotBeRead(t *testing.T) {
	fx := sidecar(t)
	if err := os.Mkdir(fx.path(driver.SITokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	fx.write(driver.EnvoyBootstrapFile, "of the last start")
	err := fx.up(t.Context())
	failure, ok := errors.AsType[*hooks.Failure](err)
	if !ok || !failure.Final || !strings.Contains(err.Error(), driver.SITokenFile) || fx.runs() != 0 {
		t.Errorf("got %v after %d runs, want a final failure", err, fx.runs())
	}
	fx.checkNoFile()
}

func TestUp_RejectsAProxyWithoutItsService(t *testing.T) {
	fx := newEnvoyFixture(t, structs.NewTaskKind(structs.KindConnectProxy, "other"))
	if err := fx.up(t.Context()); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestUp_EndsWithTheAgent(t *testing.T) {
	fx := sidecar(t)
	fx.consul.do = "fail"
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := fx.up(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	fx.checkNoFile()
}
