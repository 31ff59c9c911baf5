package leases

import (
	"testing"
	"time"

	"berth/internal/agentproof"
	"berth/internal/boottime"
	"berth/structs"
)

func proofOf(boot, nonce, previous string) *structs.AgentProof {
	return &structs.AgentProof{BootID: boot, Nonce: nonce, Previous: previous}
}

// Two agents may pass Admit at the same time, when the lease of a third one has ended.
func TestRenew_GrantsTheLeaseToOneAgent(t *testing.T) {
	now := boottime.Instant(time.Hour)
	l := New(Config{TTL: 10 * time.Second, Grace: 5 * time.Second}, func() boottime.Instant { return now })
	l.begin(1)
	l.setTTL(10 * time.Second)
	row := &structs.Node{ID: "n", Status: structs.NodeReady, BootID: "b1"}
	renew := func(p *structs.AgentProof, want structs.Cause) {
		t.Helper()
		_, err := l.Renew("n", p)
		if structs.CauseOf(err) != want || want == "" && err != nil {
			t.Errorf("the agent with %+v: %v, want the cause %q", p, err, want)
		}
	}
	renew(proofOf("b1", "k", ""), "")
	renew(proofOf("b2", "x", ""), structs.CauseSecondAgent)
	renew(proofOf("b1", "k", ""), "") // the answer was lost
	renew(proofOf("b1", "l", "k"), "")
	renew(proofOf("b1", "k", ""), structs.CauseSecondAgent) // a copy has this on its disk
	lone := agentproof.Node{Row: row}
	full := agentproof.Node{Row: row, HasVolumes: true}
	if err := l.Admit(lone, proofOf("b2", "x", "")); structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("a second agent is admitted: %v", err)
	}

	now = now.Add(time.Minute)
	if ended := l.expired(); len(ended) != 1 {
		t.Fatalf("%d leases end, want 1", len(ended))
	}
	l.markedDown([]string{"n"})
	row.Status = structs.NodeDown
	if err := l.Admit(agentproof.Node{Row: row}, proofOf("b2", "x", "")); err != nil {
		t.Errorf("nobody may take over after the lease: %v", err)
	}
	if err := l.Admit(full, proofOf("b2", "x", "")); structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("a second agent takes over with the volumes of the first one: %v", err)
	}
	if err := l.Admit(agentproof.Node{Row: row, HasVolumes: true}, proofOf("b2", "m", "l")); err != nil {
		t.Errorf("the first agent may not return after its lease: %v", err)
	}
	renew(proofOf("b2", "x", ""), "")
	renew(proofOf("b1", "l", "k"), structs.CauseSecondAgent)
	l.Forget("n")
	renew(proofOf("b1", "l", "k"), "")
	l.end()
	l.begin(2)
	renew(proofOf("b2", "y", "x"), "") // the next leader learns it
}

// A copy of the disk that is as new as the last heartbeat waits. It may also be the agent itself after a
// reboot, which then gets its node in the grace, before the servers count it as down.
func TestAdmit_AnAgentElsewhereWaitsUntilNobodyCountsTheLease(t *testing.T) {
	now := boottime.Instant(time.Hour)
	l := New(Config{TTL: 10 * time.Second, Grace: 5 * time.Second}, func() boottime.Instant { return now })
	l.begin(1)
	l.setTTL(10 * time.Second)
	row := &structs.Node{ID: "n", Status: structs.NodeReady, BootID: "b1"}
	renew := func(p *structs.AgentProof) error {
		_, err := l.Renew("n", p)
		return err
	}
	if err := renew(proofOf("b1", "k", "")); err != nil {
		t.Fatal(err)
	}
	later := proofOf("b2", "l", "k")
	if err := l.Extend("n", time.Hour); err != nil { // an operator expects the reboot
		t.Fatal(err)
	}
	now = now.Add(10*time.Second - 1)
	err := l.Admit(agentproof.Node{Row: row, HasVolumes: true}, later)
	if err == nil || structs.CauseOf(err) != "" || structs.RetryAfter(err) != 1 {
		t.Errorf("within the lease: %v, after %s", err, structs.RetryAfter(err))
	}
	if err := renew(later); structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("an agent that was admitted at the same time: %v", err)
	}
	now = now.Add(1)
	if err := l.Admit(agentproof.Node{Row: row, HasVolumes: true}, later); err != nil {
		t.Errorf("after the lease: %v", err)
	}
	if err := renew(later); err != nil {
		t.Error(err)
	}
}

// An agent whose records were removed has its node in the grace, before its tasks count as lost.
func TestAdmit_AnAgentWithoutRecordsIsKnownByItsPlace(t *testing.T) {
	now := boottime.Instant(time.Hour)
	l := New(Config{TTL: 10 * time.Second, Grace: 5 * time.Second}, func() boottime.Instant { return now })
	l.begin(1)
	l.setTTL(10 * time.Second)
	at := func(store, nonce, previous string) *structs.AgentProof {
		return &structs.AgentProof{BootID: "b1", Machine: "machine:1", Store: store, Nonce: nonce, Previous: previous}
	}
	n := agentproof.Node{HasVolumes: true, Row: &structs.Node{
		ID: "n", Status: structs.NodeReady, BootID: "b1", Machine: "machine:1", Store: "8:1", Mark: "claim",
	}}
	if _, err := l.Renew("n", at("8:1", "k", "j")); err != nil {
		t.Fatal(err)
	}
	begins := at("8:1", "x", "")
	now = now.Add(10*time.Second - 1)
	err := l.Admit(n, begins)
	if err == nil || structs.CauseOf(err) != "" || structs.RetryAfter(err) != 1 {
		t.Errorf("within the lease: %v, after %s", err, structs.RetryAfter(err))
	}
	if _, err := l.Renew("n", begins); structs.CauseOf(err) != structs.CauseSecondAgent {
		t.Errorf("one that was admitted before the last heartbeat: %v", err)
	}
	now = now.Add(1)
	for name, other := range map[string]*structs.AgentProof{
		"a copy of the directory":    at("8:2", "x", ""),
		"an older one, with records": at("8:1", "x", "i"),
	} {
		_, err := l.Renew("n", other)
		if structs.CauseOf(l.Admit(n, other)) != structs.CauseSecondAgent ||
			structs.CauseOf(err) != structs.CauseSecondAgent {
			t.Errorf("%s has the node", name)
		}
	}
	if err := l.Admit(n, begins); err != nil {
		t.Errorf("after the lease: %v", err)
	}
	if _, err := l.Renew("n", begins); err != nil {
		t.Error(err)
	}
}

// Operators see the second agent while it tries.
func TestSecond_IsTheAgentThatWasRejectedLast(t *testing.T) {
	now := boottime.Instant(time.Hour)
	l := New(Config{TTL: 10 * time.Second}, func() boottime.Instant { return now })
	l.begin(1)
	want := structs.SecondAgent{Name: "copy", BootID: "b2", Reason: "another one has it"}
	note := func() { l.NoteSecond("n", proofOf("b2", "x", ""), want) }
	if got := l.Second("n"); got != nil {
		t.Errorf("%+v was never rejected", got)
	}
	note()
	if got := l.Second("n"); got == nil || *got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	now = now.Add(secondFor + 1)
	if got := l.Second("n"); got != nil {
		t.Errorf("%+v has stopped trying", got)
	}
	note()
	for _, proof := range []*structs.AgentProof{proofOf("b2", "x", ""), proofOf("b2", "y", "x")} {
		if _, err := l.Renew("n", proof); err != nil {
			t.Fatal(err)
		}
	}
	if got := l.Second("n"); got != nil {
		t.Errorf("%+v has taken over", got)
	}
	note()
	l.end()
	if got := l.Second("n"); got != nil {
		t.Errorf("%+v is known without a leadership", got)
	}
}
