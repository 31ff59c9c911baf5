package csihooks

import (
	"testing"
	"time"

	"berth/test/kit"
)

// TestVolumes_CallThePluginWithTheTimeoutOfTheServers: the one that came with the claim.
func TestVolumes_CallThePluginWithTheTimeoutOfTheServers(t *testing.T) {
	r := newFixture(t)
	p := r.plugin("ebs")
	r.servers.timeout = time.Minute
	e := allocEnv("a1", map[string]string{"d": "data"})
	h := r.volumes(e)
	kit.Must(t, h.Up(r.ctx(), e))
	kit.Must(t, h.Down(r.ctx()))
	calls := p.Calls("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume")
	for _, c := range calls {
		if c.Left > time.Minute {
			t.Errorf("%s had %s", c.RPC, c.Left)
		}
	}
	if len(calls) != 4 {
		t.Errorf("%d calls, want 4", len(calls))
	}
	r.clean()
}
