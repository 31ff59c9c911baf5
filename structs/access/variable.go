package access

import (
	"berth/structs"
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// VariableItems are the values of a variable by their names. In texts they are [redacted], so that no log and
// no error shows them. JSON and msgpack have them.
type VariableItems map[string]string

// String never shows a value.
func (v VariableItems) String() string { return structs.Redacted }

// Format covers every verb of fmt.
func (v VariableItems) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte(structs.Redacted))
}

// Variable is the row of a variable. Key: (Namespace, Path). Its items are encrypted before they enter the
// log: as JSON, for the place that VariablePlace returns.
type Variable struct {
	Namespace  string
	Path       string
	CreateTime int64           // UnixNano
	ModifyTime int64           // UnixNano
	Sealed     *structs.Sealed // nil: it has no items, only a lock
	// Lock is nil if nobody has the lock, and its delay is over.
	Lock *VariableLock
	// LockExpired: nobody has the lock any more. Its delay runs, in which nobody gets it.
	LockExpired bool
	structs.Indexes
}

// VariablePlace returns the place for which the items of a variable are encrypted.
func VariablePlace(namespace, path string) string { return "variable " + namespace + "/" + path }

// Holder returns the lock of a variable while somebody has it, else nil. v may be nil.
func (v *Variable) Holder() *VariableLock {
	if v == nil || v.LockExpired {
		return nil
	}
	return v.Lock
}

// VariableLock is the lock on a variable. Its holder renews it within TTL. Otherwise it ends, and nobody gets
// it for LockDelay.
type VariableLock struct {
	ID        string // its holder sends it with each write
	TTL       time.Duration
	LockDelay time.Duration
}

type variableLockJSON struct {
	ID        string
	TTL       string
	LockDelay string
}

// MarshalJSON writes the durations as texts, as the dialect has them.
func (l VariableLock) MarshalJSON() ([]byte, error) {
	return json.Marshal(variableLockJSON{l.ID, l.TTL.String(), l.LockDelay.String()})
}

// UnmarshalJSON reads durations such as 15s. An empty text is 0.
func (l *VariableLock) UnmarshalJSON(b []byte) (err error) {
	var v variableLockJSON
	err = json.Unmarshal(b, &v)
	l.ID = v.ID
	if err == nil && v.TTL != "" {
		l.TTL, err = time.ParseDuration(v.TTL)
	}
	if err == nil && v.LockDelay != "" {
		l.LockDelay, err = time.ParseDuration(v.LockDelay)
	}
	return err
}

// VariableMetadata is all of a variable but its items. Lists have no ID of a lock.
type VariableMetadata struct {
	Namespace  string
	Path       string
	CreateTime int64         // UnixNano
	ModifyTime int64         // UnixNano
	Lock       *VariableLock `json:",omitempty"` // nil: nobody has it
	structs.Indexes
}

// Metadata returns all of a variable but its items.
func (v *Variable) Metadata() *VariableMetadata {
	return &VariableMetadata{
		Namespace:  v.Namespace,
		Path:       v.Path,
		CreateTime: v.CreateTime,
		ModifyTime: v.ModifyTime,
		Lock:       v.Holder(),
		Indexes:    v.Indexes,
	}
}

// WithoutLockID returns a copy that does not tell the ID of the lock, with which others could write.
func (m VariableMetadata) WithoutLockID() *VariableMetadata {
	if m.Lock != nil {
		m.Lock = &VariableLock{TTL: m.Lock.TTL, LockDelay: m.Lock.LockDelay}
	}
	return &m
}

// OpenVariable is a variable with its items.
type OpenVariable struct {
	VariableMetadata
	Items VariableItems
}

// VariableList lists variables without their items. A node gets variables that it may read.
var VariableList = structs.Read[VariableListRequest, VariableListResponse]("Variables.List")

// VariableListRequest asks for the variables whose paths begin with the prefix of the options.
type VariableListRequest struct {
	NodeID   string // "" for an operator
	SecretID string
	structs.QueryOptions
}

// Credentials names the caller, if it is a node.
func (r *VariableListRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// VariableListResponse has the variables by namespace and path.
type VariableListResponse struct {
	Variables []*VariableMetadata
	structs.QueryMeta
}

// VariableGet reads a variable. The error is not-found if it does not exist, and denied for a node that runs
// nothing of its job.
var VariableGet = structs.Read[VariableGetRequest, VariableGetResponse]("Variables.Read")

// VariableGetRequest names the variable.
type VariableGetRequest struct {
	Path     string
	NodeID   string // "" for an operator
	SecretID string
	structs.QueryOptions
}

// Credentials names the caller, if it is a node.
func (r *VariableGetRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// VariableGetResponse has the variable.
type VariableGetResponse struct {
	Variable *OpenVariable
	structs.QueryMeta
}

// The writes of VariableApply.
const (
	VariableSet     = "set"          // replaces the items
	VariableDelete  = "delete"       // deletes the variable, also if it does not exist
	VariableAcquire = "lock-acquire" // takes the lock, and replaces the items if there are some
	VariableRelease = "lock-release" // gives the lock back
)

// ItemsShown says whether the answer to a write may show items that the write did not have.
type ItemsShown struct {
	// Sees reports whether the writer may read a variable; nil: yes. The server that answers sets it. It
	// crosses no wire.
	Sees func(namespace, path string) bool `json:"-" codec:"-"`
}

// Show sets what the answer may show.
func (s *ItemsShown) Show(sees func(namespace, path string) bool) { s.Sees = sees }

// VariableApply writes a variable. A conflict is no error: the answer has the present variable.
var VariableApply = structs.Write[VariableApplyRequest, VariableApplyResponse]("Variables.Apply")

// VariableApplyRequest has the write of a variable.
type VariableApplyRequest struct {
	Op    string
	Path  string
	Items VariableItems
	// CheckIndex is the ModifyIndex that the variable has to have, 0 for one that does not exist. nil: any.
	CheckIndex *uint64
	// Lock has the ID of a holder, or the times of the lock to take.
	Lock *VariableLock
	ItemsShown
	structs.WriteOptions
}

// VariableApplyResponse has the variable as it was written, or the one that was in the way. Both are nil
// after a deletion.
type VariableApplyResponse struct {
	Variable *OpenVariable
	Conflict *OpenVariable
	structs.WriteMeta
}

// VariableRenew keeps the lock of a variable for another TTL. It writes nothing. The error is a conflict if
// the lock has another holder, or none.
var VariableRenew = structs.Write[VariableRenewRequest, VariableRenewResponse]("Variables.RenewLock")

// VariableRenewRequest names the lock.
type VariableRenewRequest struct {
	Path   string
	LockID string
	ItemsShown
	structs.WriteOptions
}

// VariableRenewResponse has the variable, or the one with another lock.
type VariableRenewResponse struct {
	Variable *VariableMetadata
	Conflict *OpenVariable
	structs.WriteMeta
}

// VariableChange is a write of a variable as the log has it.
type VariableChange struct {
	Namespace  string
	Path       string
	Sealed     *structs.Sealed // the items, nil for a write without
	CheckIndex *uint64         // see VariableApplyRequest
	Lock       *VariableLock   // the lock of the writer, or the one to take; nil: none
	Now        int64           // UnixNano
}

// VariableExpiry ends a lock that its holder has not renewed, or the delay after it.
type VariableExpiry struct {
	Namespace string
	Path      string
	LockID    string
	DelayOver bool // the delay is over, which followed the end of the lock
}

// The part of the paths of variables that belongs to jobs.
const variablesOfJobs = "nomad/jobs"

// JobVariablePaths returns the paths of the variables that a task may read: of all jobs, of its job, its
// group and itself. A child of a job reads its parent's.
func JobVariablePaths(job *structs.Job, group, task string) []string {
	return VariablePathsOfTask(cmp.Or(job.ParentID, job.ID), group, task)
}

// VariablePathsOfTask is JobVariablePaths for a job by its ID, which is no child. Without a task the last
// path is the group's.
func VariablePathsOfTask(jobID, group, task string) []string {
	ofJob := variablesOfJobs + "/" + jobID
	ofGroup := ofJob + "/" + group
	paths := []string{variablesOfJobs, ofJob, ofGroup, ofGroup + "/" + task}
	if task == "" {
		return paths[:3]
	}
	return paths
}
