package server

import (
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A lost leader is noticed within three times the timeout. The library checks how the timeouts relate.
func TestRaftConfig_TimeoutsAreShortAndGrowWithTheMultiplier(t *testing.T) {
	cfg := DefaultConfig()
	usual := raftConfig(&cfg, "s1", hclog.NewNullLogger())
	if usual.HeartbeatTimeout >= time.Second || usual.ElectionTimeout != usual.HeartbeatTimeout {
		t.Errorf("the timeouts are %s and %s", usual.HeartbeatTimeout, usual.ElectionTimeout)
	}
	for n := 1; n <= 10; n++ {
		cfg.RaftMultiplier = n
		rc := raftConfig(&cfg, "s1", hclog.NewNullLogger())
		if err := raft.ValidateConfig(rc); err != nil {
			t.Errorf("raft_multiplier %d: %v", n, err)
		}
		if rc.HeartbeatTimeout != time.Duration(n)*usual.HeartbeatTimeout {
			t.Errorf("raft_multiplier %d: the timeout is %s, with 1 it is %s", n, rc.HeartbeatTimeout,
				usual.HeartbeatTimeout)
		}
	}
}
