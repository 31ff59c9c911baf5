package watch

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/internal/boottime"
	"berth/internal/process"
	"berth/structs"
	"berth/test/kit"
)

// hanging is an unmount that does not end before its release, as one of a dead disk.
type hanging struct {
	path     string
	released chan struct{}

	mu    sync.Mutex
	calls map[string]int // by path
}

func newHanging(path string) *hanging {
	return &hanging{path: path, released: make(chan struct{}), calls: map[string]int{}}
}

func (h *hanging) unmount(path string, _ time.Time) string {
	h.mu.Lock()
	h.calls[path]++
	h.mu.Unlock()
	if path == h.path {
		<-h.released
	}
	return ""
}

// called returns the number of calls for a path.
func (h *hanging) called(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[path]
}

func TestUnmountWithin_OneUnmountOfAPathAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHanging("/hangs")
		g := &guard{busy: map[string]bool{}, unmount: h.unmount}
		check := func(path, reason string, took time.Duration, calls int) {
			t.Helper()
			start := time.Now()
			got := g.unmountWithin(path, time.Second)
			if got != reason || time.Since(start) != took || h.called(path) != calls {
				t.Errorf("%s: %q after %s, %d calls; want %q after %s, %d calls",
					path, got, time.Since(start), h.called(path), reason, took, calls)
			}
		}
		check("/hangs", stuck, 1100*time.Millisecond, 1)
		check("/hangs", stuck, 0, 1)
		check("/other", "", 0, 1)
		close(h.released)
		synctest.Wait()
		check("/hangs", "", 0, 2)
	})
}

// hungNode is a guard with one allocation, whose volume hangs in its unmount, and with a file in the place of
// a watchdog. Its time is that of the bubble.
type hungNode struct {
	t       *testing.T
	guard   *guard
	feeder  *feeder
	unmount *hanging
	volume  OrderedVolume
	until   boottime.Instant
}

func newHungNode(t *testing.T) *hungNode {
	t.Helper()
	dir := t.TempDir()
	n := &hungNode{t: t, volume: OrderedVolume{ID: "v", Stage: dir + "/stage", Target: dir + "/target"}}
	files := OrderFiles{Dir: dir + "/orders", Memory: dir + "/memory"}
	kit.Must(t, os.Mkdir(files.Dir, 0o700))
	kit.Must(t, os.Mkdir(files.Memory, 0o700))
	self, err := process.SelfRef()
	kit.Must(t, err)
	n.guard, err = newGuard(Of{Files: files, Agent: self})
	kit.Must(t, err)
	start, begin := time.Now(), boottime.Now()
	n.guard.clock = func() boottime.Instant { return begin.Add(time.Since(start)) }
	n.unmount = newHanging(n.volume.Target)
	n.guard.unmount = n.unmount.unmount

	lease, err := OpenLease(filepath.Join(files.Memory, LeaseFileName), n.guard.boot)
	kit.Must(t, err)
	n.until = n.guard.clock().Add(time.Second)
	kit.Must(t, lease.Write(n.until))
	kit.Must(t, lease.Close())
	kit.Must(t, files.Put(&Order{AllocID: "a1", BootID: n.guard.boot, Volumes: []OrderedVolume{n.volume}}))
	device := dir + "/watchdog"
	kit.Must(t, os.WriteFile(device, nil, 0o600))
	n.feeder = &feeder{g: n.guard, path: device, control: KernelWatchdog{}}
	return n
}

// passUntil lets the guard look, and its feeder feed, until a time after the end of the lease.
func (n *hungNode) passUntil(after time.Duration) {
	for end := n.until.Add(after); ; time.Sleep(poll) {
		n.guard.look()
		synctest.Wait()
		n.feeder.step(n.guard.clock())
		if n.guard.clock() >= end {
			return
		}
	}
}

// feeds reports whether the next step feeds the watchdog.
func (n *hungNode) feeds() bool {
	n.t.Helper()
	before, err := os.Stat(n.feeder.path)
	kit.Must(n.t, err)
	n.feeder.step(n.guard.clock())
	now, err := os.Stat(n.feeder.path)
	kit.Must(n.t, err)
	return now.Size() > before.Size()
}

func (n *hungNode) record() *Ended {
	n.t.Helper()
	e, err := n.guard.files.Ended("a1")
	kit.Must(n.t, err)
	return e
}

// end takes the order away, and waits until the guard has nothing to end any more.
func (n *hungNode) end() {
	n.t.Helper()
	kit.Must(n.t, n.guard.files.Remove("a1"))
	n.guard.look()
	time.Sleep(2 * watchPause)
	synctest.Wait()
	kit.Must(n.t, n.feeder.close())
}

// Nothing but the watchdog helps a machine whose disk does not answer.
func TestGuard_StarvesTheWatchdogWhileAnUnmountHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newHungNode(t)
		n.passUntil(structs.GuardKillTime - poll)
		e := n.record()
		if e == nil || e.Empty.IsZero() || e.Unmounted || len(e.Left) != 1 ||
			e.Left[0] != (Left{Path: n.volume.Target, Reason: stuck}) {
			t.Errorf("the record is %+v; want that %s: %s", e, n.volume.Target, stuck)
		}
		if !n.feeds() {
			t.Error("the watchdog is starved before the guard's time has passed")
		}

		n.passUntil(structs.GuardKillTime)
		if n.feeds() || !n.feeder.starved {
			t.Error("the watchdog is fed although the unmount hangs")
		}
		n.passUntil(time.Minute)
		if n.feeds() || n.unmount.called(n.volume.Target) != 1 || n.unmount.called(n.volume.Stage) != 0 {
			t.Errorf("after a minute it was fed, or the unmounts were tried: %v", n.unmount.calls)
		}

		close(n.unmount.released)
		n.passUntil(time.Minute + 2*watchPause)
		e = n.record()
		if !e.Unmounted || len(e.Left) != 0 || n.unmount.called(n.volume.Stage) == 0 || !n.feeds() {
			t.Errorf("the unmount has ended, and the watchdog is not fed, or the record is %+v", e)
		}
		n.end()
	})
}
