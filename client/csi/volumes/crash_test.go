package volumes

import (
	"context"
	"fmt"
	"testing"

	"berth/csi/csitest"
	"berth/test/kit"
)

// The agent is killed at each point between record, act and mark: with the record written and the plugin not
// yet called, or with the call complete and the mark not yet written. The next agent must come to a clean end
// whether the allocation continues (Up, then Down) or not (only Down). It must not disturb another allocation
// that uses the volume.
func TestCrash_BetweenRecordActAndMark(t *testing.T) {
	for _, rpc := range []string{
		"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume",
	} {
		for _, acted := range []bool{false, true} {
			for _, again := range []bool{false, true} {
				for _, shared := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/acted=%v/again=%v/shared=%v", rpc, acted, again, shared), func(t *testing.T) {
						checkKilledDuring(t, rpc, acted, again, shared)
					})
				}
			}
		}
	}
}

func checkKilledDuring(t *testing.T, rpc string, acted, again, shared bool) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	u, other := use("data", "a1"), use("data", "b2")
	down := rpc == "NodeUnpublishVolume" || rpc == "NodeUnstageVolume"
	if shared && (rpc == "NodeStageVolume" || rpc == "NodeUnstageVolume") {
		return // with another user these are not called
	}
	var target string
	if shared {
		target = r.up(other)
	}
	if down {
		r.up(u)
	}
	n := p.Count(rpc)
	release := p.Hang(rpc)
	ended := make(chan error, 1)
	go func() {
		if down {
			ended <- r.v.Down(context.Background(), u.VolumeKey, u.AllocID)
			return
		}
		_, err := r.v.Up(context.Background(), u, nil)
		ended <- err
	}()
	kit.Must(t, p.Await(r.ctx(), rpc, n+1))
	kit.Must(t, r.db.Close()) // from here on nothing that the agent does is remembered
	if !acted {
		p.Fail(rpc, csitest.Error("Internal", "killed"))
	}
	release()
	if err := <-ended; err == nil {
		t.Fatal("the step of the killed agent succeeded")
	}
	r.crash()
	r.boot()

	if again {
		r.up(u)
		r.consistent()
	}
	if shared && !r.mounted(target) {
		t.Error("the other allocation lost its volume")
	}
	r.down(u)
	if shared {
		if !r.mounted(target) || p.Count("NodeUnstageVolume") > 0 {
			t.Error("the other allocation lost its volume")
		}
		r.consistent()
		r.down(other)
	}
	r.clean(p, "ext-data")
}

// If the allocation is removed as well, the next agent's Reconcile alone releases its volumes.
func TestCrash_AndTheAllocationIsGone(t *testing.T) {
	for _, rpc := range []string{"NodeStageVolume", "NodePublishVolume"} {
		r := newFixture(t)
		p := r.plugin("ebs", "plug", nodeOnly)
		u := use("data", "a1")
		release := p.Hang(rpc)
		ended := make(chan error, 1)
		go func() {
			_, err := r.v.Up(context.Background(), u, nil)
			ended <- err
		}()
		kit.Must(t, p.Await(r.ctx(), rpc, 1))
		kit.Must(t, r.db.Close())
		release()
		<-ended
		r.crash()
		r.boot()
		_, err := r.v.Reconcile(r.ctx(), func(string) bool { return false })
		kit.Must(t, err)
		r.clean(p, "ext-data")
	}
}
