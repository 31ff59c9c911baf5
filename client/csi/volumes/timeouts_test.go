package volumes

import (
	"testing"
	"time"

	"berth/csi/csitest"
	"berth/test/kit"
)

// leftOf returns the longest time that a call of an RPC had, since the last Forget.
func leftOf(t *testing.T, p *csitest.Plugin, rpc string) (left time.Duration) {
	t.Helper()
	calls := p.Calls(rpc)
	if len(calls) == 0 {
		t.Errorf("%s was not called", rpc)
	}
	for _, c := range calls {
		left = max(left, c.Left)
	}
	return left
}

// TestCalls_EndWithTheTimeoutOfTheirUse: each call of a use has its timeout, also those that take the volume
// back by another agent, which knows only the records. A request of the servers has its own.
func TestCalls_EndWithTheTimeoutOfTheirUse(t *testing.T) {
	r := newFixture(t)
	r.cfg.CallTimeout = 3 * time.Minute
	r.crash()
	r.boot()
	cfg := nodeOnly
	p := r.plugin("ebs", "plug", cfg)
	bring := func(timeout time.Duration) *Use {
		u := use("data", "a1")
		u.Timeout = timeout
		u.ExpandBytes = 1
		p.Forget()
		r.up(u)
		return u
	}
	up := []string{"NodeStageVolume", "NodePublishVolume", "NodeExpandVolume"}
	down := []string{"NodeUnpublishVolume", "NodeUnstageVolume"}
	for _, c := range []struct {
		name             string
		use, detach      time.Duration
		mostUp, mostDown time.Duration
	}{
		{"without a setting", 0, 0, 3 * time.Minute, 3 * time.Minute},
		{"with one", 30 * time.Second, 0, 30 * time.Second, 30 * time.Second},
		{"with a later one", 30 * time.Second, time.Minute, 30 * time.Second, time.Minute},
		{"above the longest call", time.Hour, 0, 3 * time.Minute, 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := bring(c.use)
			for _, rpc := range up {
				if left := leftOf(t, p, rpc); left > c.mostUp || left < c.mostUp/2 {
					t.Errorf("%s had %s, want %s", rpc, left, c.mostUp)
				}
			}
			r.crash()
			r.boot()
			ended := func(string) bool { return false }
			d := Detachment{VolumeKey: u.VolumeKey, AllocID: u.AllocID, Running: ended, Timeout: c.detach}
			kit.Must(t, r.v.Detach(r.ctx(), d))
			for _, rpc := range down {
				if left := leftOf(t, p, rpc); left > c.mostDown || left < c.mostDown/2 {
					t.Errorf("%s had %s, want %s", rpc, left, c.mostDown)
				}
			}
		})
	}
}

// TestCalls_TheCallerWaitsAsLongAsTheTimeout: a longer timeout than that of the node is waited for too.
func TestCalls_TheCallerWaitsAsLongAsTheTimeout(t *testing.T) {
	c := Config{CallTimeout: time.Minute, LateWait: 2 * time.Minute}
	for given, want := range map[time.Duration][2]time.Duration{
		-time.Second:     {time.Minute, 2 * time.Minute},
		0:                {time.Minute, 2 * time.Minute},
		10 * time.Second: {10 * time.Second, 10 * time.Second},
		90 * time.Second: {90 * time.Second, 90 * time.Second},
	} {
		call := Call{Timeout: given}
		if wait, limit := c.waitOf(call), c.limitOf(call); wait != want[0] || limit != want[1] {
			t.Errorf("with %s the caller waits %s and the call has %s, want %s", given, wait, limit, want)
		}
	}
}
