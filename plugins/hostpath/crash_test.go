package hostpath

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hashicorp/go-hclog"

	"berth/plugins/hostpath/loop"
	"berth/structs"
)

// crashPoints are all points between record, act and mark, with the kinds of volumes that pass them.
var crashPoints = []struct {
	point string
	kinds []kind
}{
	{"create recorded", kinds},
	{"create made", kinds},
	{"stage recorded", kinds},
	{"stage attached", []kind{anImage}},
	{"stage mounted", kinds},
	{"publish recorded", kinds},
	{"publish mounted", kinds},
	{"snapshot recorded", kinds},
	{"snapshot frozen", []kind{anImage}},
	{"snapshot made", kinds},
	{"group recorded", kinds},
	{"group member made", kinds},
	{"group made", kinds},
	{"group deletion recorded", kinds},
	{"group erased", kinds},
	{"expand recorded", kinds},
	{"expand grown", []kind{anImage, aBlock}},
	{"unpublish unmounted", kinds},
	{"unstage unmounted", kinds},
	{"delete recorded", kinds},
	{"delete erased", kinds},
}

// A driver is killed at any point and started again, and the call without an answer is repeated. Then
// everything continues: the data is complete, and in the end nothing is left.
func TestCrash_AtAnyPointLosesAndLeaksNothing(t *testing.T) {
	for _, c := range crashPoints {
		for _, k := range c.kinds {
			t.Run(c.point+"/"+k.name, func(t *testing.T) {
				t.Parallel() // the test mostly waits for a disk
				k.needs(t)
				w := newFixture(t)
				w.start(crashEnv + "=" + c.point)
				l := &lifecycle{fixture: w, k: k}
				for _, step := range l.steps() {
					l.step(step.name, step.do)
				}
				if l.kills != 1 {
					t.Errorf("got %d kills, want 1", l.kills)
				}
				rows, _ := filepath.Glob(w.path("data", "*s", "*"))
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
	kills int
}

// step does a step. If the driver dies during it, step starts the driver again and repeats the step. The new
// driver runs in this process, because nothing kills it.
func (l *lifecycle) step(name string, do func() error) {
	l.t.Helper()
	err := do()
	if structs.IsKind(err, structs.KindUnavailable) && codeName(err) == "Unavailable" {
		l.awaitKilled()
		l.kills++
		l.startHere()
		l.checkLoopDevices(name)
		err = do()
	}
	l.must(name, err)
}

// startHere runs the driver in this process until the end of the test.
func (l *lifecycle) startHere() {
	l.t.Helper()
	cfg := l.cfg
	cfg.Logger = hclog.New(&hclog.LoggerOptions{Output: &testLog{l.t}, Level: hclog.Debug})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, cfg) }()
	l.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Errorf("the driver ended with %v", err)
		}
	})
	l.must("start", l.awaitReady())
}

// checkLoopDevices checks that after a start an image that is not staged has no loop device.
func (l *lifecycle) checkLoopDevices(step string) {
	l.t.Helper()
	if step != "create" && step != "delete clone" {
		return
	}
	images, _ := filepath.Glob(l.path("data/volumes/*/image"))
	for _, i := range images {
		if devices, err := loop.Of(i); err != nil || len(devices) > 0 {
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
