package server

import (
	"io"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/serf/serf"

	"berth/fsm"
	"berth/state"
	"berth/structs"
)

// A command waits until the last server is upgraded.
func TestVersions_AnOlderServerGetsNoNewCommand(t *testing.T) {
	for name, c := range map[string]struct {
		peers []peer
		want  int
	}{
		"all are new": {[]peer{{commands: fsm.Version()},
			{commands: fsm.Version(), status: serf.StatusFailed}}, fsm.Version()},
		"one is older":         {[]peer{{commands: fsm.Version()}, {status: serf.StatusAlive}}, 0},
		"an older one failed":  {[]peer{{commands: fsm.Version()}, {status: serf.StatusFailed}}, 0},
		"an older one left":    {[]peer{{commands: fsm.Version()}, {status: serf.StatusLeft}}, fsm.Version()},
		"one is newer than we": {[]peer{{commands: fsm.Version()}, {commands: fsm.Version() + 1}}, fsm.Version()},
	} {
		if got := leastCommands(c.peers); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// TestBatches_AreNotWrittenForAnOlderServer has servers with and without a version.
func TestBatches_AreNotWrittenForAnOlderServer(t *testing.T) {
	for _, command := range fsm.List() {
		if mayBatch(command, 0) {
			t.Errorf("%s may share a batch beside a server without a version", command.Name)
		}
		for version := 1; version <= fsm.Version(); version++ {
			if got := mayBatch(command, version); got != command.Batched {
				t.Errorf("%s at version %d: got %t, want %t", command.Name, version, got, command.Batched)
			}
		}
	}
}

// TestVersions_ACommandWaitsForAllServers has an older server in the gossip, which announces no commands.
func TestVersions_ACommandWaitsForAllServers(t *testing.T) {
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
	older := joinAsAnOlderServer(t, s, 0)
	s.until("the leader has heard of it", func() bool {
		return s.consensus.commands.Load() == 0
	})
	before := s.consensus.LastIndex()
	if _, _, err := s.Propose(t.Context(), entry); !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("with an older server: %v", err)
	}
	if s.consensus.LastIndex() != before {
		t.Error("entry is in the log")
	}
	if err := older.Leave(); err != nil {
		t.Fatal(err)
	}
	s.until("the leader has heard that it left",
		func() bool {
			return int(s.consensus.commands.Load()) == fsm.Version()
		})
}

// TestVersions_AreUnknownWithoutLeadership proposes a new command to a server whose leadership has ended: the
// caller may ask the next leader, and no server is of an older version.
func TestVersions_AreUnknownWithoutLeadership(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	entry, err := fsm.NodeDrain.Encode(&structs.NodeDrainRequest{NodeID: "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.betweenLoops(t.Context(), func() error {
		_, _, err := s.Propose(t.Context(), entry)
		return err
	})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("got %v (%s), want unavailable", err, structs.KindOf(err))
	}
}

// TestVersions_AFieldWaitsForAllServers has a server in the gossip that knows the command without its field.
func TestVersions_AFieldWaitsForAllServers(t *testing.T) {
	noLeaks(t)
	s := run(t, testConfig(t))
	joinAsAnOlderServer(t, s, fsm.VolumeForce.Since)
	s.until("the leader has heard of it", func() bool {
		return int(s.consensus.commands.Load()) == fsm.VolumeForce.Since
	})
	for settle, want := range map[time.Duration]structs.Kind{
		0:                   "",
		structs.CallSettles: structs.KindPrecondition,
	} {
		entry, err := fsm.VolumeForce.Encode(&structs.CSIVolumeForceRequest{VolumeID: "v", Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.Propose(t.Context(), entry); structs.KindOf(err) != want {
			t.Errorf("with Settle %s: %v, want kind %q", settle, err, want)
		}
	}
}

// joinAsAnOlderServer adds a server of a version of the commands to the gossip, 0 for one before versions.
func joinAsAnOlderServer(t *testing.T, s *running, commands int) *serf.Serf {
	t.Helper()
	cfg := serf.DefaultConfig()
	cfg.Init()
	cfg.NodeName, cfg.Tags = "older", map[string]string{
		tagRole:    roleServer,
		tagRegion:  s.cfg.Region,
		tagBatches: "1",
	}
	if commands > 0 {
		cfg.Tags[tagCommands] = strconv.Itoa(commands)
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
