package membership

import (
	"context"
	"fmt"
	"sync"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"berth/client/store"
	"berth/structs"
)

// proofRecord is what outlives the agent.
type proofRecord struct {
	Next     string // is sent until the servers acknowledge it
	Acked    string // the last one that they have acknowledged; "": none
	Rejected bool   // the servers have answered the last request with structs.CauseSecondAgent
}

const proofKey = "node"

var proofTable = store.NewTable[proofRecord]("agent_proof")

// ProofKeeper keeps the nonce by which the servers know this agent from another one with the same node ID:
// see structs.AgentProof.
type ProofKeeper struct {
	db     *store.DB
	logger hclog.Logger
	place  ProofPlace
	dir    string        // its device and inode
	due    chan struct{} // has a value: the disk does not have the last answer yet
	stored proofRecord   // is on the disk; only Begin and, after it, store use it

	claims sync.Mutex // held while a mark is drawn

	mu    sync.Mutex
	now   proofRecord
	acked bool // the servers have acknowledged now.Next
	marks marks
}

// ProofPlace is where the agent runs.
type ProofPlace struct {
	BootID  string
	Machine structs.MachineID
}

// LoadProof reads the nonces of the last agent from the store in a directory, or draws the first one. Without
// a record the agent cannot continue the lease of an earlier one: it waits until that has ended. Begin has to
// succeed before the first request.
func LoadProof(db *store.DB, dir string, at ProofPlace, logger hclog.Logger) (*ProofKeeper, error) {
	var place unix.Stat_t
	err := unix.Stat(dir, &place)
	if err != nil {
		return nil, fmt.Errorf("reading the inode of %s: %w", dir, err)
	}

	kept, err := proofTable.Get(db, proofKey)
	if err != nil {
		logger.Error("failed to read the nonce of the agent, drawing another one", "error", err)
	}

	k := &ProofKeeper{
		db:     db,
		logger: logger,
		place:  at,
		dir:    fmt.Sprintf("%d:%d", place.Dev, place.Ino),
		due:    make(chan struct{}, 1),
	}

	// kept is nil after an error, too.
	if kept == nil {
		k.now.Next = structs.NewID()
	} else {
		k.now = *kept
		k.stored = *kept
	}
	k.loadMarks()
	return k, nil
}

// Begin makes durable what the servers may not see before the disk has it: the first nonce, and the mark of
// this boot. An agent that is killed after its first request so knows them, and a copy of its disk from
// before does not. After an error it is called again.
func (k *ProofKeeper) Begin() error {
	if k.stored == (proofRecord{}) {
		first := k.now
		err := proofTable.Put(k.db, proofKey, &first)
		if err != nil {
			return err
		}
		k.stored = first
	}
	return k.drawForBoot()
}

// Current returns the proof of a request.
func (k *ProofKeeper) Current() *structs.AgentProof {
	k.mu.Lock()
	defer k.mu.Unlock()
	return &structs.AgentProof{
		BootID:   k.place.BootID,
		Machine:  k.place.Machine,
		Store:    k.dir,
		Nonce:    k.now.Next,
		Previous: k.now.Acked,
		Rejected: k.now.Rejected,
		Marks:    k.marks.Drawn, // which is never changed
	}
}

// OfHeartbeat returns the proof of a heartbeat, or of a request about claims. It is short: the row has one of
// the two newest marks, the older one while a claim with the newer one is in flight. Otherwise the servers
// ask for a registration.
func (k *ProofKeeper) OfHeartbeat() *structs.AgentProof {
	p := k.Current()
	p.Marks = p.Marks[:min(len(p.Marks), 2)]
	return p
}

// Answered notes how the servers have answered a request. It does not wait for the disk, which may be slow:
// the lease of the node must not depend on it.
func (k *ProofKeeper) Answered(sent *structs.AgentProof, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case structs.CauseOf(err) == structs.CauseSecondAgent:
		k.now.Rejected = true
	case err == nil:
		k.now.Rejected = false
		// An answer to an earlier nonce acknowledges nothing of this one.
		k.acked = k.acked || sent.Nonce == k.now.Next
	// The servers may have seen this request or not. The next one has the same nonce.
	default:
		return
	}

	select {
	case k.due <- struct{}{}:
	default: // Store is due already
	}
}

// Run stores each answer, until ctx ends. If the disk is full or slow, the node sends the last nonce again,
// which the servers accept.
func (k *ProofKeeper) Run(ctx context.Context) {
	for {
		select {
		case <-k.due:
		case <-ctx.Done():
			return
		}

		err := k.store()
		if err != nil {
			k.logger.Warn("failed to store the nonce of the agent, sending the last one again", "error", err)
		}
	}
}

// store writes the last answer to the disk. If the servers have acknowledged the nonce, it draws the next
// one, which is on the disk before it is sent: an agent that starts again knows it.
func (k *ProofKeeper) store() error {
	k.mu.Lock()
	next := k.now
	if k.acked {
		next.Acked = k.now.Next
		next.Next = structs.NewID()
	}
	k.mu.Unlock()
	if next == k.stored {
		return nil
	}

	// The write holds no lock, because Current and Answered must not wait for the disk.
	err := proofTable.Put(k.db, proofKey, &next)
	if err != nil {
		return err
	}

	k.stored = next
	k.mu.Lock()
	defer k.mu.Unlock()
	// Answered may have noted an answer during the write, so now keeps its other fields.
	if next.Next != k.now.Next {
		k.now.Next = next.Next
		k.now.Acked = next.Acked
		k.acked = false
	}

	return nil
}
