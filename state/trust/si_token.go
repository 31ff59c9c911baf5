package trust

import (
	"iter"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// ClusterID returns the ID of the cluster, "" while there is none.
func ClusterID(tx mvcc.Reader) string {
	row := schema.ClusterMetadata.Get(tx, schema.OnlyCluster)
	if row == nil {
		return ""
	}
	return row.ClusterID
}

// SIToken returns the row of a token, nil if there is none.
func SIToken(tx mvcc.Reader, alloc, task, accessor string) *access.SITokenAccessor {
	return schema.SITokens.Get(tx, alloc, task, accessor)
}

// Of yields the tokens of an allocation that are not revoked yet, or of one of its tasks.
func SITokensOf(tx mvcc.Reader, alloc string, task ...string) iter.Seq[*access.SITokenAccessor] {
	return schema.SITokens.Scan(tx, append([]string{alloc}, task...)...)
}

// RevokedSIToken yields the tokens that the leader revokes.
func RevokedSIToken(tx mvcc.Reader) iter.Seq[*access.SITokenAccessor] {
	return schema.RevokedSITokens.Scan(tx)
}

// SITokensRegister stores the names of tokens that a server is going to make, and gives the cluster its ID.
// It gives up the earlier tokens of the same tasks: their node has asked again, so no task uses them.
func SITokensRegister(tx *mvcc.WriteTx, p *access.SITokenAccessors) error {
	// All are checked before the first change: an entry with an error has changed nothing.
	for _, t := range p.Accessors {
		if t == nil || t.TaskName == "" || t.AccessorID == "" {
			return structs.Invalidf("a token needs a task and an accessor")
		}

		a := schema.Allocs.Get(tx, t.AllocID)
		switch {
		case a == nil || a.NodeID != t.NodeID:
			return structs.NotFoundf("allocation %q is not on node %q", t.AllocID, t.NodeID)
		case a.Terminal():
			return structs.Preconditionf("allocation %q has ended", t.AllocID)
		}
	}

	if p.ClusterID != "" && ClusterID(tx) == "" {
		schema.ClusterMetadata.Put(tx, &access.ClusterMetadata{
			ClusterID:  p.ClusterID,
			CreateTime: p.Now,
		})
	}

	// The former tokens are given up first. After the puts, the new ones of the same tasks would be given up
	// too.
	for _, t := range p.Accessors {
		SITokensGiveUpOf(tx, t.AllocID, p.Now+int64(access.SITokenSettle), t.TaskName)
		t.RevokeTime = 0
	}

	for _, t := range p.Accessors {
		schema.SITokens.Put(tx, t)
	}

	return nil
}

// SITokensGiveUp makes the leader revoke tokens that no task has got. Consul may still be making them.
func SITokensGiveUp(tx *mvcc.WriteTx, p *access.SITokenAccessors) error {
	for _, t := range p.Accessors {
		row := stored(tx, t)
		if row != nil {
			giveUp(tx, row, p.Now+int64(access.SITokenSettle))
		}
	}
	return nil
}

// SITokensDeregister deletes the rows of tokens that are revoked.
func SITokensDeregister(tx *mvcc.WriteTx, p *access.SITokenAccessors) error {
	for _, t := range p.Accessors {
		row := stored(tx, t)
		if row != nil {
			schema.SITokens.Delete(tx, row)
		}
	}
	return nil
}

func stored(tx mvcc.Reader, t *access.SITokenAccessor) *access.SITokenAccessor {
	if t == nil {
		return nil
	}
	return SIToken(tx, t.AllocID, t.TaskName, t.AccessorID)
}

// SITokensGiveUpOf makes the leader revoke the tokens of an allocation, or of one of its tasks, from a time
// on.
func SITokensGiveUpOf(tx *mvcc.WriteTx, alloc string, from int64, task ...string) {
	for t := range SITokensOf(tx, alloc, task...) {
		giveUp(tx, t, from)
	}
}

func giveUp(tx *mvcc.WriteTx, t *access.SITokenAccessor, from int64) {
	// The first time stays, so that repeated requests do not delay the revocation.
	if t.RevokeTime != 0 {
		return
	}
	t = t.Copy()

	// 0 would mean that a task may use the token.
	t.RevokeTime = max(from, 1)
	schema.SITokens.Put(tx, t)
}

// KeepSITokens takes over the tokens of the replaced state, because they still exist. It gives up the tokens
// of allocations that do not run in the restored state.
func KeepSITokens(tx *mvcc.WriteTx, before mvcc.Reader, now int64) {
	for t := range schema.SITokens.Scan(before) {
		if stored(tx, t) != nil {
			continue
		}
		t = t.Copy()
		schema.SITokens.Put(tx, t)
		a := schema.Allocs.Get(tx, t.AllocID)
		if a == nil || a.ClientTerminal() {
			giveUp(tx, t, now)
		}
	}
}

// CheckSITokens checks that every token that a task may use belongs to an allocation on the node of the row.
func CheckSITokens(c *schema.Report) {
	for t := range schema.SITokens.Scan(c) {
		a := schema.Allocs.Get(c, t.AllocID)
		c.Want(a == nil || a.NodeID == t.NodeID,
			"token %s: allocation %s is not on node %s", t.AccessorID, t.AllocID, t.NodeID)
		c.Want(t.RevokeTime != 0 || a != nil && !a.ClientTerminal(),
			"token %s: allocation %s has ended and nothing revokes the token", t.AccessorID, t.AllocID)
	}
}
