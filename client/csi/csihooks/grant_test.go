package csihooks

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"berth/csi/csitest"
	"berth/structs"
	"berth/test/kit"
)

// An operator releases the claim of this node by force while the plugin fails, and another node may get the
// volume. When the plugin works again, this node must not stage the volume.
func TestVolumes_StageNothingAfterARelease(t *testing.T) {
	for name, take := range map[string]func(r *fixture){
		"gone": func(r *fixture) {
			r.servers.change(func() { clear(r.servers.claims) })
		},
		"granted anew": func(r *fixture) {
			r.servers.change(func() {
				for k, c := range r.servers.claims {
					again := c.Copy()
					again.GrantIndex += 100
					r.servers.claims[k] = again
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			r.confirmAfter = time.Nanosecond
			p := r.plugin("ebs")
			p.FailAlways("NodeStageVolume", csitest.Error("Unavailable", "starting"))
			e := allocEnv("a1", map[string]string{"d": "data"})
			h := r.volumes(e)
			done := make(chan error, 1)
			go func() { done <- h.Up(r.ctx(), e) }()
			kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 2))
			take(r)
			err := <-done
			if !structs.IsKind(err, structs.KindConflict) ||
				!strings.Contains(err.Error(), "default/data: the claim was taken away") {
				t.Errorf("got %v", err)
			}
			kit.Must(t, h.Down(r.ctx()))
			r.clean()
		})
	}
}

// While the servers are not reachable the claim cannot be verified: nothing is staged.
func TestVolumes_StageNothingWithoutTheServers(t *testing.T) {
	r := newFixture(t)
	r.confirmAfter = time.Nanosecond
	p := r.plugin("ebs")
	away := structs.Errorf(structs.KindUnavailable, "no servers")
	release := p.Hang("NodeStageVolume")
	p.Fail("NodeStageVolume", csitest.Error("Unavailable", "restarting"))
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, p.Await(r.ctx(), "NodeStageVolume", 1))
	r.servers.change(func() {
		r.servers.fail["CSIVolume.GetClaim"] = []error{away, away, away}
	})
	asked := r.servers.count("CSIVolume.GetClaim")
	release()
	kit.Must(t, <-done)
	n := r.servers.count("CSIVolume.GetClaim") - asked
	if n != 4 || p.Count("NodeStageVolume") != 2 {
		t.Errorf("asked %d times, staged %d times", n, p.Count("NodeStageVolume"))
	}
	if !r.hasProgress("confirming the claim: no servers") {
		t.Error("no progress names the reason of the wait")
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}

// The called server was partitioned while the query waited: its answer may be outdated.
func TestVolumes_ConfirmAnOldAnswer(t *testing.T) {
	r := newFixture(t)
	var age atomic.Int64 // of the clock, in ns
	r.confirmAfter = time.Hour
	r.now = func() time.Time { return time.Unix(0, age.Load()) }
	p := r.plugin("ebs")
	r.servers.blocked["data"] = "allocation b2 holds it"
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	done := make(chan error, 1)
	go func() { done <- h.Up(r.ctx(), e) }()
	kit.Must(t, r.servers.await(r.ctx(), "CSIVolume.GetClaim", 2)) // the second one waits
	age.Store(int64(2 * r.confirmAfter))
	r.servers.change(func() {
		delete(r.servers.blocked, "data")
		r.servers.fail["CSIVolume.GetClaim"] = []error{structs.Errorf(structs.KindNotFound, "no claim")}
	})
	err := <-done
	if !structs.IsKind(err, structs.KindNotFound) || p.Count("NodeStageVolume") != 0 {
		t.Errorf("got %v, staged %d times", err, p.Count("NodeStageVolume"))
	}
	kit.Must(t, h.Down(r.ctx()))
	r.clean()
}
