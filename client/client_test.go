package client

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"berth/client/driver"
	"berth/client/drivers/executor"
	"berth/client/hook"
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

func TestRegistrationWaitsForTheFirstFingerprints(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(true)
		defer r.stop()
		r.pass(20 * time.Second)
		close(r.parts.drivers.ready)
		r.parts.plugins.set(instance("p", structs.CSIKindNode, true))
		r.pass(time.Second)
		if n := len(r.plane.called("Node.Register")); n != 0 {
			t.Fatalf("%d registrations before the plugins were fingerprinted", n)
		}
		close(r.parts.plugins.ready)
		synctest.Wait()
		calls := r.plane.called("Node.Register")
		if len(calls) != 1 || !ended(r.client.Registered()) {
			t.Fatalf("%d registrations", len(calls))
		}
		req := calls[0].req.(*structs.NodeRegisterRequest)
		if len(req.CSI) != 1 || req.CSI[0].PluginID != "p" {
			t.Errorf("plugin instances: %v", req.CSI)
		}
		n := req.Node
		if n.Name != "node1" || n.SecretID == "" || n.Attributes["berth.version"] != "0.1" || n.Attributes["driver.fake"] != "1" ||
			n.Attributes["kernel.name"] != "linux" || n.NodeResources.Memory.MemoryMB == 0 || !strings.HasPrefix(n.ComputedClass, "v1:") {
			t.Errorf("node: %+v", n)
		}
	})
}

func TestRegistrationProceedsAfterTheTimeout(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		begin := time.Now()
		r.start(true)
		defer r.stop()
		<-r.client.Registered()
		if took := time.Since(begin); took != 50*time.Second {
			t.Errorf("registered after %s, want 50s", took)
		}
	})
}

func TestHeartbeats(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.pass(16 * time.Second)
		if n := len(r.plane.called("Node.UpdateStatus")); n != 3 { // at 5, 10 and 15 s
			t.Errorf("%d heartbeats in 16s, want 3", n)
		}
	})
}

func TestAHeartbeatGoesToANewLeaderAtOnce(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.plane.do(func() { r.plane.servers = []string{"s2:1", "s1:1"} })
		r.pass(5*time.Second + minBeatGap)
		beats := r.plane.called("Node.UpdateStatus")
		if len(beats) != 2 || beats[0].addr != "s1:1" || beats[1].addr != "s2:1" || beats[1].at.Sub(beats[0].at) > minBeatGap {
			t.Errorf("heartbeats: %+v", beats)
		}
	})
}

func TestANodeThatWasForgottenRegistersAgain(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.plane.do(func() { clear(r.plane.nodes) })
		r.pass(5 * time.Second)
		if n := len(r.plane.called("Node.Register")); n != 2 {
			t.Errorf("%d registrations, want 2", n)
		}
	})
}

func TestAServerThatIsGoneIsReplaced(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.plane.fail = func(addr, _ string) error {
			if addr == "s1:1" {
				return structs.Errorf(structs.KindUnavailable, "%s: connection refused", addr)
			}
			return nil
		}
		r.plane.servers = []string{"s2:1", "s1:1"}
		r.start(false)
		defer r.stop()
		if !ended(r.client.Registered()) || r.client.Servers()[0] != "s2:1" {
			t.Errorf("servers %v", r.client.Servers())
		}
	})
}

func TestServersThatAreAwayAreTriedAgain(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.plane.fail = func(addr, _ string) error { return structs.Errorf(structs.KindUnavailable, "refused") }
		r.start(false)
		defer r.stop()
		r.pass(3 * time.Minute)
		if n := len(r.plane.called("Node.Register")); n < 10 || n > 40 {
			t.Errorf("%d tries in 3 minutes at two servers", n)
		}
		r.plane.do(func() { r.plane.fail = nil })
		r.pass(15 * time.Second)
		if !ended(r.client.Registered()) {
			t.Error("not registered after the servers came back")
		}
	})
}

func TestADriverThatChangesRegistersTheNodeAgain(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		r.node = &structs.DriverInfo{Detected: true, HealthDescription: "broken"}
		r.parts.drivers.changes <- struct{}{}
		r.pass(minBeatGap)
		calls := r.plane.called("Node.Register")
		if len(calls) != 2 {
			t.Fatalf("%d registrations, want 2", len(calls))
		}
		if n := calls[1].req.(*structs.NodeRegisterRequest).Node; n.Drivers["fake"].Healthy || n.Attributes["driver.fake"] != "" {
			t.Errorf("%+v", n.Drivers["fake"])
		}
		r.client.UpdateConfig(func(c *Config) { c.Meta = map[string]string{"rack": "r2"} })
		r.pass(minBeatGap)
		if n := len(r.plane.called("Node.Register")); n != 3 || r.client.Config().Meta["rack"] != "r2" {
			t.Errorf("%d registrations after a change of the configuration, want 3", n)
		}
	})
}

func TestPluginChangesAreBatchedAndSentAsDifferences(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.prepare(false)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, true), instance("b", structs.CSIKindNode, true))
		r.run()
		defer r.stop()
		r.pass(time.Second)
		if n := len(r.plane.called("Node.UpdateCSI")); n != 0 {
			t.Fatalf("%d updates of what the registration said already", n)
		}
		r.plane.do(func() {
			r.plane.fail = func(_, method string) error {
				if method == "Node.UpdateCSI" {
					return structs.Errorf(structs.KindTimeout, "no answer")
				}
				return nil
			}
		})
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false), instance("b", structs.CSIKindNode, true))
		r.pass(pluginBatch / 2)
		r.parts.plugins.set(instance("a", structs.CSIKindNode, false), instance("a", structs.CSIKindController, true))
		r.pass(pluginBatch)
		r.plane.do(func() { r.plane.fail = nil })
		r.pass(time.Second)
		calls := r.plane.called("Node.UpdateCSI")
		if len(calls) != 2 {
			t.Fatalf("%d updates, want one that failed and one", len(calls))
		}
		req := calls[1].req.(*structs.NodeUpdateCSIRequest)
		if len(req.Upserts) != 2 || req.Upserts[0].Kind != structs.CSIKindController || req.Full ||
			!slices.Equal(req.Removes, []structs.CSIInstanceKey{{PluginID: "b", Kind: structs.CSIKindNode}}) {
			t.Errorf("upserts %v, removes %v", req.Upserts, req.Removes)
		}
		if len(r.plane.csi) != 2 {
			t.Errorf("the servers know %v", r.plane.csi)
		}
	})
}

func TestAnAllocationIsRunStoppedAndForgotten(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		if !ended(r.client.ServersContacted()) {
			t.Error("the servers were not contacted")
		}
		r.plane.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a1/web", "a2/web"}) {
			t.Fatalf("running %v", got)
		}
		if r.plane.status("a1") != structs.AllocRunning || !r.client.running("a1") {
			t.Errorf("status %s", r.plane.status("a1"))
		}
		if dir, err := r.client.LogFiles("a1", "web", "stdout"); err != nil || dir != filepath.Join(r.dir, "alloc/a1/alloc/logs") {
			t.Errorf("logs in %s, %v", dir, err)
		}
		r.plane.stopAlloc("a1")
		r.pass(time.Second)
		if r.plane.status("a1") != structs.AllocComplete || r.plane.status("a2") != structs.AllocRunning || r.client.running("a1") {
			t.Errorf("a1 is %s, a2 %s", r.plane.status("a1"), r.plane.status("a2"))
		}
		r.plane.remove("a1")
		r.pass(time.Second)
		if _, err := os.Stat(filepath.Join(r.dir, "alloc", "a1")); !os.IsNotExist(err) {
			t.Errorf("the directory of a1: %v", err)
		}
		if _, err := r.client.LogFiles("a1", "web", "stdout"); !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("logs of what is gone: %v", err)
		}
		r.plane.remove("a2") // runs: it is stopped first
		r.pass(time.Second)
		if got := r.machine.Held(); len(got) > 0 || len(r.client.Allocs()) > 0 {
			t.Errorf("held %v", got)
		}
	})
}

func TestAnAllocationThatCannotBeRunIsToldAsFailed(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		bad := testAlloc("bad")
		bad.TaskGroup = "none"
		done := testAlloc("done")
		done.ClientStatus = structs.AllocComplete
		r.plane.place(bad, done)
		r.pass(time.Second)
		if r.plane.status("bad") != structs.AllocFailed || r.plane.status("done") != structs.AllocComplete || len(r.client.Allocs()) != 0 {
			t.Errorf("bad is %s, done %s", r.plane.status("bad"), r.plane.status("done"))
		}
		if n := len(r.plane.called("Alloc.GetAllocs")); n != 1 {
			t.Errorf("fetched %d times, want 1", n)
		}
	})
}

func TestUpdatesAreBatchedNewestFirstAndSentUntilAcknowledged(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		down := false
		r.plane.fail = func(_, method string) error {
			if method == "Node.UpdateAlloc" && down {
				return structs.Errorf(structs.KindTimeout, "no answer")
			}
			return nil
		}
		r.start(false)
		defer r.stop()
		r.plane.do(func() { down = true })
		var allocs []*structs.Allocation
		for i := range 20 {
			allocs = append(allocs, testAlloc(fmt.Sprintf("a%02d", i)))
		}
		r.plane.place(allocs...)
		r.pass(150 * time.Millisecond)
		if n := len(r.plane.called("Node.UpdateAlloc")); n != 0 {
			t.Errorf("%d updates before they were gathered", n)
		}
		r.pass(100 * time.Millisecond) // the first try fails
		r.plane.stopAlloc("a00")
		r.pass(100 * time.Millisecond)
		r.plane.do(func() { down = false })
		r.pass(time.Second)
		calls := r.plane.called("Node.UpdateAlloc")
		if len(calls) != 2 {
			t.Fatalf("%d updates, want 2", len(calls))
		}
		last := calls[1].req.(*structs.AllocsClientUpdateRequest).Allocs
		if len(last) != 20 || last[0].ID != "a00" || last[0].ClientStatus != structs.AllocComplete {
			t.Errorf("%d allocations, first %+v", len(last), last[0])
		}
	})
}

func TestTheAgentRestartsAndNothingElseDoes(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		r.plane.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		id := r.client.NodeID()
		r.stop()
		if got := r.machine.Running(); len(got) != 2 {
			t.Fatalf("running %v", got)
		}
		r.machine.Exit("a2/web", failed) // has to start again, after the servers were heard
		r.plane.do(func() {
			r.plane.fail = func(string, string) error { return structs.Errorf(structs.KindUnavailable, "refused") }
		})
		r.start(false)
		defer r.stop()
		r.pass(time.Minute)
		if r.client.NodeID() != id || ended(r.client.ServersContacted()) {
			t.Error("another node")
		}
		if n := len(r.plane.called("Node.UpdateAlloc")); n > 2 {
			t.Error("updates were sent before the servers were contacted")
		}
		if r.machine.Task("a1/web").Starts != 1 || r.machine.Task("a2/web").Starts != 1 {
			t.Errorf("started without the servers: %v", r.machine.Log())
		}
		r.plane.do(func() { r.plane.fail = nil })
		r.pass(30 * time.Second)
		if r.machine.Task("a1/web").Starts != 1 || r.machine.Task("a2/web").Starts != 2 {
			t.Errorf("%v", r.machine.Log())
		}
		if r.plane.status("a1") != structs.AllocRunning || r.plane.status("a2") != structs.AllocRunning {
			t.Errorf("a1 is %s, a2 %s", r.plane.status("a1"), r.plane.status("a2"))
		}
	})
}

func TestWhatTheServersForgotMeanwhileIsNotStartedAgain(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		r.plane.place(testAlloc("a1"), testAlloc("a2"))
		r.pass(time.Second)
		r.stop()
		r.machine.Reboot()
		r.plane.remove("a1")
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"a2/web"}) || r.machine.Task("a1/web").Starts != 0 {
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
func (h orderHook) Up(context.Context, *hook.AllocEnv) error {
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
	a.Job.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p", Type: structs.CSIPluginMonolith}
	return a
}

func TestPluginsAreRestoredFirstAndDestroyedLast(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.prepare(false)
		p := r.parts
		p.hooks = func(env *hook.AllocEnv) []hook.Alloc { return []hook.Alloc{orderHook{r.parts, env.Alloc.ID}} }
		r.run()
		r.plane.place(testAlloc("a1"), pluginAlloc("z1"))
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
		if want := []string{"down a1", "down z1", "subsystems end"}; !slices.Equal(r.parts.log, want) {
			t.Errorf("got %q, want %q", r.parts.log, want)
		}
		if got := r.machine.Held(); len(got) > 0 {
			t.Errorf("held %v", got)
		}
		if left, _ := os.ReadDir(filepath.Join(r.dir, "alloc")); len(left) > 0 {
			t.Errorf("left %v", left)
		}
	})
}

func TestOnlySoManyEndedAllocationsAreKept(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.edit = func(c *Config) { c.GCMaxAllocs = 2 }
		r.start(false)
		defer r.stop()
		for i := range 4 {
			a := testAlloc(fmt.Sprintf("a%d", i))
			a.Job.Type = structs.JobBatch
			r.plane.place(a)
			r.pass(time.Second)
			r.machine.Exit(a.ID+"/web", driver.ExitResult{})
			r.pass(time.Second)
		}
		left, err := os.ReadDir(filepath.Join(r.dir, "alloc"))
		if err != nil || len(left) != 2 || left[0].Name() != "a2" {
			t.Errorf("left %v, %v", left, err)
		}
		r.plane.place(testAlloc("b"))
		r.pass(time.Second)
		if got := r.machine.Running(); !slices.Equal(got, []string{"b/web"}) {
			t.Errorf("running %v: what was collected is not to start again", got)
		}
	})
}

func TestTheIdentityIsMadeOnceAndKeptSecret(t *testing.T) {
	dir := t.TempDir()
	a, err := loadIdentity(dir, "")
	if err != nil || a.nodeID == "" || a.secretID == "" || a.nodeID == a.secretID {
		t.Fatalf("%+v, %v", a, err)
	}
	if b, err := loadIdentity(dir, ""); err != nil || a != b {
		t.Errorf("%+v, %v", b, err)
	}
	for _, name := range []string{"node-id", "secret-id"} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	if c, err := loadIdentity(dir, "fixed"); err != nil || c.nodeID != "fixed" || c.secretID != a.secretID {
		t.Errorf("%+v, %v", c, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("left %v", left)
	}
}

func TestALeaseIsLostOnce(t *testing.T) {
	now := time.Unix(100, 0)
	var none lease
	if none.lost(now, 0) {
		t.Error("a lease that was never held is lost")
	}
	l := lease{until: now}
	for _, tc := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {9 * time.Second, false}, {10 * time.Second, true}, {time.Hour, false}} {
		if got := l.lost(now.Add(tc.after), 10*time.Second); got != tc.want {
			t.Errorf("%s after its end: %v", tc.after, got)
		}
	}
}

func TestDiffOfInstances(t *testing.T) {
	a, b, b2 := instance("a", "node", true), instance("b", "node", true), instance("b", "node", false)
	c := instance("c", "controller", true)
	up, rm := diffInstances(byKey([]*structs.CSIPluginInstance{a, b}), byKey([]*structs.CSIPluginInstance{b2, c}))
	if !reflect.DeepEqual(up, []*structs.CSIPluginInstance{b2, c}) || !reflect.DeepEqual(rm, []structs.CSIInstanceKey{{PluginID: "a", Kind: "node"}}) {
		t.Errorf("upserts %v, removes %v", up, rm)
	}
}

func TestTwoAgentsCannotShareADataDirectory(t *testing.T) {
	inTime(t, func(t *testing.T) {
		r := newRig(t)
		r.start(false)
		defer r.stop()
		cfg := DefaultConfig()
		cfg.Enabled, cfg.DataDir = true, r.dir
		if _, err := New(cfg, Deps{Pool: r.plane}); err == nil || !strings.Contains(err.Error(), "another agent") {
			t.Errorf("got %v", err)
		}
	})
}

func ended(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
