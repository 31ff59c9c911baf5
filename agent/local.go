package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"berth/api"
	"berth/client/drivers/driver"
	"berth/internal/keyring"
	"berth/internal/opsocket"
	"berth/internal/version"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/jobaction"
	"berth/structs/nodecalls"
)

// This file answers the requests of the HTTP API that concern this process and not the cluster. A request for
// an allocation or a node of another agent gets not-found here, and the API forwards it.

// local implements api.Agent for the HTTP API of the agent.
type local struct{ *Agent }

// Self describes the configuration and the state of the agent without secrets.
func (l local) Self() *api.AgentSelf {
	c := l.config()
	self := &api.AgentSelf{
		Config: c.shown(),
		Stats: map[string]map[string]string{
			"berth": {
				"server":  strconv.FormatBool(l.server != nil),
				"client":  strconv.FormatBool(l.client != nil),
				"version": version.Version,
			},
		},
	}

	if l.server != nil {
		self.Stats["raft"] = l.server.Stats()
		self.Stats["nomad"] = l.serverStats()
		self.Stats["snapshot_agent"] = l.server.Backup.Stats()
		self.Member = l.server.Member()
	}

	if l.client != nil {
		self.Stats["client"] = l.clientStats()
	}

	if l.keys != nil {
		self.Stats["tls"] = map[string]string{
			"mode":     string(c.TLS.Mode),
			"identity": l.keys.Identity().String(),
			"expires":  l.keys.Expires().Format(time.RFC3339),
			"serial":   l.keys.Serial(),
		}
	}

	return self
}

// shown returns the settings by their names in the dialect, without secrets.
func (c *Config) shown() map[string]any {
	return map[string]any{
		"Region":     c.Region,
		"Datacenter": c.Datacenter,
		"NodeName":   c.Name,
		"DataDir":    c.DataDir,
		"BindAddr":   c.BindAddr,
		"LogLevel":   c.LogLevel,
		"DevMode":    c.Dev,
		"Version":    map[string]string{"Version": version.Version},
		"Server": map[string]any{
			"Enabled":         c.Server.Enabled,
			"BootstrapExpect": c.Server.BootstrapExpect,
		},
		"Client": map[string]any{
			"Enabled":   c.Client.Enabled,
			"NodePool":  c.Client.NodePool,
			"NodeClass": c.Client.NodeClass,
		},
		// It has secrets of its own, which are shown as redacted.
		"Consul": c.Consul.Redact(),
		"Vaults": []map[string]any{c.Vault.Redact()},
		"Ports": map[string]int{
			"HTTP": c.Ports.HTTP,
			"RPC":  c.Ports.RPC,
			"Serf": c.Ports.Serf,
		},
	}
}

// serverStats returns the section by which the tools of the dialect know a server.
func (l local) serverStats() map[string]string {
	addr, leads, _, _ := l.server.Leader()
	return map[string]string{
		"server":      "true",
		"leader":      strconv.FormatBool(leads),
		"leader_addr": addr,
	}
}

// clientStats returns the section by which the tools of the dialect know a node.
func (l local) clientStats() map[string]string {
	servers := l.client.Servers()
	ttl, age := l.client.Lease()
	return map[string]string{
		"node_id":        l.client.NodeID(),
		"allocations":    strconv.Itoa(len(l.client.Allocs())),
		"servers":        fmt.Sprint(servers),
		"known_servers":  strconv.Itoa(len(servers)),
		"heartbeat_ttl":  ttl.String(),
		"last_heartbeat": age.String(),
	}
}

// noServer is the error of a request that needs a server.
func noServer(noun string) error {
	return structs.Preconditionf("this agent runs no server; use the HTTP API of a server for %s", noun)
}

// Members lists the servers that gossip knows.
func (l local) Members(context.Context) ([]*cluster.AgentMember, error) {
	if l.server == nil {
		return nil, noServer("the members")
	}
	return l.server.Members(), nil
}

// Leave removes the server from the cluster and then ends the agent.
func (l local) Leave(ctx context.Context, force bool) error {
	if l.server == nil {
		return noServer("leaving")
	}
	return l.leave(ctx, force)
}

// ForceLeave marks a failed server as one that has left.
func (l local) ForceLeave(ctx context.Context, node string, prune bool) error {
	if l.server == nil {
		return noServer("removing servers")
	}
	return l.server.ForceLeave(ctx, node, prune)
}

// Join makes the server join the gossip of other servers.
func (l local) Join(ctx context.Context, addrs []string) (int, error) {
	if l.server == nil {
		return 0, noServer("joining servers")
	}
	return l.server.Join(ctx, addrs)
}

// GossipKeyring shows or changes the keys of the servers' gossip. It decides who may speak to the servers.
func (l local) GossipKeyring(
	ctx context.Context, op cluster.GossipKeyOperation, key string,
) (*cluster.GossipKeyrings, error) {
	if l.server == nil {
		return nil, noServer("the keys of the gossip")
	}

	socket := l.config().OperatorSocket

	// The keys would let a caller join the gossip as a server. A certificate of an operator does not suffice.
	if !opsocket.Marked(ctx) {
		return nil, &structs.Error{
			Kind: structs.KindDenied,
			Text: "the keys of the gossip are shown and changed only over the operator socket of a server, " +
				"which root alone may open: it is unix://" + socket + " on server " + l.config().Name,
			Socket: socket,
		}
	}

	return l.server.GossipKeys.Do(op, key)
}

// Reload reads the configuration again and applies its live settings.
func (l local) Reload() error { return l.reread() }

// Health returns the health of the server and the node. A server is healthy if it knows a leader and its
// disk has space for the log. A node is healthy if it has reached the servers and its disk has space.
func (l local) Health() *api.AgentHealth {
	h := &api.AgentHealth{}
	if l.server != nil {
		_, _, known, _ := l.server.Leader()
		h.Server = &api.HalfHealth{OK: known, Message: "ok"}
		if !known {
			h.Server.Message = "no leader is known"
		}
		if err := l.server.Waits(); err != nil {
			h.Server = &api.HalfHealth{Message: "the server waits for space: " + err.Error()}
		}
	}

	if l.client != nil {
		h.Client = &api.HalfHealth{OK: true, Message: "ok"}
		select {
		case <-l.client.ServersContacted():
		default:
			h.Client = &api.HalfHealth{Message: "the servers have not been reached yet"}
		}
		if lack := l.client.Lack(); lack != "" {
			h.Client = &api.HalfHealth{Message: lack}
		}
	}

	return h
}

// Metrics returns the metrics of the process.
func (l local) Metrics() api.Metrics { return l.metrics }

// HostStats measures the machine of this agent's node.
func (l local) HostStats(ctx context.Context, nodeID string) (*nodecalls.HostStats, error) {
	err := l.checkNode(nodeID)
	if err != nil {
		return nil, err
	}
	return l.client.HostStats(ctx)
}

// checkNode returns not-found if this agent does not run the node with the ID, or, with "", no node.
func (l local) checkNode(nodeID string) error {
	if l.client == nil {
		return structs.NotFoundf("this agent runs no node; name one: ?node_id=ID")
	}
	own := l.client.NodeID()
	if nodeID != "" && nodeID != own {
		return structs.NotFoundf("node %s is not this agent's node %s", nodeID, own)
	}
	return nil
}

// AllocStats measures the tasks of an allocation on this agent's node.
func (l local) AllocStats(ctx context.Context, allocID, task string) (*nodecalls.AllocResourceUsage, error) {
	if l.client == nil {
		return nil, notOnAgent(allocID)
	}
	return l.client.AllocStats(ctx, allocID, task)
}

// AllocChecks returns the results of an allocation's checks on this agent's node.
func (l local) AllocChecks(allocID string) (map[string]*structs.CheckResult, error) {
	if l.client == nil {
		return nil, notOnAgent(allocID)
	}
	return l.client.AllocChecks(allocID)
}

// AllocExec finds a running task of an allocation on this agent's node.
func (l local) AllocExec(at jobaction.Target) (api.ExecFunc, error) {
	if l.client == nil {
		return nil, notOnAgent(at.AllocID)
	}

	run, err := l.client.Exec(at)
	if err != nil {
		return nil, err
	}

	// The task is found before the answer begins, so that a wrong name is an error of HTTP and not of the
	// stream.
	return func(ctx context.Context, x *api.Exec) (int, error) {
		result, err := run(ctx, (*driver.ExecConfig)(x))
		if err != nil {
			return 0, err
		}

		return exitCode(result)
	}, nil
}

// AllocRestart restarts tasks of an allocation on this agent's node.
func (l local) AllocRestart(allocID string, req api.AllocRestartRequest) error {
	if l.client == nil {
		return notOnAgent(allocID)
	}
	return l.client.RestartAlloc(allocID, req.TaskName, req.AllTasks)
}

// AllocSignal sends a signal to tasks of an allocation on this agent's node.
func (l local) AllocSignal(ctx context.Context, allocID string, req api.AllocSignalRequest) error {
	if l.client == nil {
		return notOnAgent(allocID)
	}
	return l.client.SignalAlloc(ctx, allocID, req.Task, req.Signal)
}

// AllocGC removes what is left of an ended allocation on this agent's node.
func (l local) AllocGC(ctx context.Context, allocID string) error {
	if l.client == nil {
		return notOnAgent(allocID)
	}
	return l.client.CollectAlloc(ctx, allocID)
}

// NodeGC removes what is left of the ended allocations on this agent's node.
func (l local) NodeGC(ctx context.Context, nodeID string) (int, error) {
	err := l.checkNode(nodeID)
	if err != nil {
		return 0, err
	}
	return l.client.CollectEnded(ctx), nil
}

// notOnAgent has the kind not-found. The HTTP API then forwards the request to the agent that has the
// allocation.
func notOnAgent(allocID string) error {
	return structs.NotFoundf("allocation %s is not on this agent", allocID)
}

// signalBase is the exit code of a command that signal 0 would end, as shells have it.
const signalBase = 128

// exitCode returns the code that a shell would report.
func exitCode(r *driver.ExitResult) (int, error) {
	switch {
	case r.Err != "":
		return 0, structs.Internalf("the exit code of the command is unknown: %s", r.Err)
	case r.Signal > 0 && r.ExitCode == 0:
		return signalBase + r.Signal, nil
	}
	return r.ExitCode, nil
}

// LogFiles returns the directory of a task's logs on this agent's node.
func (l local) LogFiles(allocID, task, kind string) (api.Dir, error) {
	if l.client == nil {
		return api.Dir{}, notOnAgent(allocID)
	}
	dir, ended, err := l.client.LogFiles(allocID, task, kind)
	return api.Dir{Path: dir, Ended: ended}, err
}

// AllocDir returns the directory of an allocation on this agent's node.
func (l local) AllocDir(allocID string) (api.Dir, error) {
	if l.client == nil {
		return api.Dir{}, notOnAgent(allocID)
	}
	dir, ended, err := l.client.AllocDir(allocID)
	return api.Dir{Path: dir, Ended: ended}, err
}

// SnapshotSave writes an archive of the leader's state. A follower reads it from the leader.
func (l local) SnapshotSave(ctx context.Context, token string, w io.Writer) error {
	if l.server == nil {
		return noServer("a snapshot")
	}
	if _, leads, _, _ := l.server.Leader(); leads {
		return l.server.SnapshotSave(ctx, w)
	}
	return l.forwardSnapshot(ctx, forwarded{method: http.MethodGet, token: token}, w)
}

// SnapshotRestore replaces the whole state. A follower forwards the archive to the leader.
func (l local) SnapshotRestore(
	ctx context.Context, token string, r io.Reader, keys keyring.RestoreKeys,
) error {
	if l.server == nil {
		return noServer("a restore")
	}
	if _, leads, _, _ := l.server.Leader(); leads {
		return l.server.SnapshotRestore(ctx, r, keys)
	}
	restore := forwarded{
		method: http.MethodPut,
		token:  token,
		body:   r,
		keys:   keys,
	}
	return l.forwardSnapshot(ctx, restore, io.Discard)
}
