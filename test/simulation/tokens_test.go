package simulation

import (
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/endpoints/rights"
	"berth/fsm"
	"berth/state"
	"berth/structs/access"
)

// makeToken is an operation: somebody makes a token with an end, by the clock of the leader.
func (w *world) makeToken() {
	w.tokens++
	secret := fmt.Sprintf("token-%d", w.tokens)
	now := w.clocks.wall()
	ends := now.Add(oneOf(w, time.Minute, 10*time.Minute, 30*time.Minute))
	w.record("make %s, which ends at %s", secret, ends)
	_ = attempt(w, fsm.ACLTokenPut, &access.TokenChange{Now: now.UnixNano(), Token: &access.Token{
		AccessorID: secret,
		SecretHash: access.HashSecret(secret),
		Type:       access.TypeManagement,
		ExpireTime: ends.UnixNano(),
	}})
}

// useTokens is an operation: each server decides about each token, by its own clock.
func (w *world) useTokens() {
	tx := w.store.Read()
	for server, wall := range w.clocks.walls() {
		gate := rights.NewGate(rights.Config{
			Mode:   access.ModeEnforce,
			Now:    func() time.Time { return wall },
			Logger: hclog.NewNullLogger(),
		})
		for t := range state.Tokens(tx) {
			_, err := gate.Resolve(w.t.Context(), tx, t.AccessorID)
			ended := t.ExpireTime <= wall.UnixNano()
			if ended != (err != nil) {
				w.fail("server %d decides about %s, which has ended by its clock: %v: %v", server, t.AccessorID, ended, err)
			}
		}
	}
}
