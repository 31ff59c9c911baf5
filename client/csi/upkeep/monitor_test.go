package upkeep

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/client/csi/helper"
	"berth/client/csi/volumes"
	"berth/structs/storage"
	"berth/test/kit"
)

var data = storage.UsageKey{Namespace: "default", VolumeID: "data"}

// node is a node whose mounts are those of a test.
type node struct {
	*Monitor
	t   *testing.T
	dir string

	mu   sync.Mutex
	list []volumes.Mounted
}

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Geteuid() != 0 {
		kit.SkipLacking(t, "root: it mounts")
	}
	n := &node{t: t, dir: t.TempDir()}
	n.Monitor = NewMonitor(MonitorConfig{
		List:     n.mounts,
		Helpers:  helper.New([]string{os.Args[0]}),
		Interval: 20 * time.Millisecond,
		Wait:     100 * time.Millisecond,
	})
	return n
}

func (n *node) mounts() ([]volumes.Mounted, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.list), nil
}

// add makes a directory for the mount of an allocation.
func (n *node) add(allocID string) string {
	n.t.Helper()
	path := filepath.Join(n.dir, "of-"+allocID)
	kit.Must(n.t, os.Mkdir(path, 0o700))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, volumes.Mounted{
		Volume: data, AllocID: allocID, Path: path, PluginID: "p", Writes: true,
	})
	n.t.Cleanup(func() {
		for unix.Unmount(path, unix.MNT_DETACH) == nil {
		}
	})
	return path
}

func (n *node) tmpfs(allocID string) string {
	n.t.Helper()
	path := n.add(allocID)
	kit.Must(n.t, unix.Mount("none", path, "tmpfs", 0, "size=64k"))
	return path
}

// start runs the monitor until the end of the test.
func (n *node) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		n.Run(ctx)
		close(ended)
	}()
	n.t.Cleanup(func() { cancel(); <-ended })
}

// await waits until the mount of an allocation has a state.
func (n *node) await(allocID, state string) storage.MountHealth {
	n.t.Helper()
	limit := time.After(time.Minute)
	for {
		changed := n.Changed()
		if h := n.State(data, allocID); h.State == state {
			return h
		}
		select {
		case <-changed:
		case <-limit:
			n.t.Fatalf("the mount of %s is %+v, not %s", allocID, n.State(data, allocID), state)
		}
	}
}

func TestMonitor_FindsAMountWhoseServerHasDied(t *testing.T) {
	n := newNode(t)
	fs := kit.MountFUSE(t, n.add("a1"), "text")
	n.tmpfs("a2")
	n.start()
	n.awaitRound()
	if h := n.State(data, "a1"); h.Ill() {
		t.Fatalf("a mount that answers is %+v", h)
	}

	fs.Die()
	h := n.await("a1", storage.MountDead)
	if h.Reason != unix.ENOTCONN.Error() || h.Since == 0 || !n.Disconnected(t.Context(), n.list[0].Path) {
		t.Errorf("got %+v", h)
	}
	if h := n.State(data, "a2"); h.Ill() || n.Disconnected(t.Context(), n.list[1].Path) {
		t.Errorf("its sibling is %+v", h)
	}
}

// awaitRound waits until all mounts are known.
func (n *node) awaitRound() {
	for len(n.Of(data)) < len(n.list) {
		time.Sleep(time.Millisecond) // no event tells of a round without a change
	}
}

func TestMonitor_FindsAHungMountAndItsEnd(t *testing.T) {
	n := newNode(t)
	fs := kit.MountFUSE(t, n.add("a1"), "text")
	n.tmpfs("a2")
	fs.Hang()
	n.start()
	n.await("a1", storage.MountHung)

	// The mount that hangs holds no round up, and gets no second process.
	kit.Must(t, unix.Unmount(n.list[1].Path, 0))
	n.await("a2", storage.MountGone)
	if running := n.cfg.Helpers.Running(); running > 2 {
		t.Errorf("%d processes ask", running)
	}
	fs.Resume()
	n.await("a1", storage.MountHealthy)
}

func TestMonitor_FindsAFileSystemThatTurnsReadOnly(t *testing.T) {
	n := newNode(t)
	writes := n.tmpfs("a1")
	reads := n.tmpfs("a2")
	n.list[1].Writes = false
	n.start()
	n.awaitRound()
	for _, path := range []string{reads, writes} {
		kit.Must(t, unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	n.await("a1", storage.MountReadOnly)
	if h := n.State(data, "a2"); h.Ill() {
		t.Errorf("the mount of a reader is %+v", h)
	}
	kit.Must(t, unix.Mount("", writes, "", unix.MS_REMOUNT, ""))
	n.await("a1", storage.MountHealthy)
}

func TestMonitor_FindsAMountThatIsGoneOrReplaced(t *testing.T) {
	n := newNode(t)
	gone := n.tmpfs("a1")
	replaced := n.tmpfs("a2")
	n.start()
	n.awaitRound()
	kit.Must(t, unix.Unmount(gone, 0))
	kit.Must(t, unix.Mount("none", replaced, "tmpfs", 0, "size=64k"))
	n.await("a1", storage.MountGone)
	n.await("a2", storage.MountGone)

	// The node itself has mounted it anew.
	n.Renew(data, "a2")
	if h := n.Check(t.Context(), data, "a2"); h.Ill() {
		t.Errorf("after Renew: %+v", h)
	}
}

// A plugin that restarts may take its mount away for a moment.
func TestMonitor_NeedsTwoLooksInARow(t *testing.T) {
	n := newNode(t)
	path := n.tmpfs("a1")
	look := func() string {
		_, err := n.look()
		kit.Must(t, err)
		return n.State(data, "a1").State
	}
	look()
	for range 2 {
		kit.Must(t, unix.Unmount(path, 0))
		if got := look(); got != storage.MountHealthy {
			t.Errorf("after one look: %s", got)
		}
		kit.Must(t, unix.Mount("none", path, "tmpfs", 0, "size=64k"))
		n.Renew(data, "a1")
		look()
		n.take(helper.ProbeAnswer{Path: path})
	}
	kit.Must(t, unix.Unmount(path, 0))
	look()
	if got := look(); got != storage.MountGone {
		t.Errorf("after two looks: %s", got)
	}
}

func TestMonitor_ChecksOneMountAtOnce(t *testing.T) {
	n := newNode(t)
	fs := kit.MountFUSE(t, n.add("a1"), "text")
	_, err := n.look()
	kit.Must(t, err)
	if h := n.Check(t.Context(), data, "a1"); h.Ill() {
		t.Errorf("got %+v", h)
	}
	fs.Die()
	if h := n.Check(t.Context(), data, "a1"); h.State != storage.MountDead {
		t.Errorf("got %+v", h)
	}
	if h := n.Check(t.Context(), data, "unknown"); h.Ill() {
		t.Errorf("a mount that is not known is %+v", h)
	}
}

func TestMonitor_BoundsTheProcesses(t *testing.T) {
	n := newNode(t)
	var all []*kit.FUSE
	n.start()
	for i := range helper.Max + 3 {
		fs := kit.MountFUSE(t, n.add(string(rune('a'+i))), "text")
		fs.Hang()
		all = append(all, fs)
	}
	n.await("a", storage.MountHung)
	if running := n.cfg.Helpers.Running(); running > helper.Max {
		t.Errorf("%d processes ask", running)
	}
	for _, fs := range all {
		fs.Resume()
	}
	n.await("a", storage.MountHealthy)
}

func TestMonitor_TellsOfConditions(t *testing.T) {
	n := newNode(t)
	before := n.Changed()
	n.SetCondition(data, &storage.VolumeCondition{Message: "fine"})
	select {
	case <-before:
		t.Error("a normal condition is announced")
	default:
	}
	n.SetCondition(data, &storage.VolumeCondition{Abnormal: true, Message: "ill"})
	<-before
	if c := n.Condition(data); !c.Abnormal || c.Message != "ill" {
		t.Errorf("got %+v", c)
	}
}
