package membership

import (
	"slices"

	"berth/client/store"
	"berth/structs"
)

// marks are the nonces that this agent and those before it drew for the log of the servers: see
// structs.Node.Mark.
type marks struct {
	Drawn  []string // the last one first
	BootID string   // in which the last one was drawn
	Claims bool     // and whether it was drawn for a claim
}

var marksTable = store.NewTable[marks]("agent_marks")

// draw returns the marks with another one. Each is on the disk before it is sent, so that the agent knows
// every mark that the log may have.
func (m marks) draw(bootID string, claims bool) marks {
	drawn := slices.Insert(slices.Clone(m.Drawn), 0, structs.NewID())
	return marks{
		Drawn:  drawn[:min(len(drawn), structs.MaxMarks)],
		BootID: bootID,
		Claims: claims,
	}
}

// loadMarks reads the marks.
func (k *ProofKeeper) loadMarks() {
	kept, err := marksTable.Get(k.db, proofKey)
	if err != nil {
		k.logger.Error("failed to read the marks of the agent, drawing another one", "error", err)
	}
	if kept != nil {
		k.marks = *kept
	}
}

// drawForBoot draws a mark for the first agent in a boot.
func (k *ProofKeeper) drawForBoot() error {
	k.claims.Lock()
	defer k.claims.Unlock()
	m := k.drawn()
	if m.of(k.place.BootID) {
		return nil
	}
	return k.keepMarks(m.draw(k.place.BootID, false))
}

// of reports whether the last mark was drawn in a boot.
func (m marks) of(bootID string) bool { return len(m.Drawn) > 0 && m.BootID == bootID }

// drawn returns the marks that are on the disk.
func (k *ProofKeeper) drawn() marks {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.marks
}

// keepMarks stores marks before a request can have them.
func (k *ProofKeeper) keepMarks(m marks) error {
	err := marksTable.Put(k.db, proofKey, &m)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.marks = m
	return nil
}

// MarkClaims draws the mark that goes into the log with each claim on a volume, before the first one in a
// boot: a copy of the disk from before has no volumes.
func (k *ProofKeeper) MarkClaims() error {
	k.claims.Lock()
	defer k.claims.Unlock()
	m := k.drawn()
	// A full disk may have kept Begin from drawing the mark of this boot.
	if m.Claims && m.of(k.place.BootID) {
		return nil
	}
	return k.keepMarks(m.draw(k.place.BootID, true))
}
