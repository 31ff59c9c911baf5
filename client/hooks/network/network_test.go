package network

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"berth/structs"
)

func bridge() *structs.NetworkResource {
	return &structs.NetworkResource{Mode: structs.NetworkModeBridge}
}

func TestNew_IsNilForTheNetworkOfTheNode(t *testing.T) {
	f := newFake(t)
	for _, n := range []*structs.NetworkResource{
		nil,
		{Mode: structs.NetworkModeHost},
		{Mode: structs.NetworkModeHost, DNS: &structs.DNSConfig{}},
	} {
		env := envOf("a", n)
		if n == nil {
			env.Group.Networks = nil
		}
		if New(f.config(), env) != nil {
			t.Errorf("%+v: there is a hook", n)
		}
	}
}

func TestUp_RecordsBeforeEachEffect(t *testing.T) {
	f := newFake(t)
	env := envOf("a", bridge())
	h := New(f.config(), env)
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "remove, plan, make (recorded), attach (recorded)" {
		t.Errorf("calls: %s", got)
	}
	n := env.Network()
	if n.Namespace != f.path || n.Address != "10.0.0.7" || n.Status.InterfaceName != "eth0" ||
		n.DNS.Servers[0] != "10.0.0.53" {
		t.Errorf("network %+v, status %+v", n.Network, n.Status)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "detach (recorded), remove (recorded)" {
		t.Errorf("calls: %s", got)
	}
	if env.Network() != nil {
		t.Error("the network is left")
	}
	checkNoRecord(t, f)
}

func checkNoRecord(t *testing.T, f *fake) {
	t.Helper()
	all, err := records.All(f.db, "")
	if err != nil || len(all) > 0 {
		t.Errorf("records %+v, %v", all, err)
	}
}

// Tasks that run offer services with the address of the allocation before the next Up.
func TestNew_TellsOfTheNetworkOfAnEarlierAgent(t *testing.T) {
	f := newFake(t)
	env := envOf("a", bridge())
	h := New(f.config(), env)
	if env.Network() != nil {
		t.Errorf("a new allocation has the network %+v", env.Network())
	}
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	next := envOf("a", bridge())
	h = New(f.config(), next)
	if n := next.Network(); n == nil || n.Status.Address != "10.0.0.7" || n.Address != "10.0.0.7" {
		t.Errorf("the next agent has the network %+v", n)
	}
	f.failAt = 1
	f.take()
	_ = h.Down(t.Context()) // it ends in the middle: the network is not complete any more
	last := envOf("a", bridge())
	New(f.config(), last)
	if last.Network() != nil {
		t.Errorf("after the begin of its end there is the network %+v", last.Network())
	}
}

func TestUp_NoneHasANamespaceAlone(t *testing.T) {
	f := newFake(t)
	env := envOf("a", &structs.NetworkResource{Mode: structs.NetworkModeNone, Hostname: "web-${x}"})
	cfg := f.config()
	h := New(cfg, env)
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	n := env.Network()
	if n.Namespace == "" || n.Address != "" || n.Hostname != "web-expanded" {
		t.Errorf("network %+v", n.Network)
	}
	hosts, err := os.ReadFile(n.Hosts)
	if err != nil || !strings.Contains(string(hosts), "\n127.0.0.1 web-expanded\n") {
		t.Errorf("hosts %q, %v", hosts, err)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "remove, make (recorded), remove (recorded)" {
		t.Errorf("calls: %s", got)
	}
	if _, err := os.Stat(n.Hosts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files are left: %v", err)
	}
}

// The next agent goes on with a complete network, and makes an incomplete one again.
func TestUp_OfTheNextAgent(t *testing.T) {
	for _, c := range []struct {
		name   string
		failAt int // of the first agent
		lost   bool
		want   string
	}{
		{"complete", 0, false, ""},
		{"complete, and the machine was restarted", 0, true,
			"detach (recorded), remove (recorded), plan, make (recorded), attach (recorded)"},
		{"without its network", 4, false,
			"detach (recorded), remove (recorded), plan, make (recorded), attach (recorded)"},
		{"not even with a namespace", 3, true,
			"detach (recorded), remove (recorded), plan, make (recorded), attach (recorded)"},
		{"without a record", 2, true, "remove, plan, make (recorded), attach (recorded)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.failAt = c.failAt
			env := envOf("a", bridge())
			err := New(f.config(), env).Up(t.Context(), env)
			if (err != nil) != (c.failAt > 0) {
				t.Fatal(err)
			}
			f.take()
			f.failAt = 0
			f.live = f.live && !c.lost
			env = envOf("a", bridge())
			if err := New(f.config(), env).Up(t.Context(), env); err != nil {
				t.Fatal(err)
			}
			if got := f.take(); got != c.want {
				t.Errorf("calls: %s", got)
			}
			if env.Network().Status.Address != "10.0.0.7" {
				t.Errorf("status %+v", env.Network().Status)
			}
		})
	}
}

func TestUp_KeepsTheNetworkOfRunningTasks(t *testing.T) {
	f := newFake(t)
	env := envOf("a", bridge())
	if err := New(f.config(), env).Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	f.take()
	f.live = false
	env.Running = func() bool { return true }
	err := New(f.config(), env).Up(t.Context(), env)
	if !structs.IsKind(err, structs.KindPrecondition) || f.take() != "" {
		t.Errorf("got %v", err)
	}
}

func TestDown_GoesOnWhereItFailed(t *testing.T) {
	for failAt := 1; failAt <= 2; failAt++ {
		f := newFake(t)
		env := envOf("a", bridge())
		h := New(f.config(), env)
		if err := h.Up(t.Context(), env); err != nil {
			t.Fatal(err)
		}
		f.take()
		f.failAt = failAt
		if err := h.Down(t.Context()); err == nil {
			t.Fatalf("step %d: no error", failAt)
		}
		f.take()
		f.failAt = 0
		if err := h.Down(t.Context()); err != nil {
			t.Errorf("step %d: %v", failAt, err)
		}
		if got := f.take(); got != "detach (recorded), remove (recorded)" {
			t.Errorf("step %d: calls: %s", failAt, got)
		}
		checkNoRecord(t, f)
	}
}

// A node that has lost its records takes down a namespace that it finds, with the ports of the job.
func TestDown_WithoutARecord(t *testing.T) {
	f := newFake(t)
	port := structs.AllocatedPort{Label: "http", Value: 8080}
	env := envOf("a", bridge(), port)
	h := New(f.config(), env)
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "remove" {
		t.Errorf("calls without a namespace: %s", got)
	}
	if err := h.Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	f.take()
	if err := records.Delete(f.db, "a"); err != nil {
		t.Fatal(err)
	}
	if err := h.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "plan, detach, remove" {
		t.Errorf("calls: %s", got)
	}
	if len(f.detached) != 1 || len(f.detached[0]) != 1 || f.detached[0][0].HostPort != 8080 {
		t.Errorf("detached with the ports %+v", f.detached)
	}
}

func TestRemoveUnknown_KeepsThoseOfAllocations(t *testing.T) {
	f := newFake(t)
	env := envOf("a", bridge())
	cfg := f.config()
	if err := New(cfg, env).Up(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	f.take()
	known := map[string]bool{"a": true}
	var knownErr error
	remove := func() error {
		return RemoveUnknown(t.Context(), cfg, func() (map[string]bool, error) { return known, knownErr })
	}
	if err := remove(); err != nil || f.take() != "" {
		t.Errorf("the network of an allocation: %v", err)
	}
	known = nil
	knownErr = errors.New("unreadable")
	if err := remove(); err != nil || f.take() != "" {
		t.Errorf("with an unreadable allocation: %v", err)
	}
	knownErr = nil
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	if got := f.take(); got != "detach (recorded), remove (recorded)" {
		t.Errorf("calls: %s", got)
	}
	checkNoRecord(t, f)
}
