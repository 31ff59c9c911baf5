// Package release releases volumes and claims for operators: it detaches a volume from a node, and releases
// single claims. All of it goes one path. The node is called, and releases the volume. Without its
// confirmation only force releases a claim, and not while the node is known to use the volume. Each answer
// names the proof, and each forced change is recorded with its reason.
package release

import (
	"context"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// Releaser has the parts of a server that a release uses.
type Releaser struct {
	Store  *state.Store
	Raft   fsm.Proposer
	Nodes  nodeconn.Caller
	Logger hclog.Logger
	// MayAssert returns an error unless the caller may assert what nothing proves: that a node which is down,
	// or that the servers do not know, does not write.
	MayAssert func(context.Context) error
}

// NoVolume is the error of a request that names a missing volume.
func NoVolume(ns, id string) error {
	return structs.NotFoundf("there is no volume %q in namespace %q", id, ns)
}

// checkRecord bounds the texts of a release that rows store.
func checkRecord(reason, by string) error {
	if len(reason) > structs.MaxText || len(by) > structs.MaxName {
		return structs.Invalidf("reason and by may have %d and %d bytes",
			structs.MaxText, structs.MaxName)
	}
	return nil
}
