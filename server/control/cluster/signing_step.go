package cluster

import (
	"cmp"
	"slices"
	"time"

	"berth/server/clock"
	"berth/structs/access"
)

// algorithms are the algorithms of which the cluster has a key at any time.
var algorithms = []string{access.KeyEdDSA, access.KeyRS256}

// keptRetired bounds the retired keys of an algorithm that are kept for tasks that run for long.
const keptRetired = 16

// signingStep is a change of the keys. One of its fields is set, or none if nothing is due.
type signingStep struct {
	add      string // the algorithm of a new key
	activate string // the ID of a published key
	remove   string // the ID of a retired key
}

// signingRules decide when a step is due.
type signingRules struct {
	now         time.Time
	clock       *clock.Cluster // the clock of now
	rotateAfter time.Duration
	// rootIndex is the index at which the active root key was made. A signing key from before it is replaced.
	rootIndex uint64
	// needed reports whether a task may still use a token without an end that a key has signed.
	needed func(k *access.SigningKey) bool
}

// next returns the next step that is due, and else the time until one is.
func (r signingRules) next(keys []*access.SigningKey) (s signingStep, wait time.Duration) {
	wait = longestSigningPause
	for _, algorithm := range algorithms {
		due, left := r.nextOf(algorithm, keys)
		if due != (signingStep{}) {
			return due, 0
		}
		wait = min(wait, left)
	}
	return signingStep{}, wait
}

// nextOf is next for the keys of one algorithm.
func (r signingRules) nextOf(
	algorithm string, keys []*access.SigningKey,
) (s signingStep, wait time.Duration) {
	var active, published *access.SigningKey
	var retired []*access.SigningKey
	wait = longestSigningPause
	for _, k := range keys {
		if k.Algorithm != algorithm {
			continue
		}
		switch k.State {
		case access.KeyActive:
			active = k
		case access.KeyPublished:
			published = k
		case access.KeyRetired:
			retired = append(retired, k)
		}
	}

	slices.SortFunc(retired, func(a, b *access.SigningKey) int {
		return cmp.Compare(a.RetireTime, b.RetireTime)
	})
	for i, k := range retired {
		left := r.until(k.RetireTime, access.KeyKeepTime)
		switch tooMany := len(retired)-i > keptRetired; {
		case left > 0:
			wait = min(wait, left)
		case tooMany || !r.needed(k):
			return signingStep{remove: k.KeyID}, 0
		}
	}

	switch {
	case published != nil:
		left := r.until(published.CreateTime, access.KeyPublishTime)
		// Without a key that signs, nobody waits for the former one to leave the caches.
		if left <= 0 || active == nil {
			return signingStep{activate: published.KeyID}, 0
		}
		return signingStep{}, min(wait, left)
	case active == nil || active.CreateIndex < r.rootIndex:
		return signingStep{add: algorithm}, 0
	}
	left := r.until(active.CreateTime, r.rotateAfter)
	if left <= 0 {
		return signingStep{add: algorithm}, 0
	}
	return signingStep{}, min(wait, left)
}

// until returns the time that is left until an age is reached.
func (r signingRules) until(begin int64, age time.Duration) time.Duration {
	return time.Unix(0, r.clock.Corrected(begin)).Add(age).Sub(r.now)
}
