package volumes

import (
	"context"
	"slices"
	"testing"

	"berth/csi/csitest"
)

func TestDuty_K1_K3_AVolumeIsStagedForItsFirstUserAndAgainAfterAnUnstage(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	a, b := use("data", "a1"), use("data", "a2")
	r.up(a)
	r.up(b)
	r.down(a)
	r.down(b)
	r.up(a)
	const want = "Stage Publish Publish Unpublish Unpublish Unstage Stage Publish"
	if got := shortCalls(p); got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(a)
	r.clean(p, "ext-data")
}

func TestDuty_K3_NothingIsPublishedBeforeAStageHasSucceeded(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	p.FailAlways("NodeStageVolume", csitest.Error("InvalidArgument", "no such file system"))
	if _, err := r.v.Up(r.ctx(), u, nil); err == nil {
		t.Error("the volume was brought without a stage")
	}
	if got, want := shortCalls(p), "Stage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	p.Script("NodeStageVolume", nil)
	p.Forget()
	p.Fail("NodeStageVolume", csitest.Error("Unavailable", "starting"))
	r.up(u)
	if got, want := shortCalls(p), "Stage Stage Publish"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	r.down(u)
	r.clean(p, "ext-data")
}

func TestDuty_K11_EachStagingPathIsUnstagedOnce(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	users := []*Use{use("data", "a1"), use("data", "a2"), use("logs", "a1")}
	for _, u := range users {
		r.up(u)
	}
	for _, u := range users {
		r.down(u)
	}
	staged := stagingPaths(p, "NodeStageVolume")
	unstaged := stagingPaths(p, "NodeUnstageVolume")
	if len(staged) != 2 || !slices.Equal(staged, unstaged) {
		t.Errorf("staged at %q, unstaged at %q", staged, unstaged)
	}
	r.clean(p, "ext-data")
	r.clean(p, "ext-logs")
}

func TestDuty_K11_AStageOfUnknownOutcomeIsUnstaged(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u := use("data", "a1")
	ctx, cancel := context.WithCancel(r.ctx())
	p.Script("NodeStageVolume", func(context.Context, any) (any, error) {
		cancel() // the allocation is stopped: the call is not repeated
		return nil, csitest.Error("DeadlineExceeded", "may have staged it")
	})
	if _, err := r.v.Up(ctx, u, nil); err == nil {
		t.Fatal("the volume was brought without a stage")
	}
	r.down(u)
	if got, want := shortCalls(p), "Stage Unstage"; got != want {
		t.Errorf("calls %q, want %q", got, want)
	}
	staged := stagingPaths(p, "NodeStageVolume")
	unstaged := stagingPaths(p, "NodeUnstageVolume")
	if !slices.Equal(staged, unstaged) {
		t.Errorf("staged at %q, unstaged at %q", staged, unstaged)
	}
	r.clean(p, "ext-data")
}

// stagingPaths returns the sorted paths of the calls of an RPC.
func stagingPaths(p *csitest.Plugin, rpc string) (paths []string) {
	for _, c := range p.Calls(rpc) {
		paths = append(paths, c.Get("staging_target_path"))
	}
	slices.Sort(paths)
	return paths
}
