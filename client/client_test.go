package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"berth/client/drivers/executor"
	"berth/client/hooks"
	"berth/client/store"
	"berth/structs"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "executor" {
		os.Exit(executor.Main(os.Args[2:]))
	}
	if len(os.Args) == 4 && os.Args[1] == "agent-under-test" {
		os.Exit(agentMain(os.Args[2], os.Args[3]))
	}
	if len(os.Args) == 2 && os.Args[1] == "plugin-under-test" {
		os.Exit(pluginMain())
	}
	goleak.VerifyTestMain(m)
}

func TestClient_RunsStopsAndDeletesAnAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		if !isClosed(r.client.ServersContacted()) {
			t.Error("the servers were not contacted")
		}
		r.servers.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web", "a2/web"}) {
			t.Fatalf("running %v", got)
		}
		if r.servers.status("a1") != structs.AllocRunning ||
			!r.client.work.holds.Running("a1") {
			t.Errorf("status %s", r.servers.status("a1"))
		}
		r.servers.stopAlloc("a1")
		r.pass(time.Second)
		if r.servers.status("a1") != structs.AllocComplete ||
			r.servers.status("a2") != structs.AllocRunning ||
			r.client.work.holds.Running("a1") {
			t.Errorf("a1 is %s, a2 %s",
				r.servers.status("a1"), r.servers.status("a2"))
		}
		r.servers.remove("a1")
		r.pass(time.Second)
		if _, err := os.Stat(filepath.Join(r.dir, "alloc", "a1")); !os.IsNotExist(err) {
			t.Errorf("the directory of a1: %v", err)
		}
		r.servers.remove("a2") // runs: it is stopped first
		r.pass(time.Second)
		if got := r.machine.Held(); len(got) > 0 || len(r.client.Allocs()) > 0 {
			t.Errorf("held %v", got)
		}
	})
}

func TestClient_RunsAnAllocationOnceThatIsTwiceInAnAnswer(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		var starts atomic.Int32
		r.machine.Before = func(point string) error {
			if point == "start a1/web" {
				starts.Add(1)
			}
			return nil
		}
		r.servers.twice = true
		r.start(false)
		defer r.stop()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		if n := starts.Load(); n != 1 {
			t.Errorf("its task was started %d times", n)
		}
	})
}

func TestClient_DoesNotSetUpAStoppedAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		r.parts.hooks = func(env *hooks.AllocEnv) []hooks.Alloc {
			return []hooks.Alloc{orderHook{r.parts, env.Alloc.ID}}
		}
		r.run()
		defer r.stop()
		a := testAlloc("a1")
		a.DesiredStatus = structs.AllocDesiredStop
		r.servers.place(a)
		r.pass(time.Second)
		if r.servers.status("a1") != structs.AllocComplete ||
			len(r.parts.log) > 0 || len(r.machine.Log()) > 0 {
			t.Errorf("a1 is %s, hooks %q, driver %q", r.servers.status("a1"),
				r.parts.log, r.machine.Log())
		}
	})
}

func TestClient_ReportsAnInvalidAllocationAsFailed(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		bad := testAlloc("bad")
		bad.TaskGroup = "none"
		done := testAlloc("done")
		done.ClientStatus = structs.AllocComplete
		r.servers.place(bad, done)
		r.pass(time.Second)
		if r.servers.status("bad") != structs.AllocFailed ||
			r.servers.status("done") != structs.AllocComplete ||
			len(r.client.Allocs()) != 0 {
			t.Errorf("bad is %s, done %s",
				r.servers.status("bad"), r.servers.status("done"))
		}
		if n := len(r.servers.called("Alloc.GetAllocs")); n != 1 {
			t.Errorf("fetched %d times, want 1", n)
		}
	})
}

func TestAllocUpdates_AreBatchedAndSentUntilAcknowledged(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		down := false
		r.servers.fail = func(_, method string) error {
			if method == "Node.UpdateAlloc" && down {
				return structs.Errorf(structs.KindTimeout, "no answer")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		r.servers.do(func() { down = true })
		var allocs []*structs.Allocation
		for i := range 20 {
			allocs = append(allocs, testAlloc(fmt.Sprintf("a%02d", i)))
		}
		r.servers.place(allocs...)
		r.pass(150 * time.Millisecond)
		if n := len(r.servers.called("Node.UpdateAlloc")); n != 0 {
			t.Errorf("%d updates before they were gathered", n)
		}
		r.pass(100 * time.Millisecond) // the first try fails
		r.servers.stopAlloc("a00")
		r.pass(100 * time.Millisecond)
		r.servers.do(func() { down = false })
		r.pass(time.Second)
		calls := r.servers.called("Node.UpdateAlloc")
		if len(calls) != 2 {
			t.Fatalf("%d updates, want 2", len(calls))
		}
		last := calls[1].req.(*structs.AllocsClientUpdateRequest).Allocs
		if len(last) != 20 || last[0].ID != "a00" ||
			last[0].ClientStatus != structs.AllocComplete {
			t.Errorf("%d allocations, first %+v", len(last), last[0])
		}
	})
}

func TestSendUpdates_ARejectedBatchDelaysNoOther(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		rejections := 1
		r.servers.fail = func(_, method string) error {
			if method != "Node.UpdateAlloc" || rejections == 0 {
				return nil
			}
			rejections--
			return structs.Errorf(structs.KindInvalid, "an allocation of the batch makes no sense")
		}
		r.start(false)
		defer r.stop()
		for i := range 2*updateBatch + 10 {
			r.client.work.updates.enqueue(&structs.AllocClientUpdate{
				ID:           fmt.Sprintf("a%03d", i),
				ClientStatus: structs.AllocRunning,
			})
		}
		r.pass(time.Minute)
		var got []string
		for _, c := range r.servers.called("Node.UpdateAlloc") {
			sent := c.req.(*structs.AllocsClientUpdateRequest).Allocs
			got = append(got, fmt.Sprintf("%d from %s", len(sent), sent[0].ID))
		}
		want := []string{"64 from a000", "64 from a064", "10 from a128", "64 from a000"}
		if !slices.Equal(got, want) {
			t.Errorf("sent %q, want %q", got, want)
		}
	})
}

func TestRestart_LeavesTasksRunning(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		r.servers.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		id := r.client.NodeID()
		r.stop()
		if got := r.machine.Running(); len(got) != 2 {
			t.Fatalf("running %v", got)
		}
		r.machine.Exit("a2/web", failed) // has to start again, after an answer of the servers
		r.servers.do(func() {
			r.servers.fail = func(string, string) error {
				return structs.NotServedf("rejected")
			}
		})
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if r.client.NodeID() != id || isClosed(r.client.ServersContacted()) {
			t.Error("the client has another node ID, or has contacted the servers")
		}
		if n := len(r.servers.called("Node.UpdateAlloc")); n > 2 {
			t.Error("updates were sent before the servers were contacted")
		}
		if r.machine.Task("a1/web").Starts != 1 ||
			r.machine.Task("a2/web").Starts != 1 {
			t.Errorf("started without the servers: %v", r.machine.Log())
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(30 * time.Second)
		if r.machine.Task("a1/web").Starts != 1 ||
			r.machine.Task("a2/web").Starts != 2 {
			t.Errorf("%v", r.machine.Log())
		}
		if r.servers.status("a1") != structs.AllocRunning ||
			r.servers.status("a2") != structs.AllocRunning {
			t.Errorf("a1 is %s, a2 %s",
				r.servers.status("a1"), r.servers.status("a2"))
		}
	})
}

func TestRestart_DoesNotStartADeletedAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		r.servers.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		r.stop()
		r.machine.Reboot()
		r.servers.remove("a1")
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a2/web"}) ||
			r.machine.Task("a1/web").Starts != 0 {
			t.Errorf("running %v", got)
		}
	})
}

func TestRestart_ABadRecordWaitsForTheServers(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		r.stop()
		r.machine.Reboot()
		err := os.RemoveAll(filepath.Join(r.dir, "alloc", "a1"))
		if err != nil {
			t.Fatal(err)
		}
		r.prepare(false)
		junk := "no record of a task"
		if err := store.NewTable[string]("alloc_tasks").Put(r.client.db, store.Key("a1", "web"),
			&junk); err != nil {
			t.Fatal(err)
		}
		r.servers.do(func() {
			r.servers.fail = func(string, string) error {
				return structs.NotServedf("rejected")
			}
		})
		r.run()
		defer r.stop()
		r.pass(time.Minute)
		if got := r.machine.Running(); len(got) > 0 {
			t.Errorf("running %v before an answer of the servers", got)
		}
		r.servers.do(func() { r.servers.fail = nil })
		r.pass(time.Minute)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web"}) {
			t.Errorf("running %v", got)
		}
	})
}

// orderHook notes when an allocation's hooks go up and down.
type orderHook struct {
	p  *parts
	id string
}

func (orderHook) Name() string { return "order" }
func (h orderHook) Up(context.Context, *hooks.AllocEnv) error {
	h.p.note("up " + h.id)
	return nil
}
func (h orderHook) Down(context.Context) error {
	h.p.note("down " + h.id)
	return nil
}

// pluginAlloc is an allocation that runs a CSI plugin.
func pluginAlloc(id string) *structs.Allocation {
	a := testAlloc(id)
	a.Job.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{
		ID:   "p",
		Type: structs.CSIPluginMonolith,
	}
	return a
}

func TestPluginAllocs_AreRestoredFirstAndDestroyedLast(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.prepare(false)
		p := r.parts
		p.hooks = func(env *hooks.AllocEnv) []hooks.Alloc {
			return []hooks.Alloc{orderHook{r.parts, env.Alloc.ID}}
		}
		r.run()
		r.servers.place(testAlloc("a1"), pluginAlloc("z1"))
		r.pass(time.Second)
		r.stop()
		r.edit = func(c *Config) { c.DestroyOnShutdown = true }
		r.start(false)
		log := r.machine.Log()
		if !slices.Equal(log[2:], []string{"recover z1/web", "recover a1/web"}) {
			t.Errorf("restored in the order %v", log[2:])
		}
		r.parts.log = nil
		r.stop()
		want := []string{"down a1", "down z1", "subsystems end"}
		if !slices.Equal(r.parts.log, want) {
			t.Errorf("got %q, want %q", r.parts.log, want)
		}
		if got := r.machine.Held(); len(got) > 0 || r.servers.status("a1") != structs.AllocRunning {
			t.Errorf("held %v, a1 is %s: it has not ended by itself", got, r.servers.status("a1"))
		}
		if left, _ := os.ReadDir(filepath.Join(r.dir, "alloc")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web", "z1/web"}) {
			t.Errorf("running when the node is back: %v", got)
		}
	})
}

func TestShutdown_IsBoundedDespiteAFailingHook(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) {
			c.DestroyOnShutdown, c.ShutdownTimeout = true, 10*time.Second
		}
		r.prepare(false)
		r.parts.hooks = func(env *hooks.AllocEnv) []hooks.Alloc {
			return []hooks.Alloc{stuckHook{}}
		}
		r.run()
		r.servers.place(testAlloc("a1"))
		r.pass(time.Second)
		begin := time.Now()
		r.stop()
		if took := time.Since(begin); took != 10*time.Second {
			t.Errorf("took %s, want 10s", took)
		}
		r.servers.do(func() { r.servers.allocs = nil })
	})
}

// stuckHook has a Down that always fails.
type stuckHook struct{}

func (stuckHook) Name() string                              { return "stuck" }
func (stuckHook) Up(context.Context, *hooks.AllocEnv) error { return nil }
func (stuckHook) Down(context.Context) error {
	return fmt.Errorf("busy")
}

func TestNew_RejectsADataDirectoryInUse(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		cfg := DefaultConfig()
		cfg.Enabled, cfg.DataDir = true, r.dir
		if _, err := New(cfg, Deps{Pool: r.servers}); err == nil ||
			!strings.Contains(err.Error(), "another agent") {
			t.Errorf("got %v", err)
		}
	})
}
