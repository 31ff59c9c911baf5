package server

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

// TestEndVote_OfALeaderGivesUpItsLeadership has a server lead that has left the gossip. This happens to a
// server that leaves when it is elected again after it has transferred its leadership.
func TestEndVote_OfALeaderGivesUpItsLeadership(t *testing.T) {
	noLeaks(t)
	leaving := run(t, testConfig(t))
	cfg := testConfig(t)
	cfg.Name = "s2"
	cfg.BootstrapExpect = 0
	at := leaving.Member()
	cfg.RetryJoin = []string{net.JoinHostPort(at.Addr, strconv.Itoa(int(at.Port)))}
	other, err := New(cfg, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	staying := startAny(t, other)
	staying.until("it has a vote", func() bool {
		all := staying.Configuration()
		return len(all) == 2 && all[0].Voter && all[1].Voter
	})
	leaving.until("it knows the other server", func() bool {
		return len(leaving.members.serf.Members()) == 2
	})
	servers := leaving.Configuration()
	if err := leaving.members.serf.Leave(); err != nil {
		t.Fatal(err)
	}
	leaving.until("the other server has taken its vote", func() bool {
		return leaving.endVote(t.Context(), servers) == nil // it has an end of its own, and may be repeated
	})
	staying.until("it has the only vote", func() bool {
		all := staying.Configuration()
		return len(all) == 1 && all[0].ID == staying.id
	})
	leaving.stop()
	staying.until("the other server leads", func() bool {
		_, leads, _, _ := staying.Leader()
		return leads
	})
}

// startAny runs a server, which need not lead.
func startAny(t *testing.T, s *Server) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	r := &running{s, t, func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			t.Error("Run did not end")
		}
	}}
	t.Cleanup(r.stop)
	return r
}
