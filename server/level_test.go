package server

import (
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"

	"berth/fsm"
	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

func TestLeastLevel_CountsServersThatMayComeBack(t *testing.T) {
	this := peer{level: level.Now}
	for name, c := range map[string]struct {
		other peer
		want  int
	}{
		"of this version": {peer{level: level.Now, status: serf.StatusFailed}, level.Now},
		"an older one":    {peer{level: level.Now - 1, status: serf.StatusAlive}, level.Now - 1},
		"one that failed": {peer{level: level.Now - 1, status: serf.StatusFailed}, level.Now - 1},
		"one that leaves": {peer{level: level.Now - 1, status: serf.StatusLeaving}, level.Now - 1},
		"one that left":   {peer{level: level.Now - 1, status: serf.StatusLeft}, level.Now},
		"a newer one":     {peer{level: level.Now + 1}, level.Now},
		"without a level": {peer{}, 0},
	} {
		if got := leastLevel([]peer{this, c.other}); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestLevel_ACommandWaitsForAllServers has a server of before the levels in the gossip.
func TestLevel_ACommandWaitsForAllServers(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	s.rows("the leader has stored the scheduler's configuration", func(tx *state.ReadTx) bool {
		return state.SchedulerConfig(tx).ModifyIndex != 0
	})
	entry, err := fsm.NodeDrain.Encode(&structs.NodeDrainRequest{NodeID: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	if _, answer, err := s.Propose(t.Context(), entry); err != nil ||
		structs.KindOf(answer.(error)) != structs.KindNotFound {
		t.Errorf("a server of one: %v, %v", answer, err)
	}
	const why = "the command NodeDrain needs level 1, and a server of the cluster has level 0"
	older := joinAsAnOlderServer(t, s)
	s.until("it has heard of it", func() bool { return s.level() == 0 })
	before := s.consensus.LastIndex()
	if _, _, err := s.Propose(t.Context(), entry); !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("with an older server: %v", err)
	}
	if s.consensus.LastIndex() != before {
		t.Error("the entry is in the log")
	}
	if err := older.Leave(); err != nil {
		t.Fatal(err)
	}
	s.until("it has heard that it left", func() bool { return s.level() == level.Now })
	if _, _, err := s.Propose(t.Context(), entry); err != nil {
		t.Errorf("after it left: %v", err)
	}
}

// joinAsAnOlderServer adds a server to the gossip that tells no level.
func joinAsAnOlderServer(t *testing.T, s *running) *serf.Serf {
	t.Helper()
	cfg := serf.DefaultConfig()
	cfg.Init()
	cfg.NodeName, cfg.Tags = "older", map[string]string{
		tagRole:   roleServer,
		tagRegion: s.cfg.Region,
	}
	cfg.MemberlistConfig.BindAddr, cfg.MemberlistConfig.BindPort = "127.0.0.1", 0
	cfg.LogOutput, cfg.MemberlistConfig.LogOutput = io.Discard, io.Discard
	cfg.LeavePropagateDelay = 0
	cfg.BroadcastTimeout = 30 * time.Second
	older, err := serf.Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := older.Shutdown(); err != nil {
			t.Error(err)
		}
		<-older.ShutdownCh()
	})
	us := s.Member()
	addr := net.JoinHostPort(us.Addr, strconv.Itoa(int(us.Port)))
	if _, err := older.Join([]string{addr}, true); err != nil {
		t.Fatal(err)
	}
	return older
}
