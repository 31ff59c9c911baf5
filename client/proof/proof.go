// Package proof keeps the nonce by which the servers know this agent from another one with the same node ID:
// see structs.AgentProof.
package proof

import (
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/structs"
)

// record is what outlives the agent.
type record struct {
	Next  string // is sent until the servers acknowledge it
	Acked string // the last one that they have acknowledged; "": none
}

const recordKey = "node"

var table = store.NewTable[record]("agent_proof")

// Keeper has the proof of the next request.
type Keeper struct {
	db     *store.DB
	logger hclog.Logger
	bootID string

	mu       sync.Mutex
	kept     record
	rejected bool
}

// BootID returns the ID of the boot of this machine, "" if the kernel does not tell it.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// Load reads the nonces of the last agent, or draws the first one. Without a record the agent cannot continue
// the lease of an earlier one: it waits until that has ended.
func Load(db *store.DB, bootID string, logger hclog.Logger) (*Keeper, error) {
	kept, err := table.Get(db, recordKey)
	if err != nil {
		logger.Error("failed to read the nonce of the agent, drawing another one", "error", err)
	}

	k := &Keeper{
		db:     db,
		logger: logger,
		bootID: bootID,
	}
	if kept != nil {
		k.kept = *kept
		return k, nil
	}
	return k, k.draw("")
}

// draw draws the next nonce. It is on the disk before it is sent: an agent that starts again knows it.
func (k *Keeper) draw(acked string) error {
	next := record{
		Next:  structs.NewID(),
		Acked: acked,
	}
	err := table.Put(k.db, recordKey, &next)
	if err == nil {
		k.kept = next
	}
	return err
}

// Current returns the proof of a request.
func (k *Keeper) Current() *structs.AgentProof {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &structs.AgentProof{
		BootID:   k.bootID,
		Nonce:    k.kept.Next,
		Previous: k.kept.Acked,
		Rejected: k.rejected,
	}
}

// Answered notes how the servers have answered a request. If they accepted it, the next one has another nonce.
// If the disk is full, it has the same one, which they accept too.
func (k *Keeper) Answered(sent *structs.AgentProof, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case structs.CauseOf(err) == structs.CauseSecondAgent:
		k.rejected = true
	case err == nil:
		k.rejected = false
		if sent.Nonce != k.kept.Next {
			return // another request has acknowledged it already
		}
		err = k.draw(sent.Nonce)
		if err != nil {
			k.logger.Warn("failed to store the nonce of the agent, sending the last one again", "error", err)
		}
	}
}
