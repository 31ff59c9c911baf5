package hostpath

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"berth/structs/nodecalls"
)

func TestGroup_IsMadeOnceAndDeletedWithItsMembers(t *testing.T) {
	forEachKind(t, kinds, func(t *testing.T, k kind) {
		w := newRunningFixture(t)
		v := w.volume(k, "v")
		other := w.volume(k, "w")
		third := w.volume(k, "x")
		g, err := w.groupSnapshot("g", other.id, v.id)
		w.must("group", err)
		again, err := w.groupSnapshot("g", v.id, other.id)
		w.must("group again", err)
		members := membersOf(g)
		if again.GetGroupSnapshotId() != g.GetGroupSnapshotId() || len(members) != 2 || !g.GetReadyToUse() {
			t.Errorf("made %v and %v", g, again)
		}
		for _, s := range g.GetSnapshots() {
			if s.GetGroupSnapshotId() != g.GetGroupSnapshotId() || !s.GetReadyToUse() {
				t.Errorf("a member is %v", s)
			}
		}
		_, err = w.groupSnapshot("g", v.id, third.id)
		w.mustFail("another group of the name", "AlreadyExists", err)
		_, err = w.groupSnapshot("h", v.id, v.id)
		w.mustFail("a volume twice", "InvalidArgument", err)
		_, err = w.groupSnapshot("h", v.id, "none")
		w.mustFail("a volume that is not there", "NotFound", err)

		w.mustFail("a member alone", "InvalidArgument", w.deleteSnapshot(members[0]))
		w.mustFail("a part of the list", "InvalidArgument", w.deleteGroup(g, members[0]))
		_, err = w.getGroup(g.GetGroupSnapshotId(), members[0])
		w.mustFail("get with a part of the list", "InvalidArgument", err)
		_, err = w.getGroup("none", members...)
		w.mustFail("get of none", "NotFound", err)
		got, err := w.getGroup(g.GetGroupSnapshotId(), members[1], members[0])
		w.must("get", err)
		if len(got.GetSnapshots()) != 2 {
			t.Errorf("got %v", got)
		}

		restored := w.volume(k, "restored", func(r *nodecalls.ClientCSICreateRequest) { r.SnapshotID = members[0] })
		w.must("delete", w.deleteGroup(g))
		w.must("delete again", w.deleteGroup(g))
		rows, _ := filepath.Glob(w.path("data", "[sg]*s", "*"))
		if len(rows) > 0 {
			t.Errorf("left %v", rows)
		}
		for _, o := range []*testVolume{v, other, third, restored} {
			w.must("delete the volume", o.doDelete())
		}
	})
}

// Only images with a file system can be frozen while a task writes to them.
func TestGroup_RejectsAVolumeWhoseWritesItCannotStop(t *testing.T) {
	for _, k := range []kind{kinds[0], aBlock} {
		t.Run(k.name, func(t *testing.T) {
			k.needs(t)
			w := newRunningFixture(t)
			idle, written := w.volume(k, "idle"), w.volume(k, "written")
			written.stageAndPublish()
			_, err := w.groupSnapshot("g", idle.id, written.id)
			w.mustFail("group", "FailedPrecondition", err)
			rows, _ := filepath.Glob(w.path("data", "[sg]*s", "*"))
			if len(rows) > 0 {
				t.Errorf("left %v", rows)
			}
			written.remove()
			w.must("delete", idle.doDelete())
		})
	}
}

// A writer writes each number to one volume, and then to the other. In no group is the second ahead of the
// first, or behind it by more than one.
func TestGroup_HasTheWritesOfItsVolumesInTheirOrder(t *testing.T) {
	anImage.needs(t)
	w := newRunningFixture(t)
	first, second := w.volume(anImage, "first"), w.volume(anImage, "second")
	first.stageAndPublish()
	second.stageAndPublish()

	stop := make(chan struct{})
	started := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- countInto(first.target, second.target, started, stop) }()
	<-started
	for i := range 3 {
		// The order of the names must not decide.
		g, err := w.groupSnapshot(fmt.Sprint("g", i), second.id, first.id)
		w.must("group", err)
		numbers := map[string]int{}
		for _, s := range g.GetSnapshots() {
			restored := w.volume(anImage, "restored-"+s.GetSnapshotId(), func(r *nodecalls.ClientCSICreateRequest) {
				r.SnapshotID = s.GetSnapshotId()
			})
			restored.stageAndPublish()
			numbers[s.GetSourceVolumeId()] = readNumber(t, restored.target)
			restored.remove()
		}
		a, b := numbers[first.id], numbers[second.id]
		if a == 0 || b > a || b < a-1 {
			t.Errorf("group %d: the first volume has %d, the second one %d", i, a, b)
		}
		w.must("delete", w.deleteGroup(g))
	}
	close(stop)
	w.must("write", <-ended)
	first.remove()
	second.remove()
}

// countInto writes growing numbers into two directories, durably, until stop. It closes started after the
// first one.
func countInto(first, second string, started, stop chan struct{}) error {
	for n := 1; ; n++ {
		for _, dir := range []string{first, second} {
			err := writeNumber(dir, n)
			if err != nil {
				return err
			}
		}
		if n == 1 {
			close(started)
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

func writeNumber(dir string, n int) error {
	f, err := os.OpenFile(filepath.Join(dir, "number"), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%010d", n)
	if err != nil {
		return err
	}
	return f.Sync()
}

func readNumber(t *testing.T, dir string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "number"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
