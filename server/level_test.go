package server

import (
	"io"
	"net"
	"slices"
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

// A server of the level before is in the gossip.
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
	const why = "the command NodeDrain needs level 2, and a server of the cluster has level 1"
	s.members.least.Store(level.First - 1)
	before := s.consensus.LastIndex()
	if _, _, err := s.Propose(t.Context(), entry); !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("with an older server: %v", err)
	}
	if s.consensus.LastIndex() != before {
		t.Error("the entry is in the log")
	}
	s.members.learnLevel() // it has left
	if _, _, err := s.Propose(t.Context(), entry); err != nil {
		t.Errorf("after it left: %v", err)
	}
}

// Beside a server of a version before the first release no entry could be written.
func TestLevel_AServerFromBeforeTheFirstReleaseIsRejected(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	for name, of := range map[string]string{"without": "", "with": strconv.Itoa(level.First - 1)} {
		joinAsAnOlderServer(t, s, name, of)
		s.until("it shows the server as rejected", func() bool {
			return slices.ContainsFunc(s.members.places.Rejected(), func(m serf.Member) bool { return m.Name == name })
		})
	}
	if s.level() != level.Now || len(s.members.peers()) != 1 {
		t.Errorf("the least level is %d, and the servers are %v", s.level(), s.members.peers())
	}

	err := checkLevel(serf.Member{Name: "older", Tags: map[string]string{tagRole: roleServer, tagLevel: "1"}})
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "server older has level 1, and these servers need 2 or later") ||
		!strings.Contains(err.Error(), "Update it, and start it with an empty data_dir") {
		t.Errorf("the error is %v", err)
	}
	now := map[string]string{tagRole: roleServer, tagLevel: strconv.Itoa(level.Now)}
	for _, tags := range []map[string]string{now, {tagRole: "another"}} {
		if err := checkLevel(serf.Member{Tags: tags}); err != nil {
			t.Errorf("a member with the tags %v: %v", tags, err)
		}
	}
}

// joinAsAnOlderServer joins a server with a level to the gossip, "" for one that tells none.
func joinAsAnOlderServer(t *testing.T, s *running, name, of string) {
	t.Helper()
	cfg := serf.DefaultConfig()
	cfg.Init()
	cfg.NodeName, cfg.Tags = name, map[string]string{
		tagRole:   roleServer,
		tagRegion: s.cfg.Region,
	}
	if of != "" {
		cfg.Tags[tagLevel] = of
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
}
