package volumes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/test/kit"
)

// A file system that turned read-only stays mounted while one allocation on the node uses it. No other
// allocation gets it for writing until all have ended. Then it is staged again.
func TestUp_RejectsWritersOfAStageThatTurnedReadOnly(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	dir := filepath.Join(p.Dir(), "ext-data")
	kit.Must(t, os.Mkdir(dir, 0o700))
	kit.Must(t, unix.Mount("none", dir, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	remount := func(flags uintptr) {
		kit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|flags, ""))
	}
	first, second := use("data", "a1"), use("data", "a2")
	r.up(first)
	remount(unix.MS_RDONLY)

	_, err := r.v.Up(r.ctx(), second, nil)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "allocation a1") {
		t.Errorf("a writer on a file system that turned read-only: got %v", err)
	}
	if n := p.Count("NodePublishVolume"); n != 1 {
		t.Errorf("it was published %d times", n)
	}
	kit.Must(t, r.v.Down(r.ctx(), second.VolumeKey, "a2"))
	if turned, err := r.v.TurnedReadOnly(second.VolumeKey, "a2"); !turned || err != nil {
		t.Errorf("TurnedReadOnly: got %v, %v", turned, err)
	}
	kit.Must(t, r.v.Forget(second.VolumeKey, "a2"))
	reader := use("data", "a3")
	reader.ReadOnly = true
	r.up(reader)
	r.down(first)
	// The reader was added later: only the stage record shows that the file system was writable.
	_, err = r.v.Up(r.ctx(), second, nil)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "allocation a3") {
		t.Errorf("a writer beside a reader of a file system that turned read-only: %v", err)
	}
	kit.Must(t, r.v.Down(r.ctx(), second.VolumeKey, "a2"))
	kit.Must(t, r.v.Forget(second.VolumeKey, "a2"))
	r.down(reader)

	remount(0) // replaces the effect of a new mount
	r.up(second)
	if n := p.Count("NodeStageVolume"); n != 2 {
		t.Errorf("staged %d times", n)
	}
	r.down(second)
}
