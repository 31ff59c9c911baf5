package state

import (
	"cmp"
	"iter"
	"slices"

	"berth/structs"
)

// Lists are read a page at a time, each page beginning with the key at which the one before it ended, and
// forwards or backwards: the rows before that are not looked at. These are for readers.

// within is what keys of a namespace whose next part begins so begin with; of all namespaces, anything.
func within(ns, prefix string) key {
	if ns == structs.AllNamespaces {
		return keyOf()
	}
	k := keyOf(ns, prefix)
	return k[:len(k)-1]
}

func beginning(prefix string) key {
	k := keyOf(prefix)
	return k[:len(k)-1]
}

// VolumesFrom yields the volumes of a namespace whose ID begins with prefix, from a namespace and ID on.
func VolumesFrom(tx *Read, ns, prefix string, at Start) iter.Seq[*structs.CSIVolume] {
	rows := volumes.part(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(v *structs.CSIVolume) string { return v.ID })
}

// JobsFrom yields the jobs of a namespace whose ID begins with prefix, from a namespace and ID on.
func JobsFrom(tx *Read, ns, prefix string, at Start) iter.Seq[*structs.Job] {
	rows := jobs.part(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(j *structs.Job) string { return j.ID })
}

// NodesFrom yields the nodes whose ID begins with prefix, from an ID on.
func NodesFrom(tx *Read, prefix string, begin []string) iter.Seq[*structs.Node] {
	return NodesPart(tx, prefix, Start{Key: begin})
}

// NodesPart is NodesFrom, either way.
func NodesPart(tx *Read, prefix string, at Start) iter.Seq[*structs.Node] {
	return nodes.part(tx, beginning(prefix), at)
}

// PluginsFrom is Plugins from an ID on.
func PluginsFrom(tx *Read, prefix string, at Start) iter.Seq[*structs.CSIPluginRow] {
	return plugins.part(tx, beginning(prefix), at)
}

// AllocsFrom yields the allocations of a namespace whose ID begins with prefix, from an ID on.
func AllocsFrom(tx *Read, ns, prefix string, at Start) iter.Seq[*structs.Allocation] {
	return inNamespace(allocs.part(tx, beginning(prefix), at), ns, func(a *structs.Allocation) string { return a.Namespace })
}

// AllocsByJobFrom is AllocsByJob by ID, from an ID on.
func AllocsByJobFrom(tx *Read, ns, job string, at Start) iter.Seq[*structs.Allocation] {
	of := func(state string) func() *structs.Allocation {
		own := at
		if len(at.Key) > 0 {
			own.Key = append([]string{ns, job, state}, at.Key...)
		}
		return allocsByJob.pull(tx, keyOf(ns, job, state), own)
	}
	both := func() []func() *structs.Allocation { return []func() *structs.Allocation{of(liveRow), of(doneRow)} }
	return inTurn(both, at.Reverse, func(a, b *structs.Allocation) int { return cmp.Compare(a.ID, b.ID) })
}

// AllocsByEvalFrom is AllocsByEval from an ID on.
func AllocsByEvalFrom(tx *Read, eval string, at Start) iter.Seq[*structs.Allocation] {
	if len(at.Key) > 0 {
		at.Key = append([]string{eval}, at.Key...)
	}
	return allocsByEval.part(tx, keyOf(eval), at)
}

// EvalsFrom yields the evaluations of a namespace whose ID begins with prefix, from an ID on.
func EvalsFrom(tx *Read, ns, prefix string, at Start) iter.Seq[*structs.Evaluation] {
	return inNamespace(evals.part(tx, beginning(prefix), at), ns, func(e *structs.Evaluation) string { return e.Namespace })
}

// ClaimsFrom yields the claims of a namespace on volumes whose ID begins with prefix, from a namespace and
// volume on.
func ClaimsFrom(tx *Read, ns, prefix string, at Start) iter.Seq[*structs.CSIClaim] {
	rows := claims.part(tx, within(ns, prefix), at)
	return withPrefix(rows, prefix, func(c *structs.CSIClaim) string { return c.VolumeID })
}

// ClaimsOf yields a volume's claims, by allocation.
func ClaimsOf(tx *Read, ns, volume string) iter.Seq[*structs.CSIClaim] {
	return claims.all(tx, ns, volume)
}

// LineFrom yields a volume's claims in the order of its line, from the place of a claim on, which need not be there;
// nil is the beginning. It can where all claims are in the index of classes: elsewhere sorted is false.
func LineFrom(tx *Read, ns, volume string, from *structs.CSIClaim, back bool) (rows iter.Seq[*structs.CSIClaim], sorted bool) {
	var classes [][]string
	for _, n := range lineOf(tx, ns, volume) {
		k := n.class()
		if n.Granted > 0 && !k.conflicts(k) {
			return nil, false
		}
		for _, state := range []string{structs.ClaimGranted, structs.ClaimWaiting} {
			if *n.in(state) > 0 {
				classes = append(classes, []string{ns, volume, state, k.letters()})
			}
		}
	}
	claims.has(tx, ns, volume) // who waits, waits for any of them
	return inTurn(func() (queues []func() *structs.CSIClaim) {
		for _, scope := range classes {
			at := Start{Reverse: back}
			if from != nil {
				at.Key = append(slices.Clone(scope), ordered(from.CreateIndex), ordered(uint64(from.Seq)))
			}
			queues = append(queues, claimsByClass.pull(tx, keyOf(scope...), at))
		}
		return queues
	}, back, inLineOrder), true
}
