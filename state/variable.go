package state

import (
	"iter"
	"strings"

	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/validate"
)

// Variable returns a variable, nil if it does not exist.
func Variable(tx Reader, ns, path string) *access.Variable {
	return schema.Variables.Get(tx, ns, path)
}

// VariablesFrom yields the variables of a namespace whose path begins with prefix, from a namespace and path
// on.
func VariablesFrom(tx *ReadTx, ns, prefix string, at Page) iter.Seq[*access.Variable] {
	rows := schema.Variables.Range(tx, schema.NamespaceScope(ns, prefix), at)
	return schema.Filter(rows, func(v *access.Variable) bool {
		return strings.HasPrefix(v.Path, prefix)
	})
}

// LockedVariables yields the variables with a lock, also while its delay runs.
func LockedVariables(tx Reader) iter.Seq[*access.Variable] { return schema.LockedVariables.Scan(tx) }

// noConflict returns a conflict if a write expects another variable than the present one, or does not come
// from the holder of the lock. now may be nil.
func noConflict(now *access.Variable, p *access.VariableChange) error {
	var index uint64
	if now != nil {
		index = now.ModifyIndex
	}

	if p.CheckIndex != nil && *p.CheckIndex != index {
		return structs.Conflictf("the variable %q has the index %d, and the write expects %d",
			p.Path, index, *p.CheckIndex)
	}

	own := ""
	if p.Lock != nil {
		own = p.Lock.ID
	}

	held := now.Holder()
	switch {
	case held == nil && own != "":
		return structs.Conflictf("the variable %q is not locked any more: the lock of the writer has ended", p.Path)
	case held != nil && held.ID != own:
		return structs.Conflictf("the variable %q is locked, and the write has not the ID of its lock", p.Path)
	}

	return nil
}

// changedVariable returns a copy of a variable to change, or a new one.
func changedVariable(tx *WriteTx, p *access.VariableChange) (*access.Variable, error) {
	err := validate.VariablePath(p.Path)
	if err == nil {
		err = namespace.Check(tx, p.Namespace)
	}

	if err != nil {
		return nil, err
	}

	now := schema.Variables.Get(tx, p.Namespace, p.Path)
	next := &access.Variable{
		Namespace:  p.Namespace,
		Path:       p.Path,
		CreateTime: p.Now,
	}

	if now != nil {
		*next = *now
	}

	if p.Sealed != nil {
		err = trust.CheckSealed(tx, p.Sealed)
		next.Sealed = p.Sealed
	}

	if p.Sealed != nil && err == nil {
		err = checkStoredVariables(tx, now, p)
	}

	next.ModifyTime = p.Now
	return next, err
}

// checkStoredVariables bounds the variables of a namespace, which every server keeps in memory.
func checkStoredVariables(tx *WriteTx, now *access.Variable, p *access.VariableChange) error {
	count := 1
	size := len(p.Sealed.Data)
	for v := range schema.Variables.Scan(tx, p.Namespace) {
		if now != nil && v.Path == now.Path {
			continue
		}
		count++
		if v.Sealed != nil {
			size += len(v.Sealed.Data)
		}
	}
	if now == nil && count > structs.MaxStoredVars || size > structs.MaxStoredBytes {
		return structs.Preconditionf("namespace %q would have %d variables of %d encrypted bytes; at most %d and "+
			"%d are allowed: purge some", p.Namespace, count, size, structs.MaxStoredVars, structs.MaxStoredBytes)
	}
	return nil
}

// VariablePut replaces the items of a variable, or creates it.
func VariablePut(tx *WriteTx, p *access.VariableChange) error {
	if p.Sealed == nil {
		return structs.Invalidf("the variable %q has no items", p.Path)
	}
	err := noConflict(Variable(tx, p.Namespace, p.Path), p)
	if err != nil {
		return err
	}
	next, err := changedVariable(tx, p)
	if err == nil {
		schema.Variables.Put(tx, next)
	}
	return err
}

// VariableDelete deletes a variable, with its lock. One that does not exist is no error.
func VariableDelete(tx *WriteTx, p *access.VariableChange) error {
	now := Variable(tx, p.Namespace, p.Path)
	err := noConflict(now, p)
	if err == nil && now != nil {
		schema.Variables.Delete(tx, now)
	}
	return err
}

// VariableLock locks a variable, and replaces its items if the change has some. Without a variable it creates
// one.
func VariableLock(tx *WriteTx, p *access.VariableChange) error {
	if p.Lock == nil || p.Lock.ID == "" {
		return structs.Invalidf("the lock of the variable %q has no ID", p.Path)
	}

	now := Variable(tx, p.Namespace, p.Path)
	switch {
	case now == nil || now.Lock == nil:
	case now.LockExpired:
		return structs.Conflictf("the lock of the variable %q has ended without a release: nobody gets it for %s",
			p.Path, now.Lock.LockDelay)
	default:
		return structs.Conflictf("the variable %q is locked", p.Path)
	}

	unlocked := *p
	unlocked.Lock = nil
	err := noConflict(now, &unlocked)
	if err != nil {
		return err
	}

	next, err := changedVariable(tx, p)
	if err != nil {
		return err
	}

	next.Lock = p.Lock
	schema.Variables.Put(tx, next)
	return nil
}

// VariableUnlock ends the lock of its holder. Others can take it at once.
func VariableUnlock(tx *WriteTx, p *access.VariableChange) error {
	now := Variable(tx, p.Namespace, p.Path)
	err := noConflict(now, p)
	if err != nil {
		return err
	}
	if now.Holder() == nil {
		return structs.Conflictf("the variable %q is not locked", p.Path)
	}
	next := *now
	next.Lock = nil
	next.ModifyTime = p.Now
	schema.Variables.Put(tx, &next)
	return nil
}

// VariableLockExpire ends a lock that was not renewed, or its delay. It does nothing for a former lock.
func VariableLockExpire(tx *WriteTx, p *access.VariableExpiry) error {
	now := Variable(tx, p.Namespace, p.Path)

	// The holder may have released the lock since the leader proposed this, and another one may have it.
	if now == nil || now.Lock == nil || now.Lock.ID != p.LockID || now.LockExpired != p.DelayOver {
		return nil
	}
	next := *now
	next.LockExpired = !p.DelayOver
	if p.DelayOver {
		next.Lock = nil
	}
	schema.Variables.Put(tx, &next)
	return nil
}

// checkVariables checks that each variable has a valid path, items or a lock, and a namespace.
func checkVariables(c *schema.Report) {
	for v := range schema.Variables.Scan(c) {
		name := access.VariablePlace(v.Namespace, v.Path)
		c.Want(validate.VariablePath(v.Path) == nil, "%s: its path is not valid", name)
		c.Want(namespace.Get(c, v.Namespace) != nil, "%s: its namespace is gone", name)
		c.Want(v.Lock == nil || v.Lock.ID != "", "%s: its lock has no ID", name)
		c.Want(v.Lock != nil || !v.LockExpired, "%s: the delay of no lock runs", name)
	}
}
