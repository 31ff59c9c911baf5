package leases

import (
	"testing"
	"time"

	"berth/internal/boottime"
	"berth/state"
	"berth/structs"
)

// A leader forgets a node whose row is deleted. It remembers the node while its lease runs, and until the log
// has the node down.
func TestForgetDeleted_KeepsWhatStillCounts(t *testing.T) {
	store := state.New()
	err := store.Write(1, func(tx *state.WriteTx) error {
		return state.NodeRegister(tx, &structs.NodeRegisterRequest{
			Node: &structs.Node{ID: "there", Name: "there", SecretID: "s", Status: structs.NodeReady},
		})
	})
	if err != nil {
		t.Fatal(err)
	}

	now := boottime.Instant(time.Hour)
	l := New(Config{TTL: 10 * time.Second, Grace: 5 * time.Second}, func() boottime.Instant { return now })
	l.begin(1)
	l.setTTL(10 * time.Second)
	renew := func(ids ...string) {
		for _, id := range ids {
			_, err := l.Renew(id, proofOf("b1", id, ""))
			if err != nil {
				t.Fatalf("%s: %v", id, err)
			}
		}
	}
	renew("there", "gone", "ending")
	now = now.Add(time.Minute)
	l.expired()
	l.markedDown([]string{"there", "gone"})
	renew("running")
	l.NoteSecond("ending", proofOf("b2", "x", ""), structs.SecondAgent{})

	l.forgetDeleted(store.Read())
	for id, want := range map[string]bool{"there": true, "gone": false, "ending": true, "running": true} {
		if _, known := l.nodes[id]; known != want {
			t.Errorf("%s is known: %t, want %t", id, known, want)
		}
	}
	if l.Second("ending") != nil {
		t.Error("a deleted node still has a second agent")
	}
	_, err = l.Renew("ending", proofOf("b1", "y", "ending"))
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a lease is renewed before the log has its node down: %v", err)
	}
}
