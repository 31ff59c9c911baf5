package access

import "berth/structs"

// Needs names what a caller of an agent needs for a route that the agent serves itself. The servers decide.
type Needs string

// What the routes of an agent need. Those with an allocation ask for a capability in its namespace.
const (
	NeedsAgentRead     Needs = "agent: read"
	NeedsAgentWrite    Needs = "agent: write"
	NeedsNodeRead      Needs = "node: read"
	NeedsNodeWrite     Needs = "node: write"
	NeedsOperatorRead  Needs = "operator: read"
	NeedsOperatorWrite Needs = "operator: write"
	NeedsManagement    Needs = "a management token"
	NeedsParseJob      Needs = "namespace: parse-job"
	NeedsReadJob       Needs = "namespace: read-job"
	NeedsReadFS        Needs = "namespace: read-fs"
	NeedsReadLogs      Needs = "namespace: read-logs"
	NeedsAllocExec     Needs = "namespace: alloc-exec"
	NeedsLifecycle     Needs = "namespace: alloc-lifecycle"
	// NeedsNothing is for routes that tell no secret, or whose methods have a check of their own.
	NeedsNothing Needs = "no token"
)

// Check returns an error of kind denied unless the caller has what a route of an agent needs.
var Check = structs.Read[CheckRequest, CheckResponse]("ACL.Check")

// Changes reports whether a route with the right changes something, gives a shell, or shows all secrets of
// the cluster: the audit log has its requests.
func (n Needs) Changes() bool {
	switch n {
	case NeedsAgentWrite, NeedsNodeWrite, NeedsOperatorWrite, NeedsManagement, NeedsAllocExec, NeedsLifecycle:
		return true
	}
	return false
}

// Caller is the sender of a request, by the token that it has given. It is empty without one.
type Caller struct {
	AccessorID string
	Name       string
	Type       string
	Identity   *Identity // instead of the others, if a workload has the token
}

// Identity names the workload of a signed token: a task or a service of an allocation.
type Identity struct {
	AllocID   string
	Namespace string
	JobID     string // the parent of a job of a series
	Group     string // "" after the allocation was deleted
	Task      string
	Service   string
}

// CheckResponse says that the caller may.
type CheckResponse struct {
	// Open says that the server lets every request pass, so that the caller cannot lose the right.
	Open   bool
	Caller Caller
	structs.QueryMeta
}

// CheckRequest names what the caller needs, and the allocation that the route is about, "" for none: then a
// capability has to be in the namespace of the request.
type CheckRequest struct {
	Needs   Needs
	AllocID string
	Task    string // of the allocation, in which a command runs; else ""
	structs.QueryOptions
}
