package volumes

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/csi/registry"
	"berth/client/store"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// answerAfterRelease makes an RPC of the plugin continue after its caller has stopped waiting, until release
// is called.
func answerAfterRelease(t *testing.T, p *csitest.Plugin, rpc string) (release func()) {
	gate, done := make(chan struct{}), make(chan struct{})
	p.Script(rpc, func(context.Context, any) (any, error) {
		<-gate
		defer close(done)
		p.Script(rpc, nil)
		return nil, csitest.Error("Internal", "late")
	})
	opened := false
	release = func() {
		if !opened {
			opened = true
			close(gate)
			<-done
		}
	}
	t.Cleanup(release)
	return release
}

// endedContext returns a context that has ended, so that a function does not wait.
func endedContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// An allocation is stopped while its volume is staged or published. A late effect of the plugin is undone
// after it.
func TestDuty_C6_AnAbandonedCallIsUndoneOnlyAfterItsEnd(t *testing.T) {
	for rpc, undo := range map[string]string{
		"NodeStageVolume": "NodeUnstageVolume", "NodePublishVolume": "NodeUnpublishVolume",
	} {
		t.Run(rpc, func(t *testing.T) {
			r := newFixture(t)
			r.crash()
			r.cfg.LateWait = time.Hour
			r.boot()
			p := r.plugin("ebs", "plug", nodeOnly)
			u := use("data", "a1")
			release := answerAfterRelease(t, p, rpc)
			ctx, stop := context.WithCancel(r.ctx())
			ended := make(chan error, 1)
			go func() {
				_, err := r.v.Up(ctx, u, nil)
				ended <- err
			}()
			kit.Must(t, p.Await(r.ctx(), rpc, 1))
			stop()
			if err := <-ended; structs.KindOf(err).Final() {
				t.Errorf("a call with an unknown outcome has a final error: %v", err)
			}
			err := r.v.Down(endedContext(t), u.VolumeKey, "a1")
			if err == nil || structs.KindOf(err).Final() || p.Count(undo) != 0 {
				t.Fatalf("undone while it was carried out (%d calls): %v", p.Count(undo), err)
			}
			if !strings.Contains(err.Error(), rpc+" since ") {
				t.Errorf("%q does not name the call in flight", err)
			}
			has, err := r.v.Presence(u.VolumeKey)
			if err != nil || len(has.Pending) != 1 ||
				!strings.Contains(has.Pending[0], rpc) {
				t.Errorf("%+v, %v", has, err)
			}
			release()
			r.down(u)
			r.clean(p, "ext-data")
		})
	}
}

// killedDuringStage has the agent killed while the plugin stages, starts it again, and checks that the volume
// is not unstaged meanwhile.
func killedDuringStage(t *testing.T) (r *fixture, p *csitest.Plugin, u *Use) {
	r = newFixture(t)
	r.crash()
	r.cfg.LateWait = time.Hour
	r.boot()
	p = r.plugin("ebs", "plug", nodeOnly)
	u = use("data", "a1")
	release := answerAfterRelease(t, p, "NodeStageVolume")
	ended := make(chan error, 1)
	go func() {
		_, err := r.v.Up(r.ctx(), u, nil)
		ended <- err
	}()
	kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 1))
	r.crash()
	<-ended
	r.boot()
	checkNotUnstaged(t, r, p, u)
	release()
	return r, p, u
}

func checkNotUnstaged(t *testing.T, r *fixture, p *csitest.Plugin, u *Use) {
	t.Helper()
	err := r.v.Down(r.ctx(), u.VolumeKey, "a1")
	if !structs.IsKind(err, structs.KindUnavailable) ||
		!strings.Contains(err.Error(), "NodeStageVolume was called at") {
		t.Fatalf("unstaging is not held up: %v", err)
	}
	if n := p.Count("NodeUnstageVolume"); n != 0 {
		t.Fatalf("NodeUnstageVolume was called %d times", n)
	}
}

// The agent is killed during a call, and the plugin continues. The call is not repeated, and the call that
// undoes it waits.
func TestDuty_C6_ARestartedAgentDoesNotUndoACallInProgress(t *testing.T) {
	r, _, u := killedDuringStage(t)
	r.crash()
	r.cfg.LateWait = time.Nanosecond
	r.boot()
	r.down(u)
}

// The instance that was called resumes the call when it is repeated.
func TestDuty_C5_AnAnsweredRepeatSettlesTheCallBeforeTheRestart(t *testing.T) {
	r, p, u := killedDuringStage(t)
	r.up(u)
	r.down(u)
	r.clean(p, "ext-data")
}

// An update of the plugin's job replaced the instance, and the former one may still be busy.
func TestDuty_C5_TheAnswerOfAnotherInstanceSettlesNothing(t *testing.T) {
	r, _, u := killedDuringStage(t)
	p := r.plugin("ebs", "plug-2", nodeOnly)
	waitFor(t, r, func() bool {
		conn, err := r.m.Client(r.ctx(), structs.CSIKindNode, "ebs")
		return err == nil && conn.Registration.AllocID == "plug-2"
	})
	r.up(u)
	kit.Must(t,
		r.v.store.putPublish(&publishRecord{
			Namespace: "default",
			VolumeID:  "data",
			AllocID:   "a1",
			State:     claimed,
		}))
	checkNotUnstaged(t, r, p, u)
	r.crash()
	r.cfg.LateWait = time.Nanosecond
	r.boot()
	unmountBelow(r.root)
	r.down(u)
}

// inVirtualTime runs a test of calls beside a manager whose plugin ebs is registered by allocation plug.
func inVirtualTime(t *testing.T, test func(t *testing.T, m *Manager)) {
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.TempDir())
		kit.Must(t, err)
		defer func() { kit.Must(t, db.Close()) }()
		plugins := registry.New(db, hclog.NewNullLogger())
		kit.Must(t, plugins.Register(&registry.Instance{
			Kind:       structs.CSIKindController,
			ID:         "ebs",
			AllocID:    "plug",
			SocketPath: "/csi.sock",
		}))
		test(t, New(Config{DB: db, Registry: plugins}))
	})
}

var attachCall = Call{
	PluginID: "ebs",
	Instance: "plug",
	Volume:   "x",
	RPC:      "ControllerPublishVolume",
}

func TestAwaitCalls_EndsWithTheLastCallOfTheInstance(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, m *Manager) {
		call := func(volume string, took time.Duration) {
			c := attachCall
			c.Volume = volume
			_ = m.Exclusive(t.Context(), c, func(context.Context) error {
				time.Sleep(took)
				return nil
			})
		}
		begin := time.Now()
		go call("x", time.Second)
		go call("y", 3*time.Second)
		synctest.Wait()
		m.Volumes().AwaitCalls(t.Context(), "another")
		if took := time.Since(begin); took != 0 {
			t.Errorf("waited %s for calls of another instance", took)
		}
		m.Volumes().AwaitCalls(t.Context(), "plug")
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("waited %s, want that of the longer call", took)
		}
	})
}

func TestAwaitCalls_WaitsNoLongerThanTheCaller(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, m *Manager) {
		release := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- m.Exclusive(t.Context(), attachCall, func(context.Context) error {
				<-release
				return nil
			})
		}()
		synctest.Wait()
		begin := time.Now()
		m.Volumes().AwaitCalls(t.Context(), "plug")
		if took := time.Since(begin); took != m.cfg.CallTimeout {
			t.Errorf("waited %s, want %s", took, m.cfg.CallTimeout)
		}
		close(release)
		<-ended
		m.inFlight.AwaitAll(t.Context())
	})
}

// The servers count the time in which a call may take effect from its request, so the wait for another
// call is part of it.
func TestCall_IsLimitedFromItsRequest(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, m *Manager) {
		before := make(chan error)
		go func() {
			before <- m.Exclusive(t.Context(), attachCall, func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			})
		}()
		synctest.Wait()
		requested := time.Now()
		kit.Must(t, m.Exclusive(t.Context(), attachCall, func(ctx context.Context) error {
			until, _ := ctx.Deadline()
			if got, want := until.Sub(requested), m.cfg.callLimit(); got != want {
				t.Errorf("the call ends %s after its request, want %s", got, want)
			}
			return nil
		}))
		kit.Must(t, <-before)
	})
}

// A call that is answered while the agent stops leaves no record: the next agent undoes it without LateWait.
func TestManager_CallAnsweredDuringStopDelaysNothing(t *testing.T) {
	r := newFixture(t)
	r.crash()
	r.cfg.LateWait = time.Hour
	r.cfg.StopWait = time.Hour
	r.boot()
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	release := p.Hang("NodeStageVolume")
	defer release()
	ctx, giveUp := context.WithCancel(r.ctx())
	ended := make(chan error, 1)
	go func() {
		_, err := r.v.Up(ctx, u, nil)
		ended <- err
	}()
	kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 1))
	giveUp()
	<-ended
	m, end := r.m, r.end
	r.end = nil
	stopped := make(chan struct{})
	go func() {
		end()
		close(stopped)
	}()
	serves := func() bool { return true }
	for m.inFlight.Begin("plug", serves) == nil { // no call begins any more once the manager stops
		m.inFlight.End("plug")
		runtime.Gosched()
	}
	release()
	<-stopped
	r.boot()
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K15_NotFoundProvesNothingWhereNoMountWasSeen(t *testing.T) {
	r := newFixture(t)
	r.crash()
	r.cfg.AcceptUnmounted = true
	r.boot()
	p := r.plugin("ebs", "plug", csitest.Config{Node: true}) // mounts nothing
	u := use("data", "a1")
	r.up(u)
	p.Fail("NodeUnstageVolume", csitest.Error("NotFound", "which volume?"))
	err := r.v.Down(r.ctx(), u.VolumeKey, "a1")
	if !structs.IsKind(err, structs.KindNotFound) ||
		!strings.Contains(err.Error(), "which volume?") {
		t.Fatalf("the volume counts as unstaged: %v", err)
	}
	if s, err := r.v.store.getStage(u.VolumeKey); err != nil || s == nil {
		t.Errorf("the record is gone: %v", err)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

// A volume that was never staged needs no unstage.
func TestDuty_K8_K15_NotFoundIsDoneWhereNothingEverSucceeded(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	p.Fail("NodeStageVolume", csitest.Error("NotFound", "?"))
	_, err := r.v.Up(r.ctx(), u, nil)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Fatal(err)
	}
	p.Fail("NodeUnstageVolume", csitest.Error("NotFound", "?"))
	r.down(u)
	r.clean(p, "ext-data")
}

func TestPresence_NamesTheMounts(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	if has, err := r.v.Presence(u.VolumeKey); err != nil || len(has.Mounts)+len(has.Pending)+len(has.Held) != 0 {
		t.Errorf("%+v, %v", has, err)
	}
	target := r.up(u)
	has, err := r.v.Presence(u.VolumeKey)
	if err != nil || len(has.Mounts) != 2 ||
		has.Mounts[1] != target || len(has.Held) != 2 {
		t.Errorf("%+v, %v", has, err)
	}
	kit.Must(t, r.v.store.deletePublish(u.VolumeKey, "a1"))
	kit.Must(t, r.v.store.deleteStage(u.VolumeKey))
	if has, err := r.v.Presence(u.VolumeKey); err != nil || len(has.Mounts) != 2 {
		t.Errorf("without its records: %+v, %v", has, err)
	}
}

// Where the file system of the volumes is shared, as the root is under systemd, the mount table has each
// mount of a volume twice.
func TestPresence_NamesAMountOnce(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs", "plug", nodeOnly)
	kit.Must(t, unix.Mount(r.dir, r.dir, "", unix.MS_BIND, ""))
	t.Cleanup(func() { _ = unix.Unmount(r.dir, unix.MNT_DETACH) })
	kit.Must(t, unix.Mount("", r.dir, "", unix.MS_SHARED, ""))
	kit.Must(t, mounts.MakeShared(r.root))
	u := use("data", "a1")
	target := r.up(u)
	table, err := mounts.Read()
	kit.Must(t, err)
	if all := table.Below(r.root); len(all) != 4 {
		t.Fatalf("the mount table has %q, want each of two mounts twice", all)
	}
	has, err := r.v.Presence(u.VolumeKey)
	if err != nil || len(has.Mounts) != 2 || has.Mounts[1] != target {
		t.Errorf("%+v, %v", has, err)
	}
	r.down(u)
}

// The error to the servers has the reason why a node does not release a volume.
func TestDetach_NamesTheReasonOfADelay(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	ended := func(string) bool { return false }
	p.Fail("NodeUnpublishVolume", csitest.Error("Internal", "umount: target is busy"))
	if err := r.detach(r.ctx(), u.VolumeKey, "a1", ended); err == nil ||
		!strings.Contains(err.Error(), "umount: target is busy") {
		t.Errorf("%v", err)
	}
	release := p.Hang("NodeUnstageVolume")
	defer release()
	ctx, stop := context.WithCancel(r.ctx())
	answered := make(chan error, 1)
	go func() { answered <- r.detach(ctx, u.VolumeKey, "a1", ended) }()
	kit.Must(t, p.Await(r.ctx(), "NodeUnstageVolume", 1))
	stop()
	err := <-answered
	if err == nil || !strings.Contains(err.Error(), "NodeUnstageVolume was called at ") {
		t.Errorf("%v", err)
	}
	if err := r.detach(endedContext(t), u.VolumeKey, "a1", ended); err == nil ||
		!strings.Contains(err.Error(), "NodeUnstageVolume since ") {
		t.Errorf("%v", err)
	}
	release()
	r.down(u)
	r.clean(p, "ext-data")
}

// The clock of the machine was ahead when the call was made. Nobody knows when that was, other than before
// its record is seen.
func TestLateCalls_AheadOfTheClockEndAfterTheirTime(t *testing.T) {
	inVirtualTime(t, func(t *testing.T, m *Manager) {
		late := &callRecord{
			Call:   Call{PluginID: "ebs", Volume: "ext-data", RPC: "ControllerUnpublishVolume", Where: "n1"},
			Since:  time.Now().Add(30 * time.Hour).UnixNano(),
			BootID: m.volumes.boot,
		}
		kit.Must(t, callTable.Put(m.cfg.DB, late.key(), late))
		for _, want := range []int{1, 0} {
			found, err := m.lateCalls("ebs", "ext-data")
			kit.Must(t, err)
			if len(found) != want {
				t.Errorf("%d calls may still be carried out, want %d", len(found), want)
			}
			time.Sleep(m.cfg.LateWait)
		}
	})
}
