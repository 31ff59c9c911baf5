package access

import "berth/structs"

// MaxIdentityTTL is the longest life of a token. The servers cut a longer one of a job. A node renews a token
// at half of its life.
const MaxIdentityTTL = structs.MaxIdentityTTL

// MaxSignedIdentities is the most identities that one request asks for.
const MaxSignedIdentities = 256

// The kinds of workloads with identities.
const (
	IdentityOfTask    = "task"
	IdentityOfService = "service"
	// IdentityOfVolume is for the driver of a volume that the allocation uses. The workload is the ID of the
	// plugin, and the name of the identity is an audience that the job of the plugin asks for. The token
	// names the allocation and none of its tasks.
	IdentityOfVolume = "volume"
)

// IdentitySign signs identities of allocations of the calling node. Each item has its own outcome: a token,
// or the reason for which there is none. The leader alone signs, because the rows of another server may not
// have the end of an allocation yet. The error is unavailable while there is no signing key.
var IdentitySign = structs.Read[SignRequest, SignResponse]("Alloc.SignIdentities")

// SignRequest asks for at most MaxSignedIdentities identities.
type SignRequest struct {
	Identities []WantedIdentity
	NodeID     string
	SecretID   string
	structs.QueryOptions
}

// Credentials names the node and its secret.
func (r *SignRequest) Credentials() (nodeID, secretID string) { return r.NodeID, r.SecretID }

// WantedIdentity names an identity of an allocation.
type WantedIdentity struct {
	AllocID  string
	Kind     string // of the workload: one of the Kind constants
	Workload string // the name of the task or of the service, or the ID of the plugin
	Name     string // of the identity, for example structs.DefaultIdentity
}

// SignResponse has the outcome of each item, in the order of the request.
type SignResponse struct {
	Signed []SignedIdentity
	structs.QueryMeta
}

// SignedIdentity is an identity with its token, or with the reason for which the servers give none.
type SignedIdentity struct {
	WantedIdentity
	JWT        structs.Secret `codec:"JWT"`
	Expiration int64          // the end of the token in UnixNano, 0 for one that ends with its allocation
	Rejection  string         // "" for a signed one
}
