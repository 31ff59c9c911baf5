package watch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/mounts"
	"berth/client/drivers/cgroups"
	"berth/internal/boottime"
	"berth/internal/process"
	"berth/structs"
	"berth/test/kit"
)

// orderFor orders the end of an allocation with a task and a volume.
func (f *fixture) orderFor(allocID string, groups ...*cgroups.Group) OrderedVolume {
	f.t.Helper()
	v := f.volume(allocID)
	f.put(&Order{AllocID: allocID, Groups: groups, Volumes: []OrderedVolume{v}})
	return v
}

func TestGuard_EndsAnAllocationWithTheLeaseWithoutItsAgent(t *testing.T) {
	for name, end := range map[string]func(f *fixture){
		"a killed agent": func(f *fixture) {
			kit.Must(f.t, f.agent.Process.Kill())
			_ = f.agent.Wait()
		},
		"a frozen agent": func(f *fixture) { kit.Must(f.t, f.agent.Process.Signal(unix.SIGSTOP)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			held, other := f.task("hold") // without an order
			group, task := f.task("lease")
			v := f.orderFor("a1", group)
			folder := filepath.Join(mounts.FoldersOf(v.Target), "data") // mounted for the task
			f.mount(v.Target, folder, "", unix.MS_BIND)
			f.guard()
			end(f)
			until := f.renew(300 * time.Millisecond)
			f.killed(task)
			e := f.ended("a1", unmounted)
			if e.Due != until || e.Empty < until || e.BootID != f.boot || len(e.Left) > 0 {
				t.Errorf("the lease ended at %d, the record is %+v", until, e)
			}
			took := boottime.Now().Sub(until)
			if took > structs.GuardKillTime {
				t.Errorf("it took %s", took)
			}
			if f.isMounted(v.Target) || f.isMounted(v.Stage) || f.isMounted(folder) {
				t.Error("the volume is still mounted")
			}
			populated, err := held.Populated()
			if err != nil || !populated || !f.runs(other) {
				t.Errorf("the task without an order has ended (%v)", err)
			}
		})
	}
}

func TestGuard_TakesNoLeaseOfThisBootForItsEnd(t *testing.T) {
	for name, damage := range map[string]func(f *fixture) error{
		"missing": func(f *fixture) error { return os.Remove(f.leasePath()) },
		"torn":    func(f *fixture) error { return os.WriteFile(f.leasePath(), make([]byte, 300), 0o600) },
		"foreign": func(f *fixture) error {
			kit.Must(f.t, os.Remove(f.leasePath()))
			other, err := OpenLease(f.leasePath(), "01234567-89ab-cdef-0123-456789abcdef")
			if err == nil {
				err = other.Write(boottime.Now().Add(time.Hour))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			group, task := f.task("t")
			f.put(&Order{AllocID: "a1", Groups: []*cgroups.Group{group}, Delay: time.Hour})
			f.guard()
			kit.Must(t, damage(f))
			f.killed(task)
			f.ended("a1", anyRecord)
		})
	}
}

func TestGuard_WaitsForTheDelayOfAnOrder(t *testing.T) {
	f := newFixture(t)
	soon, first := f.task("soon")
	late, second := f.task("late")
	f.put(&Order{AllocID: "late", Groups: []*cgroups.Group{late}, Delay: time.Second})
	f.put(&Order{AllocID: "soon", Groups: []*cgroups.Group{soon}})
	f.guard()
	until := f.renew(0)
	f.killed(first)
	f.killed(second)
	e := f.ended("late", anyRecord)
	if e.Due != until.Add(time.Second) || e.Empty < e.Due {
		t.Errorf("the lease ended at %d, the record is %+v", until, e)
	}
}

// The machine sleeps between two looks, and wakes after the end of the lease.
func TestLook_EndsAllThatWasDueDuringASuspend(t *testing.T) {
	f := newFixture(t)
	until := f.renew(time.Hour)
	agent, err := process.RefOf(f.agent.Process.Pid)
	kit.Must(t, err)
	g, err := newGuard(Of{Files: f.files, Agent: agent})
	kit.Must(t, err)
	now := until - 1
	g.clock = func() boottime.Instant { return now }

	delays := map[string]time.Duration{"lease": 0, "delayed": time.Minute, "later": time.Hour}
	tasks := map[string]*exec.Cmd{}
	for id, delay := range delays {
		group, task := f.task(id)
		tasks[id] = task
		f.put(&Order{AllocID: id, Groups: []*cgroups.Group{group}, Delay: delay})
	}
	g.look()
	if len(g.ending) > 0 {
		t.Errorf("%d allocations end before the end of the lease", len(g.ending))
	}

	now = until.Add(time.Minute)
	g.look()
	for _, id := range []string{"lease", "delayed"} {
		e := f.ended(id, unmounted)
		f.killed(tasks[id])
		if want := until.Add(delays[id]); e.Due != want || e.Empty != now {
			t.Errorf("the record of %s is %+v, want it due at %d and empty at %d", id, e, want, now)
		}
	}
	if !f.runs(tasks["later"]) {
		t.Error("an allocation has ended before its time")
	}
	for id := range delays {
		kit.Must(t, f.files.Remove(id))
	}
	f.eventually("the ends have ended", func() bool {
		g.look()
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.ending) == 0
	})
}

// The lease of an agent that was restarted or upgraded is renewed by the next one.
func TestGuard_LeavesAnAllocationWhoseLeaseIsRenewed(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	first := f.guard()
	kit.Must(t, f.agent.Process.Kill())
	_ = f.agent.Wait()
	f.agent = f.process() // the next agent
	second := f.guard()
	f.eventually("the first guard has ended", func() bool {
		alive, err := isAlive(first.Guard)
		return err == nil && !alive
	})
	kit.Must(t, f.lease.Close())
	lease, err := OpenLease(f.leasePath(), f.boot)
	kit.Must(t, err)
	f.lease = lease
	f.renew(time.Hour)
	f.twoLooks()
	e, err := f.files.Ended("a1")
	if err != nil || e != nil || !f.runs(task) || !f.isMounted(v.Target) {
		t.Errorf("the allocation has ended: %+v, %v", e, err)
	}
	if alive, err := isAlive(second.Guard); err != nil || !alive {
		t.Errorf("the second guard has ended (%v)", err)
	}
}

// twoLooks waits until the guard has looked at everything anew.
func (f *fixture) twoLooks() {
	f.t.Helper()
	for range 2 {
		last, err := readBeat(f.files.Memory)
		kit.Must(f.t, err)
		f.eventually("the guard looks", func() bool {
			now, err := readBeat(f.files.Memory)
			return err == nil && now != last
		})
	}
}

// A renewal after the end of the lease does not save what was due.
func TestGuard_EndsWhatIsMarkedUnderAValidLease(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	f.put(&Order{AllocID: "a1", Groups: []*cgroups.Group{group}})
	kit.Must(t, f.files.MarkDue(&Due{AllocID: "a1", At: 7}))
	f.guard()
	f.killed(task)
	if e := f.ended("a1", anyRecord); e.Due != 7 {
		t.Errorf("the record is %+v", e)
	}
}

// A machine that loses its power during the unmounts has the record of what has ended.
func TestGuard_RecordsTheEndBeforeTheUnmounts(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	busy, err := os.Create(filepath.Join(v.Target, "open"))
	kit.Must(t, err)
	defer busy.Close()
	f.guard()
	f.renew(0)
	f.killed(task)
	e := f.ended("a1", anyRecord)
	if e.Empty.IsZero() || e.Unmounted || len(e.Left) > 0 || !f.isMounted(v.Target) {
		t.Errorf("the first record is %+v; want one of before the unmounts", e)
	}
}

// A service manager that stops the agent may send its signals to the guard, too.
func TestGuard_IgnoresTheSignalsThatStopAnAgent(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	for _, s := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
		kit.Must(t, unix.Kill(g.Guard.PID, s))
		f.twoLooks()
	}
}

func TestGuard_RecordsABusyMountAndTriesAgain(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	busy, err := os.Create(filepath.Join(v.Target, "open"))
	kit.Must(t, err)
	f.guard()
	f.renew(0)
	f.killed(task)
	e := f.ended("a1", func(e *Ended) bool { return len(e.Left) > 0 })
	if e.Unmounted || e.Empty.IsZero() || e.Left[0].Path != v.Target || !f.isMounted(v.Stage) {
		t.Errorf("the record is %+v", e)
	}
	kit.Must(t, busy.Close())
	f.ended("a1", unmounted)
	if f.isMounted(v.Target) || f.isMounted(v.Stage) {
		t.Error("the volume is still mounted")
	}
}

// After a reboot nothing of an order is left, and its cgroups may be those of others.
func TestGuard_LeavesAnOrderOfAnotherBoot(t *testing.T) {
	f := newFixture(t)
	group, _ := f.task("t")
	v := f.orderFor("a1", group)
	o, err := f.files.Get("a1")
	kit.Must(t, err)
	o.BootID = "another"
	kit.Must(t, f.files.Put(o))
	other, second := f.task("other")
	f.orderFor("a2", other)
	f.guard()
	f.renew(0)
	f.killed(second)
	f.ended("a2", anyRecord)
	due, err := f.files.Due("a1")
	if due != nil || err != nil || !f.isMounted(v.Target) {
		t.Errorf("the guard ends it: %+v, %v", due, err)
	}
}

func TestGuard_UnstagesAfterTheLastUser(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	other, second := f.task("other")
	w := f.orderFor("a2", other)
	kit.Must(t, f.files.MarkDue(&Due{AllocID: "a1"}))
	f.guard()
	f.killed(task)
	f.ended("a1", unmounted)
	if f.isMounted(v.Target) || !f.isMounted(w.Target) || !f.isMounted(w.Stage) {
		t.Error("the volume of the other allocation is not left alone")
	}
	kit.Must(t, f.files.MarkDue(&Due{AllocID: "a2"}))
	f.killed(second)
	f.ended("a2", unmounted)
	if f.isMounted(w.Stage) {
		t.Error("the volume is still staged")
	}
}

// A frozen agent may go on with a start, and a plugin with a mount, at any time.
func TestGuard_EndsWhatBeginsAfterTheEnd(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	f.guard()
	f.renew(0)
	f.killed(task)
	f.ended("a1", unmounted)
	f.mount("tmpfs", v.Target, "tmpfs", 0)
	f.eventually("the late mount is gone", func() bool { return !f.isMounted(v.Target) })
	for _, dir := range group.Dirs() {
		_ = os.WriteFile(filepath.Join(dir, "pids.max"), []byte("max"), 0)
	}
	f.killed(f.startIn(group))
}

// An order that comes just before the end of the lease may miss the kill.
func TestGuard_EndsWhatIsOrderedAfterTheEnd(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	f.put(&Order{AllocID: "a1", Groups: []*cgroups.Group{group}})
	f.guard()
	f.renew(0)
	f.killed(task)
	f.ended("a1", anyRecord)
	late, second := f.task("late")
	f.put(&Order{AllocID: "a1", Tasks: map[string]*cgroups.Group{"late": late}})
	f.killed(second)
}

func TestGuard_EndsWithItsAgentIfNothingIsLeft(t *testing.T) {
	f := newFixture(t)
	group, task := f.task("t")
	f.put(&Order{AllocID: "a1", Groups: []*cgroups.Group{group}})
	g := f.guard()
	kit.Must(t, f.agent.Process.Kill())
	_ = f.agent.Wait()
	f.twoLooks()
	if alive, err := isAlive(g.Guard); err != nil || !alive || !f.runs(task) {
		t.Fatalf("the guard left an order (%v)", err)
	}
	kit.Must(t, f.files.Remove("a1"))
	f.eventually("the guard has ended", func() bool {
		alive, err := isAlive(g.Guard)
		return err == nil && !alive
	})
	if !f.runs(task) {
		t.Error("the task has ended with the guard")
	}
	f.lastGuardHasNoCgroup()
}

func TestStop_RemovesTheCgroupOfTheLastGuard(t *testing.T) {
	f := newFixture(t)
	f.guard()
	kit.Must(t, Stop(f.files.Memory, time.Minute))
	f.lastGuardHasNoCgroup()
}

// lastGuardHasNoCgroup waits until the cgroup of the guards is gone. Guards of other tests may be there.
func (f *fixture) lastGuardHasNoCgroup() {
	f.t.Helper()
	f.eventually("the cgroup is gone, or others are there", func() bool {
		group := cgroups.Detect().Path(ownCgroup, "")
		pids, err := group.PIDs()
		_, missing := os.Stat(group.Name())
		return err == nil && (len(pids) > 0 || os.IsNotExist(missing))
	})
}

func TestRemoveOwnCgroup_LeavesOneWithAGuard(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	kit.Must(t, removeOwnCgroup())
	f.isInOwnCgroup(g)
}

func (f *fixture) isInOwnCgroup(g Record) {
	f.t.Helper()
	pids, err := cgroups.Detect().Path(ownCgroup, "").PIDs()
	if err != nil || !slices.Contains(pids, g.Guard.PID) {
		f.t.Errorf("the cgroup of the guards has %v (%v)", pids, err)
	}
}

// A service manager that ends the agent's group of processes does not end the guard.
func TestGuard_IsInASessionAndCgroupsOfItsOwn(t *testing.T) {
	f := newFixture(t)
	g := f.guard()
	session, err := unix.Getsid(g.Guard.PID)
	if err != nil || session != g.Guard.PID {
		t.Errorf("the guard is in session %d (%v)", session, err)
	}
	f.isInOwnCgroup(g)
	self, err := process.SelfRef()
	kit.Must(t, err)
	if works, err := Works(f.files.Memory, self); works || err != nil {
		t.Errorf("it works for an agent that has not started it (%v)", err)
	}
}
