package state

import (
	"iter"

	"berth/state/check"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/sitoken"
)

// ClusterID returns the ID of the cluster, "" while there is none.
func ClusterID(tx Reader) string {
	row := schema.ClusterMetadata.Get(tx, schema.OnlyCluster)
	if row == nil {
		return ""
	}
	return row.ClusterID
}

// SIToken returns the row of a token, nil if there is none.
func SIToken(tx Reader, alloc, task, accessor string) *sitoken.SITokenAccessor {
	return schema.SITokens.Get(tx, alloc, task, accessor)
}

// SITokensOf yields the tokens of an allocation that are not revoked yet, or of one of its tasks.
func SITokensOf(tx Reader, alloc string, task ...string) iter.Seq[*sitoken.SITokenAccessor] {
	return schema.SITokens.Scan(tx, append([]string{alloc}, task...)...)
}

// RevokedSITokens yields the tokens that the leader revokes.
func RevokedSITokens(tx Reader) iter.Seq[*sitoken.SITokenAccessor] {
	return schema.RevokedSITokens.Scan(tx)
}

// SITokensRegister stores the names of tokens that a server is going to make, and gives the cluster its ID.
// It gives up the earlier tokens of the same tasks: their node has asked again, so no task uses them.
func SITokensRegister(tx *WriteTx, p *sitoken.SITokenAccessors) error {
	// All are checked before the first change: an entry with an error has changed nothing.
	for _, t := range p.Accessors {
		if t == nil || t.TaskName == "" || t.AccessorID == "" {
			return structs.Invalidf("a token needs a task and an accessor")
		}

		a := Alloc(tx, t.AllocID)
		switch {
		case a == nil || a.NodeID != t.NodeID:
			return structs.NotFoundf("allocation %q is not on node %q", t.AllocID, t.NodeID)
		case a.Terminal():
			return structs.Preconditionf("allocation %q has ended", t.AllocID)
		}
	}

	if p.ClusterID != "" && ClusterID(tx) == "" {
		schema.ClusterMetadata.Put(tx, &sitoken.ClusterMetadata{
			ClusterID:  p.ClusterID,
			CreateTime: p.Now,
		})
	}

	// The former tokens are given up first. After the puts, the new ones of the same tasks would be given up
	// too.
	for _, t := range p.Accessors {
		giveUpSITokens(tx, t.AllocID, p.Now+int64(sitoken.SITokenSettle), t.TaskName)
		t.RevokeTime = 0
	}

	for _, t := range p.Accessors {
		schema.SITokens.Put(tx, t)
	}

	return nil
}

// SITokensGiveUp makes the leader revoke tokens that no task has got. Consul may still be making them.
func SITokensGiveUp(tx *WriteTx, p *sitoken.SITokenAccessors) error {
	for _, t := range p.Accessors {
		row := storedSIToken(tx, t)
		if row != nil {
			giveUpSIToken(tx, row, p.Now+int64(sitoken.SITokenSettle))
		}
	}
	return nil
}

// SITokensDeregister deletes the rows of tokens that are revoked.
func SITokensDeregister(tx *WriteTx, p *sitoken.SITokenAccessors) error {
	for _, t := range p.Accessors {
		row := storedSIToken(tx, t)
		if row != nil {
			schema.SITokens.Delete(tx, row)
		}
	}
	return nil
}

func storedSIToken(tx Reader, t *sitoken.SITokenAccessor) *sitoken.SITokenAccessor {
	if t == nil {
		return nil
	}
	return SIToken(tx, t.AllocID, t.TaskName, t.AccessorID)
}

// giveUpSITokens makes the leader revoke the tokens of an allocation, or of one of its tasks, from a time on.
func giveUpSITokens(tx *WriteTx, alloc string, from int64, task ...string) {
	for t := range SITokensOf(tx, alloc, task...) {
		giveUpSIToken(tx, t, from)
	}
}

func giveUpSIToken(tx *WriteTx, t *sitoken.SITokenAccessor, from int64) {
	// The first time stays, so that repeated requests do not delay the revocation.
	if t.RevokeTime != 0 {
		return
	}
	t = t.Copy()

	// 0 would mean that a task may use the token.
	t.RevokeTime = max(from, 1)
	schema.SITokens.Put(tx, t)
}

// keepSITokens takes over the tokens of the replaced state, because they still exist. It gives up the tokens
// of allocations that do not run in the restored state.
func keepSITokens(tx *WriteTx, before Reader, now int64) {
	for t := range schema.SITokens.Scan(before) {
		if storedSIToken(tx, t) != nil {
			continue
		}
		t = t.Copy()
		schema.SITokens.Put(tx, t)
		a := Alloc(tx, t.AllocID)
		if a == nil || a.ClientTerminal() {
			giveUpSIToken(tx, t, now)
		}
	}
}

// checkSITokens checks that every token that a task may use belongs to an allocation on the node of the row.
func checkSITokens(c *check.Report) {
	for t := range schema.SITokens.Scan(c) {
		a := Alloc(c, t.AllocID)
		c.Want(a == nil || a.NodeID == t.NodeID,
			"token %s: allocation %s is not on node %s", t.AccessorID, t.AllocID, t.NodeID)
		c.Want(t.RevokeTime != 0 || a != nil && !a.ClientTerminal(),
			"token %s: allocation %s has ended and nothing revokes the token", t.AccessorID, t.AllocID)
	}
}
