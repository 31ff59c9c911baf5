package cluster

import (
	"time"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// signingLookEvery is the time between two looks at all allocations. Meanwhile a key is kept that is needed
// no more.
const signingLookEvery = time.Hour

// signingUse knows the oldest allocation that may have a token without an end.
type signingUse struct {
	looked time.Time
	oldest uint64 // its CreateIndex
	none   bool
}

// needs reports whether a task may have a token without an end that a retired key has signed: its allocation
// is older than the end of the key. Only keys of EdDSA sign such tokens.
func (u *signingUse) needs(tx *state.ReadTx, k *access.SigningKey) bool {
	if k.Algorithm != access.KeyEdDSA {
		return false
	}
	if u.looked.IsZero() || time.Since(u.looked) >= signingLookEvery {
		u.look(tx)
	}
	return !u.none && u.oldest <= k.ModifyIndex
}

func (u *signingUse) look(tx *state.ReadTx) {
	*u = signingUse{looked: time.Now(), none: true}
	for a := range schema.Allocs.Scan(tx) {
		if a.Terminal() || !u.none && a.CreateIndex >= u.oldest || !seesEndless(tx, a) {
			continue
		}
		u.oldest = a.CreateIndex
		u.none = false
	}
}

// seesEndless reports whether a task of an allocation has a token without an end in its file or variable. The
// agent replaces all others.
func seesEndless(tx *state.ReadTx, a *structs.Allocation) bool {
	j := state.JobOf(tx, a)
	if j == nil || j.Group(a.TaskGroup) == nil {
		return true // nobody knows
	}
	for _, t := range j.Group(a.TaskGroup).Tasks {
		i := t.Identity
		if i != nil && (i.Env || i.File) && structs.IsEndlessIdentity(i) {
			return true
		}
	}
	return false
}
