package csimanager

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/csi/csitest"
	"berth/structs"
)

func TestAVolumeComesAndGoes(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	must(t, os.WriteFile(filepath.Join(target, "f"), []byte("hello"), 0o600))
	if got, err := os.ReadFile(filepath.Join(p.Dir(), "ext-data", "f")); err != nil || string(got) != "hello" {
		t.Errorf("the volume holds %q, %v", got, err)
	}
	r.consistent()
	r.up(u) // again changes nothing
	r.down(u)
	r.down(u)
	if got, want := rpcs(p), "Stage Publish Unpublish Unstage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

func TestDuty_K6_K21_K22_K24_WhatIsSentIsWhatIsUsed(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.ReadOnly = true
	r.up(u)
	for _, c := range p.Calls("NodeStageVolume", "NodePublishVolume") {
		for field, want := range map[string]string{
			"volume_id": "ext-data", "publish_context.dev": "/dev/x", "volume_context.k": "v", "secrets.pw": "hunter22",
			"volume_capability.access_mode.mode": "MULTI_NODE_MULTI_WRITER", "volume_capability.mount.fs_type": "ext4",
		} {
			if got := c.Get(field); got != want {
				t.Errorf("%s: %s is %q, want %q", c.RPC, field, got, want)
			}
		}
	}
	pub := p.Calls("NodePublishVolume")[0]
	if pub.Get("readonly") != "true" {
		t.Error("published writable")
	}
	if st := p.Calls("NodeStageVolume")[0].Get("staging_target_path"); st == "" || pub.Get("staging_target_path") != st {
		t.Errorf("staged at %q, published from %q", st, pub.Get("staging_target_path"))
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_H21_ReaderOnlyModesArePublishedReadOnly(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.AccessMode = structs.CSIMultiNodeReader
	m, err := r.v.Up(r.ctx(), u, nil)
	must(t, err)
	if !m.ReadOnly || p.Calls("NodePublishVolume")[0].Get("readonly") != "true" {
		t.Error("a reader got a writable mount")
	}
	r.down(u)
}

func TestDuty_K5_K23_B4_PathsAreInThePluginsScopeAndTheirDirectoriesAreMadeAsTheSpecWants(t *testing.T) {
	r := newRig(t)
	seen := map[string]bool{}
	p := r.plugin("ebs", "plug", csitest.Config{Node: true, Mounts: true, HostPath: func(path string) string {
		host := r.hostPath(path)
		if !seen[path] {
			seen[path] = true
			_, err := os.Stat(host)
			parent, parentErr := os.Stat(filepath.Dir(host))
			if isStage := strings.HasSuffix(path, "/stage"); isStage != (err == nil) || parentErr != nil || !parent.IsDir() {
				t.Errorf("%s when the plugin gets it: exists %v, its parent %v", path, err == nil, parentErr)
			}
		}
		return host
	}})
	long := strings.Repeat("x", 120)
	a, b := use(long, "a1"), use(long, "a2")
	b.ReadOnly = true
	ta, tb := r.up(a), r.up(b)
	if ta == tb {
		t.Error("two allocations share a target")
	}
	for path := range seen {
		if len(path) > 128 || !strings.HasPrefix(path, scope+"/") {
			t.Errorf("path %s of %d bytes", path, len(path))
		}
	}
	if len(seen) != 3 {
		t.Errorf("one staging path and two targets expected: %v", seen)
	}
	r.down(a)
	r.down(b)
	r.clean(p, "ext-"+long)
}

func TestDuty_A16_ANodeWithoutStagingIsOnlyAskedToPublish(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", csitest.Config{Node: true, Mounts: true, NodeCaps: []string{}})
	u := use("data", "a1")
	r.up(u)
	if got := p.Calls("NodePublishVolume")[0].Get("staging_target_path"); got != "" {
		t.Errorf("staging path %q", got)
	}
	r.down(u)
	if got, want := rpcs(p), "Publish Unpublish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

// Two allocations with equal options in different pointers are two users of one staging.
func TestDuty_K13_K16_TwoAllocationsShareAStaging(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	if a.MountOptions == b.MountOptions {
		t.Fatal("the options have to be two values")
	}
	r.up(a)
	target := r.up(b)
	r.down(a)
	if !r.mounted(target) || p.Count("NodeUnstageVolume") != 0 {
		t.Errorf("the second allocation lost its volume: %s", rpcs(p))
	}
	r.consistent()
	r.down(b)
	if got, want := rpcs(p), "Stage Publish Publish Unpublish Unpublish Unstage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

func TestDuty_K16_TheCountSurvivesTheAgent(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	ta, tb := r.up(a), r.up(b)
	p.Forget()

	r.crash()
	r.boot()
	rep, err := r.v.Reconcile(r.ctx(), func(string) bool { return true })
	must(t, err)
	if rep.Recognised != 2 || len(rep.Missing)+len(rep.HalfDone)+len(rep.Orphans) != 0 {
		t.Errorf("reconciled %+v", rep)
	}
	if m, ok, err := r.v.Published(a.VolumeKey, "a1"); err != nil || !ok || m.HostPath != ta {
		t.Errorf("not recognised: %+v %v %v", m, ok, err)
	}
	r.up(a) // the running allocation's hook comes up again
	if rpcs(p) != "" || !r.mounted(ta) || !r.mounted(tb) {
		t.Fatalf("something was done after the restart: %q", rpcs(p))
	}
	r.down(a)
	if !r.mounted(tb) || p.Count("NodeUnstageVolume") != 0 {
		t.Error("unstaged under the other allocation")
	}
	r.crash()
	r.boot()
	r.down(b)
	r.clean(p, "ext-data")
}

func TestTheCountSurvivesANewPluginAllocation(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	target := r.up(b)
	r.register("ebs", "plug-2", p, nodeOnly)
	r.down(a)
	if !r.mounted(target) || p.Count("NodeUnstageVolume") != 0 {
		t.Error("unstaged under the other allocation")
	}
	r.down(b)
	r.clean(p, "ext-data")
}

func TestAfterARebootTheVolumeIsStagedAndPublishedAgain(t *testing.T) {
	r := newRig(t)
	r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	for name, lose := range map[string]func(){
		"mounts gone": func() { unmountBelow(r.root) },
		"other boot":  func() { unmountBelow(r.root); r.v.boot = "another" },
	} {
		r.crash()
		r.boot()
		lose()
		must(t, r.registry.Retain(func(string) bool { return false })) // its process has gone too
		p := r.plugin("ebs", "after "+name, nodeOnly)
		if _, ok, err := r.v.Published(u.VolumeKey, u.AllocID); ok || err != nil {
			t.Errorf("%s: taken for published: %v, %v", name, ok, err)
		}
		r.up(u)
		if got, want := rpcs(p), "Stage Publish"; got != want || !r.mounted(target) {
			t.Errorf("%s: calls %q, want %q", name, got, want)
		}
	}
	r.down(u)
	r.clean(nil, "")
}

func TestDuty_K19_OtherMountOptionsOnTheSameNodeAreRefused(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "aaaaaaaa-1"), use("data", "bbbbbbbb-2")
	b.MountOptions.MountFlags = []string{"password=geheim"}
	r.up(a)
	_, err := r.v.Up(r.ctx(), b, nil)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "allocation aaaaaaaa") ||
		strings.Contains(err.Error(), "geheim") {
		t.Errorf("got %v", err)
	}
	r.down(b)
	r.down(a)
	r.up(b) // alone it may
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_K18_ASingleNodeVolumeWaitsForItsLastUserHere(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "b2")
	a.AccessMode, b.AccessMode = structs.CSISingleNodeWriter, structs.CSISingleNodeWriter
	r.up(a)
	reasons, done := make(chan string, 1000), make(chan error, 1)
	go func() {
		_, err := r.v.Up(r.ctx(), b, func(s string) { reasons <- s })
		done <- err
	}()
	if got := <-reasons; !strings.Contains(got, "allocation a1") {
		t.Errorf("the reason is %q", got)
	}
	if p.Count("NodePublishVolume") != 1 {
		t.Error("published twice")
	}
	r.down(a)
	must(t, <-done)
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_C5_C11_C15_NotFinalErrorsAreTriedAgainWithTheSameArguments(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		p.Fail(rpc, csitest.Error("Aborted", "busy"), csitest.Error("Unavailable", "away"),
			csitest.Error("DeadlineExceeded", "slow"), csitest.Error("ResourceExhausted", "full"), csitest.Error("Unknown", "?"))
	}
	var reasons []string
	u := use("data", "a1")
	_, err := r.v.Up(r.ctx(), u, func(s string) { reasons = append(reasons, s) })
	must(t, err)
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		calls := p.Calls(rpc)
		if len(calls) != 6 {
			t.Fatalf("%s was called %d times", rpc, len(calls))
		}
		for _, c := range calls[1:] {
			if fmt.Sprint(c.Request) != fmt.Sprint(calls[0].Request) {
				t.Errorf("%s was repeated with other arguments:\n%v\n%v", rpc, c.Request, calls[0].Request)
			}
		}
	}
	if len(reasons) != 10 || !strings.Contains(reasons[0], `plugin "ebs": NodeStageVolume: Aborted: busy`) {
		t.Errorf("reasons %q", reasons)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_C9_FinalErrorsFailAtOnceAndNameVolumePluginStepAndCode(t *testing.T) {
	for _, tc := range []struct{ rpc, code, step string }{
		{"NodeStageVolume", "InvalidArgument", "staging"}, {"NodeStageVolume", "AlreadyExists", "staging"},
		{"NodePublishVolume", "PermissionDenied", "publishing"}, {"NodePublishVolume", "Internal", "publishing"},
	} {
		t.Run(tc.rpc+tc.code, func(t *testing.T) {
			r := newRig(t)
			p := r.plugin("ebs", "plug", nodeOnly)
			p.FailAlways(tc.rpc, csitest.Error(tc.code, "no: hunter22"))
			u := use("data", "a1")
			_, err := r.v.Up(r.ctx(), u, nil)
			want := `volume default/data: ` + tc.step + `: plugin "ebs": ` + tc.rpc + `: ` + tc.code + `: no: [redacted]`
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if n := p.Count(tc.rpc); n != 1 {
				t.Errorf("called %d times", n)
			}
			r.down(u) // what was reached is taken back
			r.clean(p, "ext-data")
			if tc.rpc == "NodeStageVolume" && strings.Contains(rpcs(p), "Unpublish") {
				t.Error("what was never asked for was taken back")
			}
		})
	}
}

func TestDuty_K28_APluginThatLostItsStagingGetsItAgain(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	p.Fail("NodePublishVolume", csitest.Error("FailedPrecondition", "not staged"))
	u := use("data", "a1")
	r.up(u)
	if got, want := rpcs(p), "Stage Publish Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K7_K14_AfterAFailedUnstageTheVolumeIsStagedAgainBeforeThePublish(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	p.Fail("NodeUnstageVolume", csitest.Error("Internal", "half"))
	if err := r.v.Down(r.ctx(), a.VolumeKey, "a1"); err == nil || !strings.Contains(err.Error(), "unstaging: plugin") {
		t.Fatalf("got %v", err)
	}
	p.Forget()
	r.up(b)
	if got, want := rpcs(p), "Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(a)
	if p.Count("NodeUnstageVolume") != 0 {
		t.Error("unstaged under the other allocation")
	}
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_K15_K34_NotFoundIsDone(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	unmountBelow(r.root)
	p.Fail("NodeUnpublishVolume", csitest.Error("NotFound", "?"))
	p.Fail("NodeUnstageVolume", csitest.Error("NotFound", "?"))
	r.down(u)
	r.clean(nil, "")
}

func TestDuty_K30_APluginsWordIsHeldAgainstTheMountTable(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	// A plugin that is not idempotent has mounted more than once: it is asked until nothing is left.
	must(t, unix.Mount(target, target, "", unix.MS_BIND, ""))
	p.Script("NodeUnpublishVolume", func(_ context.Context, _ any) (any, error) {
		_ = unix.Unmount(target, 0)
		return nil, csitest.Error("NotFound", "one less")
	})
	must(t, r.v.Down(r.ctx(), u.VolumeKey, u.AllocID))
	if n := p.Count("NodeUnpublishVolume"); n < 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestDuty_K30_APluginThatLiesIsNotBelieved(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	p.Script("NodeUnpublishVolume", func(context.Context, any) (any, error) { return nil, csitest.Error("NotFound", "") })
	err := r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	if err == nil || !strings.Contains(err.Error(), "still mounted") || p.Count("NodeUnstageVolume") != 0 {
		t.Fatalf("got %v, calls %s", err, rpcs(p))
	}
	if err := r.v.Forget(u.VolumeKey, u.AllocID); !structs.IsKind(err, structs.KindPrecondition) || !r.mounted(target) {
		t.Errorf("forgotten: %v", err)
	}
	p.Script("NodeUnpublishVolume", nil)
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K32_WhatIsLeftInADirectoryIsNeverRemoved(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	p.Script("NodeUnpublishVolume", func(context.Context, any) (any, error) {
		_ = unix.Unmount(target, 0)
		_ = os.WriteFile(filepath.Join(target, "precious"), nil, 0o600) // the plugin leaves the directory, with data
		return nil, csitest.Error("NotFound", "")
	})
	r.down(u)
	if _, err := os.Stat(filepath.Join(target, "precious")); err != nil {
		t.Error(err)
	}
}

func TestAVolumeThatTheHostDoesNotSeeIsNotGivenToATask(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", csitest.Config{Node: true}) // mounts nothing
	u := use("data", "a1")
	_, err := r.v.Up(r.ctx(), u, nil)
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "the host sees nothing mounted") {
		t.Errorf("got %v", err)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestABlockDeviceIsADeviceFile(t *testing.T) {
	r := newRig(t)
	r.plugin("ebs", "plug", csitest.Config{Node: true, Mounts: true, NodeCaps: []string{}, HostPath: func(path string) string {
		host := r.hostPath(path)
		if _, err := os.Lstat(host); err == nil {
			return host
		}
		if err := unix.Mknod(host, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 250))); err != nil {
			t.Error(err)
		}
		return filepath.Join(r.dir, "outside", path) // keeps the fake from mounting over it
	}})
	u := use("disk", "a1")
	u.AttachmentMode, u.MountOptions = structs.CSIBlockDevice, nil
	m, err := r.v.Up(r.ctx(), u, nil)
	must(t, err)
	fi, err := os.Lstat(m.HostPath)
	if !m.Device || err != nil || fi.Mode()&os.ModeDevice == 0 {
		t.Errorf("%+v: %v, %v", m, fi, err)
	}
	r.down(u) // also removes the device file, which this plugin forgets
	r.clean(nil, "")
}

func TestDuty_C1_ACancelledWaitForAVolumeIsAnErrorAndDoesNothing(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	release := p.Hang("NodePublishVolume")
	defer release()
	done := make(chan error, 1)
	go func() {
		_, err := r.v.Up(r.ctx(), b, nil)
		done <- err
	}()
	must(t, p.Await(r.ctx(), "NodePublishVolume", 2))
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error, 1)
	go func() { waiting <- r.v.Detach(ctx, a.VolumeKey, "a1", func(string) bool { return false }) }()
	cancel()
	if err := <-waiting; err == nil || structs.KindOf(err).Final() {
		t.Errorf("the servers were told that it is done: %v", err)
	}
	if p.Count("NodeUnpublishVolume") != 0 {
		t.Error("two calls in flight for one volume")
	}
	release()
	must(t, <-done)
	r.down(a)
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDetach(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b, c := use("data", "a1"), use("data", "b2"), use("data", "c3")
	r.up(a)
	r.up(b)
	r.up(c)
	running := func(id string) bool { return id == "b2" }
	if err := r.v.Detach(r.ctx(), a.VolumeKey, "b2", running); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("let go of a running allocation's volume: %v", err)
	}
	for range 2 {
		must(t, r.v.Detach(r.ctx(), a.VolumeKey, "a1", running))
	}
	must(t, r.v.Detach(r.ctx(), a.VolumeKey, "", running))
	if got, _ := r.v.Users(a.VolumeKey); len(got) != 1 || got[0] != "b2" || p.Count("NodeUnstageVolume") != 0 {
		t.Errorf("users %q", got)
	}
	must(t, r.v.Detach(r.ctx(), a.VolumeKey, "", func(string) bool { return false }))
	must(t, r.v.Detach(r.ctx(), VolumeKey{"default", "never"}, "", running))
	r.clean(p, "ext-data")
}

func TestWithoutItsBookTheNodeDoesNotCallAVolumeFree(t *testing.T) {
	r := newRig(t)
	r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	r.up(u)
	must(t, r.v.book.deletePublish(u.VolumeKey, "a1"))
	must(t, r.v.book.deleteStage(u.VolumeKey))
	err := r.v.Detach(r.ctx(), u.VolumeKey, "a1", func(string) bool { return false })
	if !structs.IsKind(err, structs.KindPrecondition) || !strings.Contains(err.Error(), "the node's book does not say") {
		t.Errorf("got %v", err)
	}
}

func TestReconcileLetsGoOfWhatNobodyKnows(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	known, orphan, claim := use("data", "a1"), use("data", "gone"), use("other", "gone")
	r.up(known)
	r.up(orphan)
	r.up(claim)
	must(t, r.v.Claim(VolumeKey{"default", "claimed"}, "gone"))
	r.crash()
	r.boot()
	rep, err := r.v.Reconcile(r.ctx(), func(id string) bool { return id == "a1" })
	must(t, err)
	if rep.Recognised != 1 || len(rep.Orphans) != 3 {
		t.Errorf("report %+v", rep)
	}
	if got := strings.Count(rpcs(p), "Unstage"); got != 1 {
		t.Errorf("%d volumes unstaged, want the orphan's alone: %s", got, rpcs(p))
	}
	r.consistent()
	r.down(known)
	r.clean(p, "ext-data")
}

func TestAPathTooLongForAPluginIsRefusedBeforeItIsSent(t *testing.T) {
	r := newRig(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	i := *r.registry.Serving()[0]
	i.PluginMountPath = "/" + strings.Repeat("x", 110)
	must(t, r.registry.Register(&i))
	u := use("data", "a1")
	waitFor(t, r, func() bool {
		c, err := r.m.Healthy(structs.CSIKindNode, "ebs")
		return err == nil && c.Registration.PluginMountPath == i.PluginMountPath
	})
	if _, err := r.v.Up(r.ctx(), u, nil); !structs.IsKind(err, structs.KindInvalid) || rpcs(p) != "" {
		t.Errorf("got %v, calls %q", err, rpcs(p))
	}
}

// waitFor waits, woken by the manager's own changes.
func waitFor(t *testing.T, r *rig, cond func() bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		r.m.mu.Lock()
		changed := r.m.changed
		r.m.mu.Unlock()
		if cond() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatal("waited too long")
		}
	}
}
