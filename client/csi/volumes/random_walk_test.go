package volumes

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"berth/csi/csitest"
	"berth/test/kit"
)

// Three allocations do a random walk over two volumes, with plugins that fail in every way and agents that
// die. No allocation that is up loses its mount, the volume store stays true, and in the end nothing is left.
func TestVolumes_RandomWalkKeepsTheRecordsTrue(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			randomWalk(t, rand.New(rand.NewPCG(seed, 1)))
		})
	}
}

func randomWalk(t *testing.T, rnd *rand.Rand) {
	r := newFixture(t)
	p := r.plugin("ebs", "plug", nodeOnly)
	up := map[string]string{} // allocation and volume -> target
	uses := map[string]*Use{}
	for _, a := range []string{"a1", "b2", "c3"} {
		for _, v := range []string{"data", "logs"} {
			uses[a+v] = use(v, a)
		}
	}
	names := []string{"a1data", "a1logs", "b2data", "b2logs", "c3data", "c3logs"}
	rpcNames := []string{"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"}
	for step := range 60 {
		name := names[rnd.IntN(len(names))]
		u := uses[name]
		switch rnd.IntN(8) {
		case 0, 1, 2:
			if m, err := r.v.Up(r.ctx(), u, nil); err == nil {
				up[name] = m.HostPath
			}
		case 3, 4, 5:
			delete(up, name) // with any outcome, the allocation does not use it any more
			if r.v.Down(r.ctx(), u.VolumeKey, u.AllocID) == nil {
				kit.Must(t, r.v.Forget(u.VolumeKey, u.AllocID))
			}
		case 6:
			p.Fail(rpcNames[rnd.IntN(4)],
				csitest.Error([]string{"Internal", "Aborted", "NotFound", "InvalidArgument"}[rnd.IntN(4)], "chance"))
		case 7:
			r.crash()
			r.boot()
			_, err := r.v.Reconcile(r.ctx(), func(string) bool { return true })
			kit.Must(t, err)
		}
		for name, target := range up {
			if !r.mounted(target) {
				t.Fatalf("step %d: %s lost its mount", step, name)
			}
		}
		r.consistent()
	}
	for _, rpc := range rpcNames {
		p.Fail(rpc)
	}
	for _, name := range names {
		kit.Must(t, r.v.downAndForget(context.Background(), uses[name].VolumeKey, uses[name].AllocID))
	}
	r.clean(p, "ext-data")
	_, staged, published, _ := p.Volume("ext-logs")
	if len(staged)+len(published) > 0 {
		t.Errorf("left at the plugin: %q %q", staged, published)
	}
}
