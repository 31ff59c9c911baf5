package membership

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/internal/agentproof"
	"berth/structs"
)

// provenAgent is an agent on a data directory, with the servers' knowledge of it.
type provenAgent struct {
	*ProofKeeper
	t  *testing.T
	db *store.DB
}

func startProven(t *testing.T, dir, boot string) *provenAgent {
	t.Helper()
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	k, err := LoadProof(db, dir, ProofPlace{BootID: boot}, hclog.NewNullLogger())
	if err == nil {
		err = k.Begin()
	}
	if err != nil {
		t.Fatal(err)
	}
	return &provenAgent{ProofKeeper: k, t: t, db: db}
}

func (a *provenAgent) stop(t *testing.T) {
	t.Helper()
	if err := a.db.Close(); err != nil {
		t.Fatal(err)
	}
}

// proofServers accept proofs as a leader does in the grace of the lease, or while it lasts.
type proofServers struct {
	row   *structs.Node
	known *agentproof.Last
	lasts bool
}

// beat sends a heartbeat. A lost answer does not reach the agent.
func (s *proofServers) beat(a *provenAgent, lost bool) error {
	sent := a.Current()
	err := agentproof.Check(agentproof.Node{Row: s.row, Last: s.known}, sent)
	if err == nil {
		s.known = &agentproof.Last{AgentProof: *sent}
		if s.lasts {
			s.known.Counts = time.Second
		}
		s.row = &structs.Node{ID: "n", Status: structs.NodeReady, BootID: sent.BootID}
	}
	if !lost {
		a.Answered(sent, err)
		if err := a.store(); err != nil {
			a.t.Fatal(err)
		}
	}
	return err
}

func (s *proofServers) mustBeat(t *testing.T, a *provenAgent, lost bool) {
	t.Helper()
	if err := s.beat(a, lost); err != nil {
		t.Fatalf("the node is locked out: %v", err)
	}
}

// Each of these leaves the disk of the node as it was, so the next agent continues the lease.
func TestProof_NoRestartLocksANodeOut(t *testing.T) {
	for name, c := range map[string]struct {
		boot string // of the second agent
		lost bool   // the answers to the last heartbeats of the first one
	}{
		"a restart of the agent":            {"b1", false},
		"a restart after lost answers":      {"b1", true},
		"a reboot within the lease":         {"b2", false},
		"such a reboot after lost answers":  {"b2", true},
		"lost answers and the same machine": {"b1", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var s proofServers
			first := startProven(t, dir, "b1")
			s.mustBeat(t, first, false)
			s.mustBeat(t, first, false)
			s.mustBeat(t, first, c.lost)
			s.mustBeat(t, first, c.lost)
			first.stop(t)
			for range 3 { // agents that end before any answer
				between := startProven(t, dir, c.boot)
				s.mustBeat(t, between, true)
				between.stop(t)
			}
			second := startProven(t, dir, c.boot)
			defer second.stop(t)
			for range 3 {
				s.mustBeat(t, second, false)
			}
		})
	}
}

// copyDir copies the data directory of an agent that does not run at the moment.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestProof_ACopiedDirectoryIsRejected(t *testing.T) {
	for _, boot := range []string{"b1", "b2"} {
		dir := t.TempDir()
		var s proofServers
		first := startProven(t, dir, "b1")
		s.mustBeat(t, first, false)
		first.stop(t)
		copied := copyDir(t, dir)
		first = startProven(t, dir, "b1")
		s.mustBeat(t, first, false)
		s.mustBeat(t, first, false)

		second := startProven(t, copied, boot)
		for range 3 {
			if err := s.beat(second, false); structs.CauseOf(err) != structs.CauseSecondAgent {
				t.Fatalf("a copy in boot %s: %v", boot, err)
			}
			s.mustBeat(t, first, false)
		}

		s.known = nil // the next leader knows the row alone
		if err := s.beat(second, false); structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("a copy in boot %s that the last leader rejected: %v", boot, err)
		}
		s.mustBeat(t, first, false)
		first.stop(t)

		s.known = nil // the lease has ended
		s.row.Status = structs.NodeDown
		s.mustBeat(t, second, false)
		s.mustBeat(t, second, false)
		second.stop(t)
	}
}

// A copy that is as new as the last heartbeat waits for the next one, which shows that it is a copy.
func TestProof_OneOfTwoEqualDisksIsRejected(t *testing.T) {
	dir := t.TempDir()
	s := proofServers{lasts: true}
	first := startProven(t, dir, "b1")
	s.mustBeat(t, first, false)
	first.stop(t)
	second := startProven(t, copyDir(t, dir), "b1")
	defer second.stop(t)
	first = startProven(t, dir, "b1")
	defer first.stop(t)
	s.mustBeat(t, first, false)
	if err := s.beat(second, false); err == nil || structs.CauseOf(err) != "" {
		t.Errorf("both agents have the lease, or the copy is rejected for good: %v", err)
	}
	s.mustBeat(t, first, false)
	if err := s.beat(second, false); structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("both agents have the lease: %v", err)
	}
	s.mustBeat(t, first, false)
}

// The lease does not wait for the disk: until it has the next nonce, the last one is sent.
func TestProof_ASlowDiskSendsTheLastNonceAgain(t *testing.T) {
	var s proofServers
	a := startProven(t, t.TempDir(), "b1")
	defer a.stop(t)
	for range 3 {
		sent := a.Current()
		s.mustBeat(t, a, true)
		a.Answered(sent, nil)
		if now := a.Current(); !reflect.DeepEqual(now, sent) {
			t.Errorf("%+v is sent before the disk has it", now)
		}
	}
	sent := a.Current()
	s.mustBeat(t, a, false)
	if now := a.Current(); now.Previous != sent.Nonce || now.Nonce == sent.Nonce {
		t.Errorf("%+v follows %+v", now, sent)
	}
	s.mustBeat(t, a, false)
}

// A leader that knows no nonce takes the word of the agent.
func TestProof_ARejectionOutlivesTheAgent(t *testing.T) {
	dir := t.TempDir()
	rejects := proofServers{
		row:   &structs.Node{ID: "n", Status: structs.NodeReady},
		known: &agentproof.Last{AgentProof: structs.AgentProof{Nonce: "other"}},
	}
	first := startProven(t, dir, "b1")
	if err := rejects.beat(first, false); err == nil {
		t.Fatal("the agent is accepted")
	}
	first.stop(t)
	second := startProven(t, dir, "b1")
	defer second.stop(t)
	if !second.Current().Rejected {
		t.Error("the next agent does not know that it was rejected")
	}
	var accepts proofServers
	accepts.mustBeat(t, second, false)
	if second.Current().Rejected {
		t.Error("the agent is accepted, and still counts as rejected")
	}
}

// The servers have the newest mark in the log. An agent knows it after each end, and the copy of its disk
// from before a claim or a boot does not.
func TestMarks_OneInEachBootAndOneForItsFirstClaim(t *testing.T) {
	dir := t.TempDir()
	a := startProven(t, dir, "b1")
	atBoot := a.Current().Marks
	if len(atBoot) != 1 {
		t.Fatalf("a new agent has the marks %q", atBoot)
	}
	a.stop(t)

	a = startProven(t, dir, "b1") // a restart draws none
	if got := a.Current().Marks; !slices.Equal(got, atBoot) {
		t.Errorf("after a restart: %q, want %q", got, atBoot)
	}
	err := a.MarkClaims()
	claim := a.Current().Mark()
	err2 := a.MarkClaims()
	again := a.Current().Mark()
	if err != nil || err2 != nil || claim != again || claim == atBoot[0] {
		t.Errorf("the claims have the marks %q (%v) and %q (%v), the boot %q", claim, err, again, err2, atBoot)
	}
	a.stop(t)

	a = startProven(t, dir, "b1")
	if got := a.Current().Marks; !slices.Equal(got, []string{claim, atBoot[0]}) {
		t.Errorf("after a claim and a restart: %q, want that of the claim before that of the boot", got)
	}
	a.stop(t)

	for n := range structs.MaxMarks + 1 {
		a = startProven(t, dir, fmt.Sprint("later", n))
		marks := a.Current().Marks
		if n == 0 && (len(marks) != 3 || marks[1] != claim) {
			t.Errorf("after a reboot: %q, want another one before %q", marks, claim)
		}
		if len(marks) > structs.MaxMarks || len(a.OfHeartbeat().Marks) != 2 {
			t.Errorf("%d marks, %d in a heartbeat", len(marks), len(a.OfHeartbeat().Marks))
		}
		a.stop(t)
	}
}
