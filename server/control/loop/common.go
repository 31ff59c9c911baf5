// Package loop is the frame of the leader's loops: what each of them uses (Common), and the rounds of those
// that look after plugins (Rounds). It is apart because package control imports all loops, and it imports
// none.
package loop

import (
	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/keyring"
	"berth/server/clock"
	"berth/server/nodeconn"
	"berth/state"
)

// Common has the dependencies of the leader's loops. Each embeds it and uses what it needs.
type Common struct {
	Store    *state.Store
	Proposer fsm.Proposer    // writes log entries
	Nodes    nodeconn.Caller // calls nodes
	Keys     *keyring.Ring   // of the secrets of the cluster
	Clock    *clock.Cluster  // the time by which ages count. nil: the wall clock
	Logger   hclog.Logger
}
