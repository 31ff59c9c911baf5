// Package apitest has fakes of the servers and the agent behind the HTTP API, for tests of the API and of its
// callers.
package apitest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/api"
	"berth/internal/agentlog"
	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// Recorded is one recorded call.
type Recorded struct {
	Method  string
	Request any
}

// Caller answers remote procedures from functions and records the calls. A method without a function is
// unavailable. Access control is off without one: then the caller answers ACL.Check, and does not record it.
type Caller struct {
	mu    sync.Mutex
	funcs map[string]func(ctx context.Context, req any) (any, error)
	calls []Recorded
}

// On sets the function of a method.
func On[Req, Resp any](
	c *Caller, m structs.Method[Req, Resp], f func(ctx context.Context, req *Req) (*Resp, error),
) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.funcs == nil {
		c.funcs = map[string]func(context.Context, any) (any, error){}
	}
	c.funcs[m.Name] = func(ctx context.Context, req any) (any, error) {
		return f(ctx, req.(*Req))
	}
}

// Answer sets the response of a method.
func Answer[Req, Resp any](c *Caller, m structs.Method[Req, Resp], resp Resp) {
	On(c, m, func(context.Context, *Req) (*Resp, error) {
		return &resp, nil
	})
}

// Fail sets the error of a method.
func Fail[Req, Resp any](c *Caller, m structs.Method[Req, Resp], err error) {
	On(c, m, func(context.Context, *Req) (*Resp, error) {
		return nil, err
	})
}

// Call answers a call.
func (c *Caller) Call(ctx context.Context, method string, req, resp any) error {
	c.mu.Lock()
	f := c.funcs[method]
	open, off := resp.(*access.CheckResponse)
	off = off && f == nil
	if !off {
		c.calls = append(c.calls, Recorded{method, req})
	}
	c.mu.Unlock()
	if off {
		open.Open = true
		return nil
	}
	if f == nil {
		return structs.Unavailablef("nothing answers %s here", method)
	}
	answer, err := f(ctx, req)
	if err != nil {
		return err
	}
	reflect.ValueOf(resp).Elem().Set(reflect.ValueOf(answer).Elem())
	return nil
}

// Take returns the calls since the last Take.
func (c *Caller) Take() []Recorded {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := c.calls
	c.calls = nil
	return calls
}

// Agent is an agent whose methods return its fields.
type Agent struct {
	SelfIs    *api.AgentSelf
	MembersAs []*cluster.AgentMember
	HealthIs  *api.AgentHealth
	// StatsAre is the result of HostStats for the node with the ID Node.
	StatsAre *nodecalls.HostStats
	// ChecksAre has the results of AllocChecks by the ID of the allocation.
	ChecksAre map[string]map[string]*structs.CheckResult
	// UsageIs has the results of AllocStats by the ID of the allocation.
	UsageIs    map[string]*nodecalls.AllocResourceUsage
	Node       string
	MetricsAre api.Metrics
	Logs       func(allocID, task, kind string) (string, error)
	LogsEnd    <-chan struct{} // the end of the task with Logs
	Files      func(allocID string) (api.Dir, error)
	Exec       func(allocID, task string) (api.ExecFunc, error)
	Action     func(jobaction.Target) (api.ExecFunc, error)
	Snapshot   []byte
	// Control, if not nil, gets every restart, signal and removal of an allocation, for example "restart a1
	// web", "restart all a1", "signal a1 web HUP", "gc a1" or "gc node n1".
	Control func(act string) error

	// Logger is followed by Tap, and OwnLogs are the paths of OwnLogFiles. Servers are the places of other
	// servers, by the names of requests. IsDebug is the result of Debug.
	Logger  hclog.Logger
	OwnLogs []string
	Servers map[string]api.AgentPlace
	IsDebug bool

	// GossipKeys and GossipDenied: see GossipKeyring.
	GossipKeys   []string
	GossipDenied string

	mu          sync.Mutex
	restored    []byte
	restoreKeys keyring.RestoreKeys
	leaves      []string
	reloads     int
}

// Metrics has fixed metrics.
type Metrics struct {
	JSON any
	Text string // for Prometheus; "" if it is not enabled
}

// Summary returns JSON.
func (m Metrics) Summary() (any, error) {
	return m.JSON, nil
}

// Prometheus serves Text.
func (m Metrics) Prometheus() http.Handler {
	if m.Text == "" {
		return nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, m.Text)
	})
}

// Self returns SelfIs.
func (a *Agent) Self() *api.AgentSelf {
	return a.SelfIs
}

// Members returns MembersAs.
func (a *Agent) Members(context.Context) ([]*cluster.AgentMember, error) {
	return a.MembersAs, nil
}

// Metrics returns MetricsAre.
func (a *Agent) Metrics() api.Metrics {
	return a.MetricsAre
}

// Leave records the call.
func (a *Agent) Leave(_ context.Context, force bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaves = append(a.leaves, fmt.Sprint("leave ", force))
	return nil
}

// ForceLeave records the call. It returns not-found for a server that is not in MembersAs.
func (a *Agent) ForceLeave(_ context.Context, node string, prune bool) error {
	known := slices.ContainsFunc(a.MembersAs, func(m *cluster.AgentMember) bool {
		return m.Name == node
	})
	if !known {
		return structs.NotFoundf("server %q is unknown", node)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.leaves = append(a.leaves, fmt.Sprint("force-leave ", node, " ", prune))
	return nil
}

// Leaves returns the calls of Leave and ForceLeave.
func (a *Agent) Leaves() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.leaves)
}

// Join joins the addresses of members in MembersAs. It is unavailable if none is one.
func (a *Agent) Join(_ context.Context, addrs []string) (joined int, err error) {
	for _, addr := range addrs {
		known := slices.ContainsFunc(a.MembersAs, func(m *cluster.AgentMember) bool {
			return m.Addr == addr
		})
		if known {
			joined++
		}
	}
	if joined == 0 {
		return 0, structs.Unavailablef("no server answers at %q", addrs)
	}
	return joined, nil
}

// Reload counts the calls.
func (a *Agent) Reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reloads++
	return nil
}

// Reloads returns the number of calls of Reload.
func (a *Agent) Reloads() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reloads
}

// Health returns HealthIs.
func (a *Agent) Health() *api.AgentHealth {
	return a.HealthIs
}

// SnapshotSave writes Snapshot. It is unavailable without one.
func (a *Agent) SnapshotSave(_ context.Context, _ string, w io.Writer) error {
	if a.Snapshot == nil {
		return structs.Unavailablef("there is no leader")
	}
	_, err := w.Write(a.Snapshot)
	return err
}

// SnapshotRestore records the archive and the keys.
func (a *Agent) SnapshotRestore(_ context.Context, _ string, r io.Reader, keys keyring.RestoreKeys) error {
	b, err := io.ReadAll(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.restored = b
	a.restoreKeys = keys
	return err
}

// Restored returns the archive of the last SnapshotRestore.
func (a *Agent) Restored() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restored
}

// RestoreKeys returns the keys of the last SnapshotRestore.
func (a *Agent) RestoreKeys() keyring.RestoreKeys {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.restoreKeys
}

// HostStats returns StatsAre for the node Node.
func (a *Agent) HostStats(_ context.Context, nodeID string) (*nodecalls.HostStats, error) {
	if a.StatsAre == nil || nodeID != "" && nodeID != a.Node {
		return nil, structs.NotFoundf("node %s is not this agent's", nodeID)
	}
	return a.StatsAre, nil
}

// NodeGC calls Control for the node Node.
func (a *Agent) NodeGC(_ context.Context, nodeID string) (int, error) {
	if a.Control == nil || nodeID != "" && nodeID != a.Node {
		return 0, structs.NotFoundf("node %s is not this agent's", nodeID)
	}
	return 1, a.Control("gc node " + a.Node)
}

// AllocStats returns UsageIs for the allocation with its ID. Only the tasks in it run.
func (a *Agent) AllocStats(_ context.Context, allocID, task string) (*nodecalls.AllocResourceUsage, error) {
	usage := a.UsageIs[allocID]
	switch {
	case usage == nil:
		return nil, structs.NotFoundf("allocation %s is not here", allocID)
	case task != "" && usage.Tasks[task] == nil:
		return nil, structs.Preconditionf("task %q does not run", task)
	}
	return usage, nil
}

// AllocChecks returns ChecksAre for the allocation with its ID.
func (a *Agent) AllocChecks(allocID string) (map[string]*structs.CheckResult, error) {
	checks := a.ChecksAre[allocID]
	if checks == nil {
		return nil, structs.NotFoundf("allocation %s is not here", allocID)
	}
	return checks, nil
}

// AllocExec calls Exec, or Action for an action.
func (a *Agent) AllocExec(at jobaction.Target) (api.ExecFunc, error) {
	switch {
	case at.Action != "" && a.Action != nil:
		return a.Action(at)
	case at.Action != "" || a.Exec == nil:
		return nil, structs.NotFoundf("allocation %s is not here", at.AllocID)
	}
	return a.Exec(at.AllocID, at.Task)
}

// AllocRestart calls Control.
func (a *Agent) AllocRestart(allocID string, req api.AllocRestartRequest) error {
	if req.AllTasks {
		return a.control(allocID, "restart all", allocID)
	}
	return a.control(allocID, "restart", allocID, req.TaskName)
}

// AllocSignal calls Control.
func (a *Agent) AllocSignal(_ context.Context, allocID string, req api.AllocSignalRequest) error {
	return a.control(allocID, "signal", allocID, req.Task, req.Signal)
}

// AllocGC calls Control.
func (a *Agent) AllocGC(_ context.Context, allocID string) error {
	return a.control(allocID, "gc", allocID)
}

func (a *Agent) control(allocID string, words ...string) error {
	if a.Control == nil {
		return structs.NotFoundf("allocation %s is not here", allocID)
	}
	return a.Control(strings.Join(words, " "))
}

// Place finds Node and Servers.
func (a *Agent) Place(nodeID, serverID string) (api.AgentPlace, error) {
	p, known := a.Servers[serverID]
	switch {
	case known:
		return p, nil
	case serverID != "":
		return p, structs.NotFoundf("server %q is unknown", serverID)
	}
	return api.AgentPlace{AgentID: a.Node, Here: nodeID == "" || nodeID == a.Node, NodeID: nodeID}, nil
}

// Tap follows Logger.
func (a *Agent) Tap(o agentlog.TapOptions) (*agentlog.Tap, error) {
	return agentlog.OpenTap(a.Logger, o)
}

// NodeMeta answers with the changes for the node with the ID Node.
func (a *Agent) NodeMeta(nodeID string, changes map[string]*string) (*nodecalls.NodeMeta, error) {
	if nodeID != "" && nodeID != a.Node {
		return nil, structs.NotFoundf("node %s is not this agent's node %s", nodeID, a.Node)
	}
	meta := &nodecalls.NodeMeta{Dynamic: changes, Static: map[string]string{"rack": "r1"}}
	meta.Meta = maps.Clone(meta.Static)
	for key, value := range changes {
		delete(meta.Meta, key)
		if value != nil {
			meta.Meta[key] = *value
		}
	}
	return meta, nil
}

// Identity answers for the node with the ID Node. A renewal gives the certificate another serial number.
func (a *Agent) Identity(_ context.Context, nodeID string, renew bool) (*api.NodeIdentity, error) {
	if nodeID != "" && nodeID != a.Node {
		return nil, structs.NotFoundf("node %s is not this agent's node %s", nodeID, a.Node)
	}
	claims := api.IdentityClaims{
		Subject: "spiffe://global/node/" + a.Node, Issuer: "CN=berth CA a", Serial: "5f0a90aa",
		NotBefore: 1_000, Expires: 2_000, NodeID: a.Node, Names: []string{"node.global.berth"}, RenewAt: 1_500,
	}
	if renew {
		claims.Serial = "5f0a90ab"
	}
	return &api.NodeIdentity{Claims: claims}, nil
}

// OwnLogFiles returns OwnLogs.
func (a *Agent) OwnLogFiles(time.Time) ([]string, error) { return a.OwnLogs, nil }

// Host returns a machine with a name alone.
func (a *Agent) Host(context.Context) (*api.HostFacts, error) {
	return &api.HostFacts{OS: "Linux"}, nil
}

// Debug returns IsDebug.
func (a *Agent) Debug() bool { return a.IsDebug }

// LogFiles calls Logs.
func (a *Agent) LogFiles(allocID, task, kind string) (api.Dir, error) {
	if a.Logs == nil {
		return api.Dir{}, structs.NotFoundf("allocation %s is not here", allocID)
	}
	path, err := a.Logs(allocID, task, kind)
	return api.Dir{Path: path, Ended: a.LogsEnd}, err
}

// AllocDir calls Files.
func (a *Agent) AllocDir(allocID string) (api.Dir, error) {
	if a.Files == nil {
		return api.Dir{}, structs.NotFoundf("allocation %s is not here", allocID)
	}
	return a.Files(allocID)
}
