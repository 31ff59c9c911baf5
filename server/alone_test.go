package server

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// A server that is alone waits for no heartbeat of others, neither at its first start nor later.
func TestElectAlone_LeadsBeforeTheTimeout(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.RaftTimeout = time.Hour
	for range 2 {
		s := run(t, cfg)
		s.stop()
	}
}

func TestIsOnlyVoter(t *testing.T) {
	t.Parallel()
	one := raft.Server{ID: "one"}
	two := raft.Server{ID: "two"}
	reader := raft.Server{ID: "three", Suffrage: raft.Nonvoter}
	for name, c := range map[string]struct {
		servers []raft.Server
		want    bool
	}{
		"none":          {nil, false},
		"alone":         {[]raft.Server{one}, true},
		"another":       {[]raft.Server{two}, false},
		"one of two":    {[]raft.Server{one, two}, false},
		"beside reader": {[]raft.Server{reader, one}, true},
		"no vote":       {[]raft.Server{{ID: "one", Suffrage: raft.Nonvoter}}, false},
	} {
		if got := isOnlyVoter(c.servers, "one"); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
