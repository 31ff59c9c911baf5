package csihooks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/csi/csitest"
	"berth/rpc"
	"berth/structs"
	"berth/test/kit"
)

func TestVolumes_UpAndDown(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.publish = structs.Secrets{"device": "/dev/xvdf"}
	e := allocEnv("a1", map[string]string{"one": "data", "two": "logs", "same": "data"})
	e.Group.Volumes["one"].MountOptions = &structs.CSIMountOptions{MountFlags: []string{"noatime"}}
	e.Group.Volumes["same"].MountOptions = &structs.CSIMountOptions{MountFlags: []string{"noatime"}}
	e.Group.Volumes["host"] = &structs.VolumeRequest{
		Name:   "host",
		Type:   "host",
		Source: "x",
	}
	e.Group.Volumes["two"].ReadOnly = true
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	one, ok1 := e.Volume("one")
	two, ok2 := e.Volume("two")
	same, _ := e.Volume("same")
	if !ok1 || !ok2 || one == two || one != same {
		t.Fatalf("volumes %+v %+v %+v", one, two, same)
	}
	kit.Must(t, os.WriteFile(filepath.Join(one.HostPath, "f"), nil, 0o600))
	if _, err := os.Stat(filepath.Join(p.Dir(), "ext-data", "f")); err != nil {
		t.Error(err)
	}
	if n := r.servers.count("CSIVolume.Claim"); n != 1 {
		t.Errorf("%d claim requests for three volumes", n)
	}
	for _, c := range p.Calls("NodeStageVolume", "NodePublishVolume") {
		if c.Get("publish_context.device") != "/dev/xvdf" || c.Get("secrets.pw") != "x" ||
			c.Get("volume_capability.mount.fs_type") != "ext4" {
			t.Errorf("%s: %v", c.RPC, c.Request)
		}
		if c.Get("volume_id") == "ext-data" &&
			!strings.Contains(fmt.Sprint(c.Request), "noatime") {
			t.Errorf("the job's mount flags are not laid over: %v", c.Request)
		}
	}
	for _, c := range p.Calls("NodePublishVolume") {
		if readOnly := c.Get("readonly") == "true"; readOnly != (c.Get("volume_id") == "ext-logs") {
			t.Errorf("%s is published read-only: %t", c.Get("volume_id"), readOnly)
		}
	}
	kit.Must(t, h.Down(r.ctx()))
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
	if n := r.servers.count("CSIVolume.Unpublish"); n != 1 {
		t.Errorf("%d requests to release", n)
	}
}

func TestVolumes_PerAllocAreNamedByTheIndex(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	e.Group.Volumes["d"].PerAlloc = true
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if got := p.Calls("NodePublishVolume")[0].Get("volume_id"); got != "ext-data[2]" {
		t.Errorf("published %s", got)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_RejectOneVolumeInTwoModes(t *testing.T) {
	r := newFixture(t)
	e := allocEnv("a1", map[string]string{"r": "data", "w": "data"})
	e.Group.Volumes["r"].ReadOnly = true
	err := r.volumes(e).Up(r.ctx(), e)
	if !structs.IsKind(err, structs.KindInvalid) ||
		r.servers.count("CSIVolume.Claim") != 0 {
		t.Errorf("got %v", err)
	}
}

func TestVolumes_ReportTheWaitUntilTheGrant(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.blocked["data"] = "waits for allocation 1234 on node n2"
	e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	for !r.hasProgress("volume default/data: waits for allocation 1234") {
		r.servers.change(func() {})
	}
	r.servers.change(func() { delete(r.servers.blocked, "data") })
	kit.Must(t, <-done)
	if r.progress[len(r.progress)-1] != "" {
		t.Errorf("the last progress is not empty: %q", r.progress)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_StopEndsTheWait(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	r.servers.blocked["data"] = "waits"
	e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
	h := r.volumes(e)
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- h.Up(ctx, e) }()
	for !r.hasProgress("waits") {
		r.servers.change(func() {})
	}
	cancel()
	if err := <-done; err == nil {
		t.Fatal("Up succeeded without a grant")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestVolumes_RetryWhileTheServersAreAway(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	away := structs.Errorf(structs.KindUnavailable, "no leader")
	lost := structs.Errorf(structs.KindTimeout, "lost")
	r.servers.fail["CSIVolume.Claim"] = []error{away, lost}
	r.servers.fail["CSIVolume.GetClaim"] = []error{away, lost}
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	if !r.hasProgress("claiming the volumes: no leader") {
		t.Errorf("progress %q", r.progress)
	}
	r.servers.fail["CSIVolume.Unpublish"] = []error{away}
	err := h.Down(r.ctx())
	if err == nil || !strings.Contains(err.Error(), "releasing the claims: no leader") {
		t.Errorf("got %v", err)
	}
	r.crash() // the runner of the next agent calls Down again
	r.boot()
	kit.Must(t, r.volumes(e).Down(r.ctx()))
	r.clean()
}

func TestVolumes_AFailureNamesItsStep(t *testing.T) {
	for _, tc := range []struct {
		name string
		bend func(r *fixture, p *csitest.Plugin)
		want string
	}{
		{"claim", func(r *fixture, _ *csitest.Plugin) {
			r.servers.fail["CSIVolume.Claim"] = []error{structs.Errorf(structs.KindDenied, "not you")}
		}, "claiming the volumes: not you"},
		{"claim gone", func(r *fixture, _ *csitest.Plugin) {
			r.servers.fail["CSIVolume.GetClaim"] = []error{structs.Errorf(structs.KindNotFound, "no claim")}
		}, "waiting for the claim: no claim"},
		{"stage", func(_ *fixture, p *csitest.Plugin) {
			p.FailAlways("NodeStageVolume", csitest.Error("InvalidArgument", "bad fs"))
		}, `: staging: plugin "ebs": NodeStageVolume: InvalidArgument: bad fs`},
		{"publish", func(_ *fixture, p *csitest.Plugin) {
			p.FailAlways("NodePublishVolume", csitest.Error("Internal", "broken"))
		}, `publishing: plugin "ebs": NodePublishVolume: Internal: broken`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			tc.bend(r, p)
			e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
			h := r.volumes(e)
			err := h.Up(r.ctx(), e)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got  %v\nwant %s", err, tc.want)
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

func TestDuty_K8_K25_NotFoundIsVerifiedBeforeItIsTriedAgain(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		t.Run(rpc, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			p.Fail(rpc, csitest.Error("NotFound", "not yet"),
				csitest.Error("NotFound", "not yet"))
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			if n := r.servers.count("CSIVolume.GetClaim"); n != 3 {
				t.Errorf("the servers were asked %d times whether it exists", n)
			}
			kit.Must(t, h.Down(r.ctx()))
			p.Forget()
			p.FailAlways(rpc, csitest.Error("NotFound", "never"))
			err := h.Up(r.ctx(), e)
			if !structs.IsKind(err, structs.KindNotFound) || p.Count(rpc) != 3 {
				t.Errorf("got %v after %d tries", err, p.Count(rpc))
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

// Tries before the plugin has the right driver are no answers that the volume is missing.
func TestUp_CountsOnlyAnswersThatTheVolumeIsMissing(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	p.FailAlways("NodeStageVolume", csitest.Error("NotFound", "never"))
	r.servers.change(func() { r.servers.provider = "other.csi" })
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	ctx, cancel := context.WithTimeout(r.ctx(), time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.Up(ctx, e) }()
	kit.Must(t, r.servers.await(ctx, "CSIVolume.GetClaim", notFoundTries+1))
	r.servers.change(func() { r.servers.provider = "" })
	err := <-ended
	if !structs.IsKind(err, structs.KindNotFound) || p.Count("NodeStageVolume") != notFoundTries {
		t.Errorf("got %v after %d tries, want not-found after %d", err, p.Count("NodeStageVolume"), notFoundTries)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// A file system that the plugin mounted read-only has not turned so.
func TestDown_ReportsAFileSystemThatTurnedReadOnly(t *testing.T) {
	for name, c := range map[string]struct{ before, after uintptr }{
		"it can be written":             {0, 0},
		"it is mounted read-only":       {unix.MS_RDONLY, unix.MS_RDONLY},
		"it turned read-only meanwhile": {0, unix.MS_RDONLY},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			p := r.plugin("ebs")
			dir := filepath.Join(p.Dir(), "ext-data")
			kit.Must(t, os.Mkdir(dir, 0o700))
			kit.Must(t, unix.Mount("none", dir, "tmpfs", 0, "size=1m"))
			t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
			kit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|c.before, ""))
			e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
			h := r.volumes(e)
			kit.Must(t, h.Up(r.ctx(), e))
			kit.Must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|c.after, ""))
			r.servers.fail["CSIVolume.Unpublish"] = []error{structs.Errorf(structs.KindUnavailable, "no leader")}
			if err := h.Down(r.ctx()); err == nil {
				t.Error("Down succeeded without the servers")
			}
			r.crash() // nothing is mounted any more when the next agent reports
			r.boot()
			kit.Must(t, r.volumes(e).Down(r.ctx()))
			want := c.before != c.after
			reported := r.servers.readOnly
			if want != (len(reported) == 1) ||
				want && (reported[0].VolumeID != "data" || reported[0].AllocID != "a1") {
				t.Errorf("got the read-only volumes %v", reported)
			}
			r.clean()
		})
	}
}

func TestDown_GoesPastErrorsAndReleasesUnmountedVolumes(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data", "l": "logs"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	p.Fail("NodeUnpublishVolume", csitest.Error("Internal", "busy"))
	err := h.Down(r.ctx())
	if err == nil || !strings.Contains(err.Error(), "volume default/logs: unpublishing: plugin") {
		t.Fatalf("got %v", err)
	}
	held := r.servers.held()
	if len(held) != 1 || !strings.Contains(held[0], "logs") {
		t.Errorf("claims %q: want only the claim of the volume that is still on the node", held)
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

func TestDown_WithoutAClaimDoesNotWait(t *testing.T) {
	r := newFixture(t)
	e := allocEnv("a1", map[string]string{"d": "data"})
	kit.Must(t, r.volumes(e).Down(r.ctx()))
	if r.servers.count("CSIVolume.Unpublish") != 0 {
		t.Error("the node sent a release without claims")
	}
}

func TestVolumes_RecognisePublishedVolumesAfterARestart(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	kit.Must(t, r.volumes(e).Up(r.ctx(), e))
	before, _ := e.Volume("d")
	r.crash()
	p.Stop()
	down := structs.Errorf(structs.KindDenied, "the server is down")
	r.servers.fail["CSIVolume.Claim"] = []error{down}
	r.servers.fail["CSIVolume.GetClaim"] = []error{down}
	r.boot()
	again := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(again)
	kit.Must(t, h.Up(r.ctx(), again))
	if after, ok := again.Volume("d"); !ok || after != before {
		t.Errorf("recognised %+v, was %+v", after, before)
	}
	kit.Must(t, p.Restart())
	r.down(h)
	r.clean()
}

func TestDown_WithoutThePluginIsRetried(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	p.Stop()
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- h.Down(ctx) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("down without the plugin")
	}
	if len(r.servers.held()) != 1 {
		t.Error("the claim is gone while the volume is here")
	}
	kit.Must(t, p.Restart())
	r.down(h)
	r.clean()
}

func TestVolumes_WaitForTheirDriver(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.change(func() { r.servers.provider = "other.csi" })
	e := allocEnv("a1", map[string]string{"data": "data"})
	h := r.volumes(e)
	ended := make(chan error, 1)
	go func() { ended <- h.Up(r.ctx(), e) }()
	for !r.hasProgress(`the instance on this node is driver "test.csi.berth"`) {
		select {
		case err := <-ended:
			t.Fatalf("the call did not wait: %v", err)
		default:
			r.servers.change(func() {})
		}
	}
	if calls := p.Calls("NodeStageVolume", "NodePublishVolume"); len(calls) != 0 {
		t.Errorf("called: %v", calls)
	}
	r.servers.change(func() { r.servers.provider = "test.csi.berth" })
	kit.Must(t, <-ended)
	r.down(h)
	r.clean()
}

// boundedCalls notes the greatest time that a call of each method may take.
type boundedCalls struct {
	rpc.Caller
	mu     sync.Mutex
	bounds map[string]time.Duration
}

func (b *boundedCalls) Call(ctx context.Context, method string, req, resp any) error {
	end, _ := ctx.Deadline()
	b.mu.Lock()
	b.bounds[method] = max(b.bounds[method], time.Until(end))
	b.mu.Unlock()
	return b.Caller.Call(ctx, method, req, resp)
}

// Servers that never answer a claim or a release delay an allocation only for the time limit of one call.
func TestVolumes_BoundsClaimAndRelease(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e).(*volumesHook)
	calls := &boundedCalls{Caller: h.Servers, bounds: map[string]time.Duration{}}
	h.Servers = calls
	kit.Must(t, h.Up(r.ctx(), e))
	kit.Must(t, h.Down(r.ctx()))
	for _, method := range []string{structs.CSIVolumeClaim.Name, structs.CSIVolumeUnpublish.Name} {
		if bound := calls.bounds[method]; bound <= 0 || bound > callTimeout {
			t.Errorf("%s may take %s, want at most %s", method, bound, callTimeout)
		}
	}
}

// The mark of the agent is drawn before its claims, which bring it into the log.
func TestVolumes_ClaimsComeAfterTheirMark(t *testing.T) {
	r := newFixture(t)
	r.plugin("ebs")
	e := allocEnv("a1", map[string]string{"one": "data"})
	h := r.volumes(e)
	h.(*volumesHook).Mark = func(context.Context) error { return errors.New("the disk is full") }
	if err := h.Up(r.ctx(), e); err == nil || r.servers.claimed {
		t.Errorf("without a mark: %v, claimed: %v", err, r.servers.claimed)
	}
	marked := false
	h.(*volumesHook).Mark = func(context.Context) error {
		marked = !r.servers.claimed
		return nil
	}
	kit.Must(t, h.Up(r.ctx(), e))
	if !marked {
		t.Error("the mark is drawn after the claim")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
