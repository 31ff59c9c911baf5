package hostpath

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/plugins/hostpath/disk"
	"berth/structs"
)

// crashPoints are all points between record, act and mark, with a step that passes them, and the kinds of
// volumes that do.
var crashPoints = []struct {
	step  string
	point string
	kinds []kind
}{
	{"create", "create recorded", kinds},
	{"create", "create made", kinds},
	{"stage", "stage recorded", kinds},
	{"stage", "stage attached", []kind{anImage}},
	{"stage", "stage mounted", kinds},
	{"publish", "publish recorded", kinds},
	{"publish", "publish mounted", kinds},
	{"snapshot", "snapshot recorded", kinds},
	{"snapshot", "snapshot frozen", []kind{anImage}},
	{"snapshot", "snapshot made", kinds},
	{"group", "group recorded", kinds},
	{"group", "group member made", kinds},
	{"group", "group made", kinds},
	{"delete group", "group deletion recorded", kinds},
	{"delete group", "group erased", kinds},
	{"expand", "expand recorded", kinds},
	{"expand", "expand grown", []kind{anImage, aBlock}},
	{"unpublish", "unpublish unmounted", kinds},
	{"unstage", "unstage unmounted", kinds},
	{"delete clone", "delete recorded", kinds},
	{"delete clone", "delete erased", kinds},
}

// crashRounds deals the points of a kind to as few lifecycles as possible: a step of a lifecycle has at most
// one point, so that a driver that nothing kills repeats the step. A round maps steps to points.
func crashRounds(k kind) (rounds []map[string]string) {
	for _, c := range crashPoints {
		if !slices.Contains(c.kinds, k) {
			continue
		}
		fits := func(round map[string]string) bool { return round[c.step] == "" }
		i := slices.IndexFunc(rounds, fits)
		if i < 0 {
			i = len(rounds)
			rounds = append(rounds, map[string]string{})
		}
		rounds[i][c.step] = c.point
	}
	return rounds
}

// A driver is killed at any point and started again, and the call without an answer is repeated. Then
// everything continues: the data is complete, the next start finds nothing to repair, and in the end nothing
// is left.
func TestCrash_AtAnyPointLosesAndLeaksNothing(t *testing.T) {
	for _, k := range kinds {
		for i, round := range crashRounds(k) {
			t.Run(fmt.Sprintf("%s/%d", k.name, i), func(t *testing.T) {
				t.Parallel() // the test mostly waits for a disk
				k.needs(t)
				l := &lifecycle{fixture: newFixture(t), k: k}
				l.startHere()
				for _, step := range l.steps() {
					l.step(step, round[step.name])
					delete(round, step.name)
				}
				if len(round) > 0 {
					t.Errorf("the lifecycle has no step of %v", round)
				}
				rows, _ := filepath.Glob(l.path("data", "*s", "*"))
				if len(rows) > 0 {
					t.Errorf("left in the data directory: %v", rows)
				}
			})
		}
	}
}

// lifecycle has the steps from the creation to the removal of a volume, a snapshot of it, and a clone.
type lifecycle struct {
	*fixture
	k     kind
	v     *testVolume
	clone *testVolume
	snap  string
	group *spec.VolumeGroupSnapshot
}

// step does a step. With a point, a driver in a process of its own begins it and is killed there, and the
// next driver repeats it. The next driver runs in this process, because nothing kills it.
func (l *lifecycle) step(step lifecycleStep, point string) {
	l.t.Helper()
	if point == "" {
		l.must(step.name, step.do())
		return
	}
	before := l.effects()
	l.endHere()
	l.start(crashEnv + "=" + point)
	if after := l.effects(); !slices.Equal(before, after) {
		l.t.Errorf("before the %s, a start made %q of %q", step.name, after, before)
	}
	err := step.do()
	if !structs.IsKind(err, structs.KindUnavailable) || codeName(err) != "Unavailable" {
		l.t.Fatalf("%s: got %v, want a driver that was killed at %q", step.name, err, point)
	}
	l.awaitKilled()
	l.startHere()
	l.checkLoopDevices(step.name)
	l.must(step.name+" after "+point, step.do())
}

// effects lists the files, records, mounts and loop devices of the driver.
func (l *lifecycle) effects() []string {
	l.t.Helper()
	all := mountsBelow(l.t, l.dir)
	for _, device := range allLoops(l.t) {
		if strings.Contains(device, l.dir) {
			all = append(all, device)
		}
	}
	l.must("list", filepath.WalkDir(l.path("data"), func(path string, e fs.DirEntry, err error) error {
		text := []byte(nil)
		if err == nil && e.Name() == "record.json" {
			text, err = os.ReadFile(path)
		}
		all = append(all, fmt.Sprintf("%s %s", path, text))
		return err
	}))
	return all
}

// checkLoopDevices checks that after a start an image that is not staged has no loop device.
func (l *lifecycle) checkLoopDevices(step string) {
	l.t.Helper()
	if step != "create" && step != "delete clone" {
		return
	}
	images, _ := filepath.Glob(l.path("data/volumes/*/image"))
	for _, i := range images {
		if devices, err := disk.LoopsOf(i); err != nil || len(devices) > 0 {
			l.t.Errorf("after the %s the loop devices %v show %s (%v)", step, devices, i, err)
		}
	}
}

// whileBusy repeats a call for a minute while the volume is in use. A process that begins a mount namespace
// has a copy of each mount of the machine for a moment, which keeps a loop device that was unmounted.
func whileBusy(do func() error) error {
	limit := time.Now().Add(time.Minute)
	for {
		err := do() // the driver itself waits two seconds
		if codeName(err) != "FailedPrecondition" || time.Now().After(limit) {
			return err
		}
	}
}

type lifecycleStep struct {
	name string
	do   func() error
}

func (l *lifecycle) steps() []lifecycleStep {
	const size = 24 << 20
	ctx := l.t.Context()
	return []lifecycleStep{
		{"create", func() error {
			r, err := l.CreateVolume(ctx, l.k.createRequest("v"))
			if err == nil {
				l.v = l.testVolume(l.k, "v", r.ExternalID)
			}
			return err
		}},
		{"stage", func() error { return l.v.doStage() }},
		{"publish", func() error { return l.v.doPublish(l.v.target, false) }},
		{"write", func() error { return l.v.write(l.v.target, "precious") }},
		{"unpublish to snapshot", func() error { // the driver does not copy a writable device
			if !l.k.block {
				return nil
			}
			return l.v.doUnpublish(l.v.target)
		}},
		{"snapshot", func() error {
			id, err := l.snapshot(l.v.id, "s")
			if err == nil {
				l.snap = id
			}
			return err
		}},
		{"publish again", func() error { return l.v.doPublish(l.v.target, false) }},
		{"write on", func() error { return l.v.write(l.v.target, "changed!") }},
		{"expand", func() error {
			_, err := l.v.doExpand(size)
			return err
		}},
		{"read", func() error { return l.v.checkText(l.v.target, "changed!") }},
		{"unpublish", func() error { return l.v.doUnpublish(l.v.target) }},
		{"unstage", func() error { return l.v.doUnstage() }},
		{"stage again", func() error { return l.v.doStage() }},
		{"publish once more", func() error { return l.v.doPublish(l.v.target, true) }},
		{"read again", func() error { return l.v.checkText(l.v.target, "changed!") }},
		{"restore", func() error {
			req := l.k.createRequest("c")
			req.SnapshotID = l.snap
			r, err := l.CreateVolume(ctx, req)
			if err == nil {
				l.clone = l.testVolume(l.k, "c", r.ExternalID)
			}
			return err
		}},
		{"stage clone", func() error { return l.clone.doStage() }},
		{"publish clone", func() error { return l.clone.doPublish(l.clone.target, false) }},
		{"read clone", func() error { return l.clone.checkText(l.clone.target, "precious") }},
		{"unpublish clone", func() error { return l.clone.doUnpublish(l.clone.target) }},
		{"unstage clone", func() error { return l.clone.doUnstage() }},
		{"unpublish last", func() error { return l.v.doUnpublish(l.v.target) }},
		{"unstage last", func() error { return l.v.doUnstage() }},
		{"group", func() (err error) {
			l.group, err = l.groupSnapshot("g", l.v.id, l.clone.id)
			return err
		}},
		{"delete group", func() error { return l.deleteGroup(l.group) }},
		{"delete clone", func() error { return whileBusy(l.clone.doDelete) }},
		{"delete snapshot", func() error { return l.deleteSnapshot(l.snap) }},
		{"delete", func() error { return whileBusy(l.v.doDelete) }},
	}
}
