package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/structs"
	"berth/test/kit"
)

// withWatchdog gives the node a file in the place of a watchdog. Each feed writes a byte to it.
func (f *fixture) withWatchdog() {
	f.t.Helper()
	f.device = filepath.Join(filepath.Dir(f.files.Dir), "watchdog")
	kit.Must(f.t, os.WriteFile(f.device, nil, 0o600))
}

func (f *fixture) fed() string {
	f.t.Helper()
	b, err := os.ReadFile(f.device)
	kit.Must(f.t, err)
	return string(b)
}

// feeds waits until the guard has fed the watchdog anew.
func (f *fixture) feeds() {
	f.t.Helper()
	before := f.fed()
	f.eventually("the guard feeds the watchdog", func() bool {
		more := f.fed()[len(before):]
		return strings.HasSuffix(more, "\x00\x00")
	})
}

// closed waits until the guard has closed the watchdog.
func (f *fixture) closed() {
	f.t.Helper()
	f.eventually("the watchdog is closed", func() bool { return strings.HasSuffix(f.fed(), "V") })
}

// starves waits until the guard does not feed the watchdog any more, and has not closed it.
func (f *fixture) starves() {
	f.t.Helper()
	f.eventually("the guard says that it does not feed", func() bool {
		text, err := os.ReadFile(f.files.Dir + "/log")
		return err == nil && strings.Contains(string(text), "the watchdog is not fed any more")
	})
	before := f.fed()
	f.twoLooks()
	f.twoLooks()
	if now := f.fed(); now != before || strings.Contains(now, "V") {
		f.t.Errorf("it was fed %d times, and then %q", len(before), now[len(before):])
	}
}

func TestGuard_FeedsTheWatchdogWhileThereIsAVolume(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	f.put(&Order{AllocID: "a0"})
	f.guard()
	f.twoLooks()
	if fed := f.fed(); fed != "" {
		t.Errorf("without a volume it is fed: %q", fed)
	}
	group, task := f.task("t")
	f.orderFor("a1", group)
	f.feeds()
	f.renew(0)
	f.killed(task)
	f.ended("a1", unmounted)
	f.feeds() // all has ended in time
	kit.Must(t, f.files.Remove("a1"))
	f.closed()
}

func TestStop_ClosesTheWatchdog(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	group, _ := f.task("t")
	f.orderFor("a1", group)
	f.guard()
	f.feeds()
	kit.Must(t, f.files.Remove("a1"))
	kit.Must(t, Stop(f.files.Memory, time.Minute))
	if fed := f.fed(); !strings.HasSuffix(fed, "V") {
		t.Errorf("the machine would reboot after %q", fed)
	}
}

// Two agents have one watchdog, and the newer guard takes it over.
func TestGuard_LeavesTheWatchdogToTheNextOne(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	group, _ := f.task("t")
	f.orderFor("a1", group)
	f.guard()
	f.feeds()
	kit.Must(t, f.agent.Process.Kill())
	_ = f.agent.Wait()
	f.agent = f.process()
	f.guard()
	f.eventually("the first one closes it", func() bool { return strings.Contains(f.fed(), "V") })
	f.feeds()
}

func TestGuard_StarvesTheWatchdogWhileAMountIsLeft(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	group, task := f.task("t")
	v := f.orderFor("a1", group)
	busy, err := os.Create(filepath.Join(v.Target, "open"))
	kit.Must(t, err)
	f.guard()
	f.feeds()
	f.renew(0)
	f.killed(task)
	f.starves()
	kit.Must(t, busy.Close())
	f.ended("a1", unmounted)
	f.feeds()
}

func TestGuard_StarvesTheWatchdogWhileAProcessIsLeft(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	group, task := f.task("t")
	f.orderFor("a1", group)
	thaw := f.freeze(task.Process.Pid)
	f.guard()
	f.feeds()
	f.renew(0)
	f.starves()
	e := f.ended("a1", func(e *Ended) bool { return len(e.Left) > 0 })
	named := fmt.Sprintf("processes [%d] do not end", task.Process.Pid)
	if !e.Empty.IsZero() || e.Unmounted || e.Left[0].Path != group.Name() ||
		!strings.Contains(e.Left[0].Reason, named) {
		t.Errorf("the record is %+v; want %q at %s, and no time of the end", e, named, group.Name())
	}
	thaw()
	f.killed(task)
	f.ended("a1", unmounted)
	f.feeds()
}

// freeze makes a process ignore SIGKILL, as one that waits for a dead disk does.
func (f *fixture) freeze(pid int) (thaw func()) {
	f.t.Helper()
	const freezer = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(freezer); err != nil {
		kit.SkipLacking(f.t, "the freezer of cgroup v1: in v2 a kill ends a frozen process")
	}
	dir := fmt.Sprintf("%s/%s-%d", freezer, testCgroup, pid)
	kit.Must(f.t, os.Mkdir(dir, 0o755))
	write := func(file, text string) { kit.Must(f.t, os.WriteFile(dir+"/"+file, []byte(text), 0)) }
	thaw = func() { write("freezer.state", "THAWED") }
	f.t.Cleanup(func() {
		thaw()
		f.eventually("the frozen process has ended", func() bool { return os.Remove(dir) == nil })
	})
	write("cgroup.procs", strconv.Itoa(pid))
	write("freezer.state", "FROZEN")
	return thaw
}

// A guard that hangs in its look does not end anything, and only its feeder finds out.
func TestFeeder_StarvesIfTheGuardHangs(t *testing.T) {
	f := newFixture(t)
	f.withWatchdog()
	g := &guard{files: f.files, boot: f.boot, orders: map[string]*Order{
		"a0": {AllocID: "a0"},
		"a1": {AllocID: "a1", Volumes: []OrderedVolume{{ID: "v"}}},
	}}
	feeding := &feeder{g: g, path: f.device, control: KernelWatchdog{}}
	until := f.renew(time.Hour)
	late := until.Add(structs.GuardKillTime)
	for _, c := range []struct {
		now  boottime.Instant
		want string
	}{
		{until, ""}, // it opens
		{until, "\x00"},
		{late - 1, "\x00\x00"},
		{late, "\x00\x00"},
		{late, "\x00\x00"},
	} {
		feeding.step(c.now)
		if got := f.fed(); got != c.want {
			t.Errorf("at %d, of a lease until %d: fed %q, want %q", c.now, until, got, c.want)
		}
	}
	g.ending = map[string]*ending{"a1": {}} // all has ended
	feeding.step(late)
	if feeding.starved {
		t.Error("it starves although the allocation has ended")
	}
	g.ending["a1"].unended = until.Add(time.Second) // something has come back
	feeding.step(late)
	if feeding.starved {
		t.Error("it starves too early")
	}
	feeding.step(late.Add(time.Second))
	if !feeding.starved {
		t.Error("it does not starve")
	}
	g.ending = nil

	feeding.end()
	if strings.Contains(f.fed(), "V") {
		t.Error("its end saves the machine")
	}

	f.withWatchdog()
	kit.Must(t, os.Remove(f.leasePath())) // it counts from now
	lost := &feeder{g: g, path: f.device, control: KernelWatchdog{}}
	for _, now := range []boottime.Instant{late, late, late.Add(structs.GuardKillTime)} {
		lost.step(now)
	}
	if got := f.fed(); got != "\x00" || !lost.starved {
		t.Errorf("without a lease: fed %q, starved %t", got, lost.starved)
	}
	lost.starved = false
	lost.end()
	if got := f.fed(); got != "\x00V" {
		t.Errorf("an end in order: %q", got)
	}
}
