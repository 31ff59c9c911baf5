package access

import (
	"time"

	"berth/structs"
)

// NodeDeriveSIToken makes a token of Consul for each named task of an allocation. The token has the rights of
// the task's service and no others. The servers do not keep its secret. A failed request has left no token.
// The caller repeats it if the kind of the error is not final: there is no leader, or Consul does not answer.
var NodeDeriveSIToken = structs.Write[DeriveSITokenRequest, DeriveSITokenResponse]("Node.DeriveSIToken")

// DeriveSITokenRequest names at most MaxTasks tasks of one allocation of the calling node. Each of them uses
// Connect.
type DeriveSITokenRequest struct {
	NodeID   string
	SecretID string
	AllocID  string
	Tasks    []string
	structs.WriteOptions
}

// Credentials names the calling node.
func (r *DeriveSITokenRequest) Credentials() (nodeID, secretID string) { return r.NodeID, r.SecretID }

// DeriveSITokenResponse has the secret of the token of each requested task.
type DeriveSITokenResponse struct {
	Tokens structs.Secrets // by task
	structs.WriteMeta
}

// SITokenAccessor is the row of a token that the servers make for a task. It names the token without its
// secret. It is older than the token and lasts until the token is revoked. Key: (AllocID, TaskName,
// AccessorID).
type SITokenAccessor struct {
	AllocID    string
	TaskName   string
	AccessorID string
	NodeID     string
	// RevokeTime is the time from which the leader revokes the token, in UnixNano. 0: the task may use it.
	RevokeTime int64
	structs.Indexes
}

// Copy returns a copy.
func (a *SITokenAccessor) Copy() *SITokenAccessor {
	c := *a
	return &c
}

// SITokenAccessors names tokens of one allocation.
type SITokenAccessors struct {
	Accessors []*SITokenAccessor
	ClusterID string `json:",omitempty" codec:",omitempty"` // for a cluster that has none yet
	structs.WriteOptions
}

// SITokenSettle is the time for which Consul may still make a token that the servers have given up. The
// leader revokes it afterwards.
const SITokenSettle = time.Minute

// ClusterMetadata is the only row of its table. The servers make it once.
type ClusterMetadata struct {
	ClusterID  string
	CreateTime int64
	structs.Indexes
}
