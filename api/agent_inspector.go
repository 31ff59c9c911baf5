package api

import (
	"context"
	"net/http"
	"time"

	"berth/internal/agentlog"
	"berth/structs/nodecalls"
)

// This file has what an agent tells of its process and its machine to experts: the lines of its log, and
// facts about the host.

// AgentInspector has the methods of the process for those routes.
type AgentInspector interface {
	// Place finds the agent that a request names by the ID of its node, or by the name or ID of its server,
	// or by "leader". Without both it is this one. The error is not-found for a server that is not known, a
	// failed precondition if this agent knows no servers, and invalid with both.
	Place(nodeID, serverID string) (AgentPlace, error)
	// Tap follows the log of the agent. The caller closes the tap.
	Tap(o agentlog.TapOptions) (*agentlog.Tap, error)
	// OwnLogFiles returns the paths of the log file and of its renamed predecessors that have changed since a
	// time, the oldest first. The error is a failed precondition without a log file.
	OwnLogFiles(since time.Time) ([]string, error)
	// NodeMeta makes changes of the metadata of the agent's node, if there are any, and returns all of it.
	// nodeID is "" or the ID of a node. The error is not-found if the agent does not run that node, and invalid
	// for wrong changes.
	NodeMeta(nodeID string, changes map[string]*string) (*nodecalls.NodeMeta, error)
	// Identity returns the certificate of the agent of a node, with renew after its renewal. nodeID is "" or
	// the ID of a node. The error is not-found if the agent does not run that node, and a failed precondition
	// without a certificate, or without its renewal by the servers.
	Identity(ctx context.Context, nodeID string, renew bool) (*NodeIdentity, error)
	// Host describes the machine without secrets.
	Host(ctx context.Context) (*HostFacts, error)
	// Debug reports whether the configuration opens profiles and the host to callers without tokens
	// (enable_debug).
	Debug() bool
}

// AgentPlace is the agent that answers a request.
type AgentPlace struct {
	AgentID string // of the node, or else of the server
	Here    bool   // it is the agent that was asked
	NodeID  string // the agent of a node, which is found by its row
	// Server is the name of a server, and HTTPAddr host:port of its HTTP API, if it is another agent.
	Server   string
	HTTPAddr string
}

// HostFacts is a machine, in the shape of the dialect. Environment has the names of the variables of the
// agent; their values may be secrets, and are not shown.
type HostFacts struct {
	OS          string // of uname
	Network     []map[string]string
	ResolvConf  string
	Hosts       string
	Environment map[string]string
	Disk        map[string]DiskUsage // by mount point
}

// DiskUsage is the use of a file system, in MiB.
type DiskUsage struct {
	DiskMB int64
	UsedMB int64
}

// HostAnswer is the answer of the route of the host.
type HostAnswer struct {
	AgentID  string
	HostData *HostFacts `json:",omitempty"`
}

// NodeIdentity is the certificate by which the agent of a node proves its identity, in the shape of the
// dialect, where a signed token does this.
type NodeIdentity struct {
	Claims IdentityClaims
}

// IdentityClaims has the facts of the certificate under the names of the dialect, where it has them. Times
// are in seconds since 1970.
type IdentityClaims struct {
	Subject   string   `json:"sub"` // spiffe://REGION/node/ID; of an agent that is a server too, the server's
	Issuer    string   `json:"iss"`
	Serial    string   `json:"jti"` // in hexadecimal
	NotBefore int64    `json:"nbf"`
	Expires   int64    `json:"exp"`
	NodeID    string   `json:"node_id"`
	Names     []string `json:"names"` // DNS names and addresses
	// RenewAt is the time from which the agent renews the certificate, 0 if it does not.
	RenewAt int64 `json:"renew_at,omitempty"`
	// RenewalFault is the error of the last renewal, "" if it has not failed.
	RenewalFault string `json:"renewal_fault,omitempty"`
}

// Metrics are the metrics of one process (see internal/telemetry).
type Metrics interface {
	// Summary returns the newest finished interval for JSON.
	Summary() (any, error)
	// Prometheus serves all series as text. It is nil if the agent's configuration does not enable it.
	Prometheus() http.Handler
}

// AllocRestartRequest names the tasks of an allocation to restart: the one with the name, all with AllTasks,
// else the running ones. The dialect defines the keys.
type AllocRestartRequest struct {
	TaskName string
	AllTasks bool // also the ended ones, in the order of their lifecycles
}

// AllocSignalRequest names a signal and a task, "" for all that run. The dialect defines the keys.
type AllocSignalRequest struct {
	Task   string
	Signal string // for example SIGHUP or HUP
}

// Dir is a directory of an allocation on the node of an agent.
type Dir struct {
	Path string
	// Ended is closed when the tasks that write in it have ended. It may be nil.
	Ended <-chan struct{}
}
