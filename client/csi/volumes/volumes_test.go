package volumes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/client/csi/mounts"
	"berth/csi"
	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

func TestVolumes_StagePublishAndUndo(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	target := r.up(u)
	kit.Must(t, os.WriteFile(filepath.Join(target, "f"), []byte("hello"), 0o600))
	if got, err := os.ReadFile(filepath.Join(p.Dir(), "ext-data", "f")); err != nil || string(got) != "hello" {
		t.Errorf("the volume holds %q, %v", got, err)
	}
	r.consistent()
	r.up(u) // again changes nothing
	r.down(u)
	r.down(u)
	if got, want := shortCalls(p), "Stage Publish Unpublish Unstage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

func TestDuty_K6_K21_K22_K24_TheRequestHasTheRealUse(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.ReadOnly = true
	r.up(u)
	for _, c := range p.Calls("NodeStageVolume", "NodePublishVolume") {
		for field, want := range map[string]string{
			"volume_id": "ext-data", "publish_context.dev": "/dev/x", "volume_context.k": "v",
			"secrets.pw":                         "hunter22",
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
	if st := p.Calls("NodeStageVolume")[0].Get("staging_target_path"); st == "" ||
		pub.Get("staging_target_path") != st {
		t.Errorf("staged at %q, published from %q", st, pub.Get("staging_target_path"))
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_H21_ReaderOnlyModesArePublishedReadOnly(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	u.AccessMode = structs.CSIMultiNodeReader
	m, err := r.v.Up(r.ctx(), u, nil)
	kit.Must(t, err)
	if !m.ReadOnly || p.Calls("NodePublishVolume")[0].Get("readonly") != "true" {
		t.Error("a reader got a writable mount")
	}
	r.down(u)
}

func TestDuty_K5_K23_B4_PathsAreInThePluginsScopeAndTheirDirectoriesAreMadeAsTheSpecWants(t *testing.T) {
	r := newFixture(t)
	seen := map[string]bool{}
	p := r.plugin("ebs", "plug", csitest.Config{
		Node:   true,
		Mounts: true,
		HostPath: func(path string) string {
			host := r.hostPath(path)
			if !seen[path] {
				seen[path] = true
				_, err := os.Stat(host)
				parent, parentErr := os.Stat(filepath.Dir(host))
				if isStage := strings.HasSuffix(path, "/stage"); isStage != (err == nil) || parentErr != nil ||
					!parent.IsDir() {
					t.Errorf("%s when the plugin gets it: exists %v, its parent %v", path, err == nil, parentErr)
				}
			}
			return host
		},
	})
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

func TestDuty_A16_ANodeWithoutStagingOnlyPublishes(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", csitest.Config{
		Node:     true,
		Mounts:   true,
		NodeCaps: []string{},
	})
	u := use("data", "a1")
	r.up(u)
	if got := p.Calls("NodePublishVolume")[0].Get("staging_target_path"); got != "" {
		t.Errorf("staging path %q", got)
	}
	r.down(u)
	if got, want := shortCalls(p), "Publish Unpublish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

// Two allocations with equal options in different pointers are two users of one staging.
func TestDuty_K13_K16_TwoAllocationsShareAStaging(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	if a.MountOptions == b.MountOptions {
		t.Fatal("the options have to be two values")
	}
	r.up(a)
	target := r.up(b)
	r.down(a)
	if !r.mounted(target) || p.Count("NodeUnstageVolume") != 0 {
		t.Errorf("the second allocation lost its volume: %s", shortCalls(p))
	}
	r.consistent()
	r.down(b)
	if got, want := shortCalls(p), "Stage Publish Publish Unpublish Unpublish Unstage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.clean(p, "ext-data")
}

func TestDuty_K16_TheCountSurvivesTheAgent(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	ta, tb := r.up(a), r.up(b)
	p.Forget()

	r.crash()
	r.boot()
	rep, err := r.v.Reconcile(r.ctx(), func(string) bool { return true })
	kit.Must(t, err)
	if rep.Recognised != 2 ||
		len(rep.Missing)+len(rep.HalfDone)+len(rep.Orphans) != 0 {
		t.Errorf("reconciled %+v", rep)
	}
	if m, ok, err := r.v.Published(a.VolumeKey, "a1"); err != nil || !ok || m.HostPath != ta {
		t.Errorf("not recognised: %+v %v %v", m, ok, err)
	}
	r.up(a) // the hook of the running allocation calls Up again
	if shortCalls(p) != "" || !r.mounted(ta) || !r.mounted(tb) {
		t.Fatalf("the agent acted after the restart: %q", shortCalls(p))
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

func TestVolumes_CountUsersAcrossPluginAllocations(t *testing.T) {
	r := newFixture(t)
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

func TestUp_AfterARebootStagesAndPublishesAgain(t *testing.T) {
	r := newFixture(t)
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
		kit.Must(t, r.registry.Retain(func(string) bool { return false })) // its process has ended too
		p := r.plugin("ebs", "after "+name, nodeOnly)
		if _, ok, err := r.v.Published(u.VolumeKey, u.AllocID); ok || err != nil {
			t.Errorf("%s: taken for published: %v, %v", name, ok, err)
		}
		r.up(u)
		got, want := shortCalls(p), "Stage Publish"
		if got != want || !r.mounted(target) {
			t.Errorf("%s: calls %q, want %q", name, got, want)
		}
	}
	r.down(u)
	r.clean(nil, "")
}

func TestDuty_K19_OtherMountOptionsOnTheSameNodeAreRejected(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "aaaaaaaa-1"), use("data", "bbbbbbbb-2")
	b.MountOptions.MountFlags = []string{"password=geheim"}
	r.up(a)
	_, err := r.v.Up(r.ctx(), b, nil)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "allocation aaaaaaaa") ||
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
	r := newFixture(t)
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
	kit.Must(t, <-done)
	r.down(b)
	r.clean(p, "ext-data")
}

func TestDuty_C5_C11_C15_NotFinalErrorsAreTriedAgainWithTheSameArguments(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		p.Fail(rpc, csitest.Error("Aborted", "busy"),
			csitest.Error("Unavailable", "away"),
			csitest.Error("DeadlineExceeded", "slow"), csitest.Error("ResourceExhausted", "full"),
			csitest.Error("Unknown", "?"))
	}
	var reasons []string
	u := use("data", "a1")
	_, err := r.v.Up(r.ctx(), u, func(s string) { reasons = append(reasons, s) })
	kit.Must(t, err)
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
		{"NodePublishVolume", "PermissionDenied", "publishing"},
	} {
		t.Run(tc.rpc+tc.code, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs", "plug", nodeOnly)
			p.FailAlways(tc.rpc, csitest.Error(tc.code, "no: hunter22"))
			u := use("data", "a1")
			_, err := r.v.Up(r.ctx(), u, nil)
			want := `volume default/data: ` + tc.step + `: plugin "ebs": ` + tc.rpc + `: ` + tc.code +
				`: no: [redacted]`
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if n := p.Count(tc.rpc); n != 1 {
				t.Errorf("called %d times", n)
			}
			r.down(u) // the completed steps are undone
			r.clean(p, "ext-data")
			if tc.rpc == "NodeStageVolume" && strings.Contains(shortCalls(p), "Unpublish") {
				t.Error("NodeUnpublishVolume was called, although NodePublishVolume never was")
			}
		})
	}
}

// An answer may be wrong for some seconds, such as that of a driver that looks for a device. The failure of
// the allocation would cost more.
func TestUp_RepeatsAnInternalErrorBriefly(t *testing.T) {
	internal := csitest.Error("Internal", "no device yet")
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		r := newFixture(t)
		p := r.plugin("ebs", "plug", nodeOnly)
		p.Fail(rpc, internal, internal, internal)
		u := use("data", "a1")
		reasons := 0
		_, err := r.v.Up(r.ctx(), u, func(string) { reasons++ })
		if err != nil || p.Count(rpc) != 4 || reasons != 3 {
			t.Errorf("%s: %v after %d calls, %d reasons", rpc, err, p.Count(rpc), reasons)
		}
		r.down(u)

		p.Forget()
		p.FailAlways(rpc, internal)
		_, err = r.v.Up(r.ctx(), u, nil)
		if csi.Code(err) != "Internal" || p.Count(rpc) != 4 {
			t.Errorf("%s: %v after %d calls", rpc, err, p.Count(rpc))
		}
		r.down(u)
		r.clean(p, "ext-data")
	}
}

// TestUp_MarksTheStagingWithTheEndOfItsCall rejects the publish after a successful staging: the record on the
// disk tells of the staging, because a plugin that does not know it proves nothing.
func TestUp_MarksTheStagingWithTheEndOfItsCall(t *testing.T) {
	r := newFixture(t)
	r.crash()
	r.cfg.AcceptUnmounted = true
	r.cfg.LateWait = time.Hour
	r.boot()
	p := r.plugin("ebs", "plug", csitest.Config{Node: true}) // mounts nothing
	u := use("data", "a1")
	target := filepath.Join(scope, mounts.TargetPath(volumeDir(u.VolumeKey), u.AllocID))
	late := &callRecord{
		Call:   u.call("NodeUnpublishVolume", target),
		Since:  time.Now().UnixNano(),
		BootID: r.v.boot,
	}
	kit.Must(t, callTable.Put(r.db, late.key(), late))
	_, _, err := r.v.tryUp(r.ctx(), u)
	if !errors.Is(err, ErrUnanswered) {
		t.Fatalf("the publish was not rejected: %v", err)
	}
	s, err := r.v.store.getStage(u.VolumeKey)
	kit.Must(t, err)
	if s == nil || s.State != staged || s.BootID != r.v.boot {
		t.Errorf("got the record %+v, want it staged", s)
	}
	kit.Must(t, callTable.Delete(r.db, late.key()))
	p.Fail("NodeUnstageVolume", csitest.Error("NotFound", "which volume?"))
	err = r.v.Down(r.ctx(), u.VolumeKey, u.AllocID)
	if !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("the volume counts as unstaged: %v", err)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

// A record of another boot of the machine proves no mount.
func TestUp_StagesAgainAfterAnotherBootOfTheConfiguration(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	for _, boot := range []string{"one", "one", "two"} {
		r.crash()
		r.cfg.BootID = boot
		r.boot()
		r.up(u)
	}
	if got, want := shortCalls(p), "Stage Publish Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(u)
	r.clean(p, "ext-data")
}
