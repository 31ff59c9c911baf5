package access

import (
	"context"
	"encoding/json"
	"fmt"

	"berth/endpoints/core"
	"berth/endpoints/query"
	"berth/fsm"
	"berth/internal/keyring"
	"berth/state"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/validate"
)

// LeaderLog writes the log, and tells whether this server still leads.
type LeaderLog interface {
	fsm.Proposer
	VerifyLeader() error
}

// Variables serves the methods of variables. The leader encrypts the items of a variable before they enter
// the log, and each server decrypts them for its answers.
type Variables struct {
	Store *state.Store
	Raft  LeaderLog
	// Keys are this server's. Without an open root key it can neither write nor show items.
	Keys *keyring.Ring
	// Locks are of the leader alone: a follower gets no write.
	Locks core.Locks
}

// variableReader is the caller of a read: a node, or an operator for "". The middleware has compared the
// secret of a node with its row. It is "" for an operator, whose rights the gate has checked.
type variableReader struct {
	nodeID   string
	secretID string
}

// check returns an error for a node that has not given its secret: it would pass for an operator. A request
// that names a node and no secret was not authenticated by the middleware.
func (r variableReader) check() error {
	if r.nodeID != "" && r.secretID == "" {
		return structs.Deniedf("a node reads variables with its secret")
	}
	return nil
}

// paths returns the variables that a node may read, by namespace and path: the variables of the jobs that
// have an allocation on it.
func (r variableReader) paths(tx *state.ReadTx) map[[2]string]bool {
	all := map[[2]string]bool{}
	for a := range state.LiveAllocsByNode(tx, r.nodeID) {
		job := state.JobOf(tx, a)
		if job == nil {
			continue
		}

		group := job.Group(a.TaskGroup)
		if group == nil {
			continue
		}

		for _, t := range group.Tasks {
			for _, path := range access.JobVariablePaths(job, group.Name, t.Name) {
				all[[2]string{a.Namespace, path}] = true
			}
		}
	}

	return all
}

// List lists variables without their items.
func (v Variables) List(
	tx *state.ReadTx,
	req *access.VariableListRequest,
	resp *access.VariableListResponse,
) error {
	caller := variableReader{req.NodeID, req.SecretID}
	err := caller.check()
	if err != nil {
		return err
	}

	// The ID of a lock is the proof of its holder, so lists leave it out.
	l := query.List[access.Variable, access.VariableMetadata]{
		Key:  func(v *access.Variable) []string { return []string{v.Namespace, v.Path} },
		Stub: func(v *access.Variable, s *access.VariableMetadata) { *s = *v.Metadata().WithoutLockID() },
	}

	if caller.nodeID != "" {
		allowed := caller.paths(tx)
		l.Keep = func(v *access.Variable) bool { return allowed[[2]string{v.Namespace, v.Path}] }
	}

	rows := state.VariablesFrom(tx, req.RequestNamespace(), req.Prefix, query.Start(req))
	resp.Variables, err = l.Page(rows, req, resp)
	return err
}

// Get reads a variable with its items. A node reads variables that its jobs may use. The error is not-found
// or denied.
func (v Variables) Get(
	tx *state.ReadTx,
	req *access.VariableGetRequest,
	resp *access.VariableGetResponse,
) error {
	caller := variableReader{req.NodeID, req.SecretID}
	err := caller.check()
	if err != nil {
		return err
	}

	ns := req.RequestNamespace()
	if caller.nodeID != "" && !caller.paths(tx)[[2]string{ns, req.Path}] {
		return structs.Deniedf("node %s runs no allocation that may read the variable %q of namespace %q",
			caller.nodeID, structs.Cut(req.Path, structs.MaxQuoted), ns)
	}

	row := state.Variable(tx, ns, req.Path)
	if row == nil {
		return structs.NotFoundf("there is no variable %q in namespace %q",
			structs.Cut(req.Path, structs.MaxQuoted), ns)
	}

	// Decryption is on the server that answers: a stale read works without the leader.
	resp.Variable, err = v.open(row)
	return err
}

// open decrypts a variable. A variable that was only locked has no items.
func (v Variables) open(row *access.Variable) (*access.OpenVariable, error) {
	opened := &access.OpenVariable{
		VariableMetadata: *row.Metadata(),
		Items:            access.VariableItems{},
	}

	if row.Sealed == nil {
		return opened, nil
	}

	// The place is bound into the cipher text: items that were moved to another path do not open.
	place := access.VariablePlace(row.Namespace, row.Path)
	items, err := v.Keys.Open(place, row.Sealed)
	if err == nil && json.Unmarshal(items, &opened.Items) != nil { // whose error may have a value
		err = structs.Internalf("the items of the %s are not valid", place)
	}
	if err != nil {
		return nil, err
	}

	return opened, nil
}

// seal encrypts items. Only the leader seals: the cipher text goes into the log.
func (v Variables) seal(ns, path string, items access.VariableItems) (*structs.Sealed, error) {
	text, err := json.Marshal(items)
	if err != nil {
		// The error of the encoder could quote a value.
		return nil, structs.Internalf("encoding the items of a variable failed")
	}

	sealed, err := v.Keys.Seal(access.VariablePlace(ns, path), text)
	if err != nil && v.Keys.Active() == "" {
		err = fmt.Errorf("%w; a cluster gets its first one by berth operator root keyring init", err)
	}
	return sealed, err
}

// Apply writes a variable. A conflict is an answer, with the present variable.
func (v Variables) Apply(
	ctx context.Context,
	req *access.VariableApplyRequest,
	resp *access.VariableApplyResponse,
) (uint64, error) {
	command, change, err := v.change(req)
	if err != nil {
		return 0, err
	}

	index, err := fsm.Propose(ctx, v.Raft, command, change)
	switch {
	// The write lost against another one, or against a lock. The caller sees by the answer what is there.
	case structs.IsKind(err, structs.KindConflict):
		resp.Conflict, err = v.inTheWay(change.Namespace, change.Path, req.ItemsShown)
		return v.Store.Index(), err
	case err != nil || req.Op == access.VariableDelete:
		return index, err
	}

	// The answer has the index of this write, so the variable in it is the one of this write, too.
	resp.Variable, err = v.written(index, change)
	if err == nil && len(req.Items) == 0 {
		hideItems(resp.Variable, req.ItemsShown)
	}
	return index, err
}

// change returns the command for a request, and its payload.
func (v Variables) change(
	req *access.VariableApplyRequest,
) (c fsm.Command[access.VariableChange], change *access.VariableChange, err error) {
	// The command has no items in plain text, so the log has none.
	change = &access.VariableChange{
		Namespace:  req.RequestNamespace(),
		Path:       req.Path,
		CheckIndex: req.CheckIndex,
		Lock:       req.Lock,
		Now:        req.Now,
	}

	err = validate.VariablePath(req.Path)
	if err == nil {
		err = validate.VariableItems(req.Items)
	}
	if err != nil {
		return c, nil, err
	}

	// The items are sealed last: a request with another fault costs no encryption.
	withItems := len(req.Items) > 0
	switch req.Op {
	case access.VariableSet:
		c = fsm.VariablePut
		if !withItems {
			return c, nil, structs.Invalidf("the variable has no items; expected Items, an object of strings")
		}
	case access.VariableAcquire:
		c = fsm.VariableLock
		change.Lock, err = validate.NewVariableLock(req.Lock)
		if err != nil {
			return c, nil, err
		}

		// The server makes the ID, which only the answer to the holder has.
		change.Lock.ID = structs.NewID()
	case access.VariableDelete:
		c = fsm.VariableDelete
	case access.VariableRelease:
		c = fsm.VariableUnlock
	default:
		return c, nil, structs.Invalidf("Op is %q; expected %s, %s, %s or %s",
			structs.Cut(req.Op, structs.MaxQuoted), access.VariableSet, access.VariableDelete,
			access.VariableAcquire, access.VariableRelease)
	}

	// A delete or a release with items would lose them without a word.
	isWrite := req.Op == access.VariableSet || req.Op == access.VariableAcquire
	switch {
	case withItems && !isWrite:
		return c, nil, structs.Invalidf("%s takes no Items", req.Op)
	case withItems:
		change.Sealed, err = v.seal(change.Namespace, change.Path, req.Items)
	}

	return c, change, err
}

// written returns the variable as a change has written it. Another write may have followed.
func (v Variables) written(index uint64, p *access.VariableChange) (*access.OpenVariable, error) {
	row := state.Variable(v.Store.Read(), p.Namespace, p.Path)
	// The answer is about this write, also if the row has changed since: it has the index of the caller's entry.
	if row == nil || row.ModifyIndex != index {
		row = &access.Variable{
			Namespace:  p.Namespace,
			Path:       p.Path,
			ModifyTime: p.Now,
			Sealed:     p.Sealed,
			Lock:       p.Lock,
			Indexes:    structs.Indexes{ModifyIndex: index},
		}
	}
	return v.open(row)
}

// hideItems leaves out the items of a variable that the writer may not read.
func hideItems(v *access.OpenVariable, shown access.ItemsShown) {
	if shown.Sees != nil && !shown.Sees(v.Namespace, v.Path) {
		v.Items = access.VariableItems{}
	}
}

// inTheWay returns the present variable, without the ID of its lock, and without items for a writer that may
// not read them. It has no indexes if it does not exist.
func (v Variables) inTheWay(ns, path string, shown access.ItemsShown) (*access.OpenVariable, error) {
	row := state.Variable(v.Store.Read(), ns, path)
	if row == nil {
		row = &access.Variable{Namespace: ns, Path: path}
	}
	opened, err := v.open(row)
	if err != nil {
		return nil, err
	}
	opened.VariableMetadata = *opened.WithoutLockID()
	hideItems(opened, shown)
	return opened, nil
}

// Renew keeps a lock for another TTL. This server confirms that it leads after the request has arrived, and
// reads the row after the renewal: another leader, or this one, may just have ended the lock.
func (v Variables) Renew(
	_ context.Context,
	req *access.VariableRenewRequest,
	resp *access.VariableRenewResponse,
) (index uint64, err error) {
	ns := req.RequestNamespace()
	err = v.Raft.VerifyLeader()
	if err != nil {
		return 0, err
	}

	row := v.heldBy(ns, req)
	if row != nil {
		err = v.Locks.Renew(row)
	}
	if err == nil {
		row = v.heldBy(ns, req)
	}

	switch {
	case structs.IsKind(err, structs.KindConflict), err == nil && row == nil:
		// The lock has ended or is another one's. The answer tells its caller to stop.
		resp.Conflict, err = v.inTheWay(ns, req.Path, req.ItemsShown)
	case err == nil:
		resp.Variable = row.Metadata()
	}

	return v.Store.Index(), err
}

// heldBy returns a variable if the sender of a request holds its lock, else nil.
func (v Variables) heldBy(ns string, req *access.VariableRenewRequest) *access.Variable {
	// The ID of the lock is known to its holder alone, so it proves the sender.
	row := state.Variable(v.Store.Read(), ns, req.Path)
	held := row.Holder()
	if held == nil || held.ID != req.LockID {
		return nil
	}
	return row
}
