package guard

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/csi/mounts"
	"berth/client/drivers/cgroups"
	"berth/client/drivers/driver"
	"berth/client/guard/watch"
	"berth/client/hooks"
	"berth/client/membership"
	"berth/internal/boottime"
	"berth/internal/process"
	"berth/structs"
	"berth/test/kit"
)

// TestMain lets this program be the guard, too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == watch.Arg {
		os.Exit(watch.Main(os.Args[2:]))
	}
	code := m.Run()
	for _, dir := range cgroups.Detect().Path(testCgroup, "").Dirs() {
		_ = os.Remove(dir)
	}
	os.Exit(code)
}

// testCgroup has the cgroups of the tasks. Tests of another package run at the same time.
var testCgroup = fmt.Sprintf("berth-guard-test-%d", os.Getpid())

// drivers has one driver that knows the cgroups of its tasks, and one that does not.
type drivers struct{ group *cgroups.Group }

type knowing struct {
	driver.Driver
	group *cgroups.Group
}

func (k knowing) TaskGroup(string) (*cgroups.Group, bool) { return k.group, true }

type blind struct{ driver.Driver }

// announcer is a driver that knows the cgroup of a task only at its start.
type announcer struct {
	driver.Driver
	fault error
}

func (a announcer) Guardable() error { return a.fault }

func (d drivers) Driver(name string) (driver.Driver, error) {
	switch name {
	case "exec":
		return knowing{group: d.group}, nil
	case "docker":
		return announcer{}, nil
	case "faulty":
		return announcer{fault: structs.Preconditionf("its daemon is elsewhere")}, nil
	}
	return blind{}, nil
}

// fixture is an agent with its guard.
type fixture struct {
	*Guard
	t     *testing.T
	group *cgroups.Group

	mu     sync.Mutex
	lost   map[string]string
	groups map[string]*structs.TaskGroup // of the running allocations
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it makes cgroups and mounts")
	}
	dir, err := mounts.Resolve(t.TempDir())
	kit.Must(t, err)
	f := &fixture{t: t, lost: map[string]string{}, groups: map[string]*structs.TaskGroup{}}
	f.group, err = cgroups.Detect().New(testCgroup, filepath.Base(dir)+t.Name(), cgroups.Limits{})
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, f.group.Remove()) })
	f.Guard, err = New(Config{
		Dir:     dir,
		Command: []string{os.Args[0]},
		Drivers: drivers{f.group},
		Lose:    f.lose,
		Group: func(id string) *structs.TaskGroup {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.groups[id]
		},
		Logger: hclog.NewNullLogger(),
	})
	kit.Must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/log")
			t.Logf("the log of the guard:\n%s", log)
		}
		kit.Must(t, f.Retain(func(string) bool { return false }))
		kit.Must(t, f.open())
		kit.Must(t, f.leave())
	})
	return f
}

func (f *fixture) lose(allocID, reason string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[allocID] = reason
	return true
}

// renew takes a lease that ends after a time.
func (f *fixture) renew(ttl time.Duration) {
	f.Renewed(membership.Lease{Grant: membership.Grant{TTL: ttl}, Since: boottime.Now()})
}

func group(name string, stop *time.Duration) *structs.TaskGroup {
	g := &structs.TaskGroup{Name: "g", Tasks: []*structs.Task{{Name: "t", Driver: name, KillTimeout: time.Minute}}}
	if stop != nil {
		g.Disconnect = &structs.DisconnectStrategy{StopOnClientAfter: stop}
	}
	return g
}

func TestOrder_RejectsTasksWithoutAKnownCgroup(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	err := f.Order("a1", group("podman", nil), nil)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), `driver "podman"`) {
		t.Errorf("got %v", err)
	}
	if o, err := f.files.Get("a1"); o != nil || err != nil {
		t.Errorf("the order is %+v, %v", o, err)
	}
}

func TestOrder_NeedsALease(t *testing.T) {
	f := newFixture(t)
	for name, l := range map[string]membership.Lease{
		"none yet":  {},
		"one ended": {Grant: membership.Grant{TTL: time.Second}, Since: boottime.Now().Add(-time.Minute)},
	} {
		f.Renewed(l)
		err := f.Order("a1", group("exec", nil), nil)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestOrder_IsDurableAndGuarded(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	hour := time.Hour
	kit.Must(t, f.Order("a1", group("exec", &hour), nil))
	o, err := f.files.Get("a1")
	kit.Must(t, err)
	if o.Delay != hour+time.Minute+agentMargin ||
		o.BootID != f.boot || len(o.Groups) != 1 || o.Groups[0].Name() != f.group.Name() {
		t.Errorf("the order is %+v", o)
	}
	works, err := watch.Works(f.files.Memory, f.self)
	if !works {
		t.Errorf("no guard works (%v)", err)
	}

	// A volume ends the allocation with the lease, and each further one is added.
	kit.Must(t, f.Order("a1", group("exec", &hour), []watch.OrderedVolume{{ID: "v", Target: "/v"}}))
	kit.Must(t, f.Order("a1", group("exec", &hour), []watch.OrderedVolume{{ID: "w", Target: "/w"}}))
	o, err = f.files.Get("a1")
	if err != nil || o.Delay != 0 || len(o.Volumes) != 2 {
		t.Errorf("with volumes the order is %+v, %v", o, err)
	}
	kit.Must(t, f.Release("a1"))
	if ids, err := f.files.List(); err != nil || len(ids) > 0 {
		t.Errorf("after its release: %q, %v", ids, err)
	}
}

// The guard may have had no time to see the end, as on a machine that was asleep.
func TestRenewed_DoesNotSaveWhatWasDue(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("due", group("exec", nil), nil))
	hour := time.Hour
	kit.Must(t, f.Order("later", group("exec", &hour), nil))
	f.Clock = func() boottime.Instant { return boottime.Now().Add(time.Hour + time.Minute) }
	f.renew(2 * time.Hour)
	for id, want := range map[string]bool{"due": true, "later": false} {
		d, err := f.files.Due(id)
		if err != nil || (d != nil) != want {
			t.Errorf("%s: the mark is %+v, %v", id, d, err)
		}
	}
	err := f.Order("due", group("exec", nil), []watch.OrderedVolume{{ID: "v", Target: "/v"}})
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("it is ordered anew: %v", err)
	}
}

func TestRenewed_WithinTheLeaseChangesNothing(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("a1", group("exec", nil), nil))
	next, err := New(f.Config) // an agent that has restarted
	kit.Must(t, err)
	next.Renewed(membership.Lease{Grant: membership.Grant{TTL: time.Hour}, Since: boottime.Now()})
	if d, err := next.files.Due("a1"); d != nil || err != nil {
		t.Errorf("it is due: %+v, %v", d, err)
	}
	kit.Must(t, next.file.Close())
}

func TestTaskHook_StartsNoTaskAfterTheEnd(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	zero := time.Duration(0)
	g := group("exec", &zero)
	env := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a1"}, Group: g}
	kit.Must(t, f.Hook(env).Up(t.Context(), env))
	h := f.TaskHook(env)
	kit.Must(t, h.Up(t.Context(), &hooks.TaskEnv{Task: g.Tasks[0]}))
	kit.Must(t, f.files.MarkDue(&watch.Due{AllocID: "a1"}))
	err := h.Up(t.Context(), &hooks.TaskEnv{})
	failure, ok := err.(*hooks.Failure)
	if !ok || !failure.Final || !strings.Contains(err.Error(), "the lease of this node ended") {
		t.Errorf("got %v", err)
	}
}

// up runs the Up of the hook of an allocation.
func (f *fixture) up(allocID string, g *structs.TaskGroup) hooks.Alloc {
	f.t.Helper()
	env := &hooks.AllocEnv{Alloc: &structs.Allocation{ID: allocID}, Group: g}
	h := f.Hook(env)
	kit.Must(f.t, h.Up(f.t.Context(), env))
	return h
}

// order returns the delay of the order of an allocation, and whether it has one.
func (f *fixture) orderOf(allocID string) *watch.Order {
	f.t.Helper()
	o, err := f.present().Get(allocID)
	kit.Must(f.t, err)
	return o
}

// update gives a running allocation another group, and lets the guard look.
func (f *fixture) update(allocID string, g *structs.TaskGroup) *watch.Order {
	f.t.Helper()
	f.mu.Lock()
	f.groups[allocID] = g
	f.mu.Unlock()
	kit.Must(f.t, f.keep())
	return f.orderOf(allocID)
}

func TestOrder_FollowsAChangeInPlace(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	second := time.Second
	hour := time.Hour
	h := f.up("a1", group("exec", nil))
	if o := f.orderOf("a1"); o != nil {
		t.Errorf("without stop_on_client_after the order is %+v", o)
	}
	for _, stop := range []*time.Duration{&hour, &second} {
		o := f.update("a1", group("exec", stop))
		if o == nil || o.Delay != *stop+time.Minute+agentMargin {
			t.Errorf("with %s the order is %+v", *stop, o)
		}
	}
	if o := f.update("a1", group("exec", nil)); o != nil {
		t.Errorf("the setting is gone, and the order is %+v", o)
	}

	kit.Must(t, f.Order("a1", group("exec", nil), []watch.OrderedVolume{{ID: "v", Target: "/v"}}))
	if o := f.update("a1", group("exec", &hour)); o == nil || o.Delay != 0 {
		t.Errorf("with a volume the order is %+v", o)
	}
	if o := f.update("a1", group("exec", nil)); o == nil || len(o.Volumes) != 1 {
		t.Errorf("with a volume and without the setting the order is %+v", o)
	}
	kit.Must(t, h.Down(t.Context()))
	if o := f.update("a1", group("exec", &second)); o != nil {
		t.Errorf("after the end of the allocation the order is %+v", o)
	}
}

// An agent that was cut off from the servers orders nothing that would be due at once.
func TestOrder_FollowsAChangeOnceThereIsALease(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	hour := time.Hour
	f.up("a1", group("exec", nil))
	f.renew(0)
	if o := f.update("a1", group("exec", &hour)); o != nil {
		t.Errorf("without a lease the order is %+v", o)
	}
	f.renew(time.Hour)
	if o := f.update("a1", group("exec", &hour)); o == nil {
		t.Error("with a lease there is no order")
	}
}

// The guard may have ended the allocation by an older order while the new one was written.
func TestOrder_LooksAtTheLeaseAgainAfterItIsWritten(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	looks := 0
	f.Clock = func() boottime.Instant {
		looks++
		if looks == 1 {
			return boottime.Now()
		}
		return boottime.Now().Add(2 * time.Hour)
	}
	err := f.Order("a1", group("exec", nil), []watch.OrderedVolume{{ID: "v", Target: "/v"}})
	if !structs.IsKind(err, structs.KindUnavailable) || f.orderOf("a1") == nil {
		t.Errorf("got %v after %d looks", err, looks)
	}
}

func TestOrder_KeepsOneThatIsDue(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	hour := time.Hour
	f.up("a1", group("exec", &hour))
	kit.Must(t, f.files.MarkDue(&watch.Due{AllocID: "a1"}))
	if o := f.update("a1", group("exec", nil)); o == nil {
		t.Error("the order is gone")
	}
}

func TestOrder_GetsTheCgroupsOfStartingTasks(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	err := f.Order("a1", group("faulty", nil), nil)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "its daemon is elsewhere") {
		t.Errorf("got %v", err)
	}

	hour := time.Hour
	g := group("docker", &hour)
	f.up("a1", g)
	start := func(name string) error {
		env := &hooks.TaskEnv{Task: g.Tasks[0], Config: &driver.TaskConfig{}}
		h := f.TaskHook(&hooks.AllocEnv{Alloc: &structs.Allocation{ID: "a1"}})
		kit.Must(t, h.Up(t.Context(), env))
		return env.Config.OrderGuard(cgroups.Detect().Path(testCgroup, name))
	}
	for _, name := range []string{"first", "again"} {
		kit.Must(t, start(name))
		o := f.orderOf("a1")
		if len(o.AllGroups()) != 1 || filepath.Base(o.AllGroups()[0].Name()) != name {
			t.Errorf("the order has %+v, want the cgroup %s", o.AllGroups(), name)
		}
	}
	o := f.update("a1", group("docker", new(2*time.Hour)))
	if len(o.AllGroups()) != 1 || o.Delay < 2*time.Hour {
		t.Errorf("after a change in place the order is %+v", o)
	}
	f.Clock = func() boottime.Instant { return boottime.Now().Add(2 * time.Hour) }
	err = f.addGroup("a1", "t", cgroups.Detect().Path(testCgroup, "late"))
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("after the end of the lease: %v", err)
	}
}

func TestRun_ReplacesTheGuardAndGivesUpWhatIsDue(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("a1", group("exec", nil), nil))
	first, err := watch.ReadRecord(f.files.Memory)
	kit.Must(t, err)
	kit.Must(t, first.Guard.Kill(t.Context()))
	kit.Must(t, f.files.MarkDue(&watch.Due{AllocID: "a1"}))

	ctx, end := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	f.eventually("it is given up", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return strings.Contains(f.lost["a1"], "the lease of this node ended")
	})
	works, err := watch.Works(f.files.Memory, f.self)
	now, err2 := watch.ReadRecord(f.files.Memory)
	if !works || now.Guard == first.Guard || err != nil || err2 != nil {
		t.Errorf("no new guard works: %+v, %v, %v", now, err, err2)
	}
	f.eventually("the end is recorded", func() bool {
		e, err := f.files.Ended("a1")
		return err == nil && e != nil && e.Unmounted
	})
	end()
	running.Wait()
	if !f.runs(now.Guard) {
		t.Error("the guard has ended with the agent, and an order is left")
	}
}

func TestRun_LeavesNothingWithoutOrders(t *testing.T) {
	f := newFixture(t)
	f.renew(time.Hour)
	kit.Must(t, f.Order("a1", group("exec", nil), nil))
	r, err := watch.ReadRecord(f.files.Memory)
	kit.Must(t, err)
	kit.Must(t, f.Release("a1"))
	ctx, end := context.WithCancel(t.Context())
	end()
	f.Run(ctx)
	if f.runs(r.Guard) {
		t.Error("the guard runs")
	}
	out, _ := exec.Command("ls", f.files.Memory).Output()
	if len(out) > 0 {
		t.Errorf("left in memory: %s", out)
	}
}

// runs reports whether a process runs. One that has ended may still have a pid.
func (f *fixture) runs(r process.Ref) bool {
	over, cancel := context.WithCancel(f.t.Context())
	cancel()
	return r.Wait(over) != nil
}

// eventually waits until check reports true. It polls, because another process makes the changes.
func (f *fixture) eventually(what string, check func() bool) {
	f.t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !check() {
		if time.Now().After(deadline) {
			f.t.Fatalf("waited without success: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
