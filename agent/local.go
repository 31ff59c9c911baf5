package agent

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"berth/api"
	"berth/internal/netfault"
	"berth/internal/version"
	"berth/structs"
)

// local is the agent as its HTTP API sees it (api.Agent).
type local struct{ a *Agent }

// Self describes the agent: what it runs and how it goes. No secret is in it.
func (l local) Self() *api.AgentSelf {
	c := l.a.cfg
	self := &api.AgentSelf{
		Config: map[string]any{
			"Region":     c.Region,
			"Datacenter": c.Datacenter,
			"NodeName":   c.Name,
			"DataDir":    c.DataDir,
			"BindAddr":   c.BindAddr,
			"LogLevel":   c.LogLevel,
			"DevMode":    c.Dev,
			"Version":    map[string]string{"Version": version.Version},
			"Server":     map[string]any{"Enabled": c.Server.Enabled, "BootstrapExpect": c.Server.BootstrapExpect},
			"Client": map[string]any{
				"Enabled":   c.Client.Enabled,
				"NodePool":  c.Client.NodePool,
				"NodeClass": c.Client.NodeClass,
			},
			"Ports": map[string]int{"HTTP": c.Ports.HTTP, "RPC": c.Ports.RPC, "Serf": c.Ports.Serf},
		},
		Stats: map[string]map[string]string{
			"berth": {"server": strconv.FormatBool(l.a.server != nil), "client": strconv.FormatBool(l.a.client != nil),
				"version": version.Version},
		},
	}
	if l.a.server != nil {
		self.Stats["raft"] = l.a.server.Stats()
		self.Member = l.a.server.Member()
	}
	if l.a.client != nil {
		self.Stats["client"] = map[string]string{
			"node_id": l.a.client.NodeID(), "allocations": strconv.Itoa(len(l.a.client.Allocs())),
			"servers": fmt.Sprint(l.a.client.Servers()),
		}
	}
	return self
}

// noServer is the answer of an agent without a server to what only servers know.
func noServer(what string) error {
	return structs.Errorf(structs.KindPrecondition,
		"this agent runs no server; ask the HTTP API of a server for %s", what)
}

// Members lists the servers as the gossip sees them.
func (l local) Members(context.Context) ([]*structs.AgentMember, error) {
	if l.a.server == nil {
		return nil, noServer("the members")
	}
	return l.a.server.Members(), nil
}

// Leave has the server leave the cluster and then the agent end.
func (l local) Leave(ctx context.Context, force bool) error {
	if l.a.server == nil {
		return noServer("leaving")
	}
	return l.a.leave(ctx, force)
}

// ForceLeave has a server that has failed count as one that has left.
func (l local) ForceLeave(ctx context.Context, node string, prune bool) error {
	if l.a.server == nil {
		return noServer("removing servers")
	}
	return l.a.server.ForceLeave(ctx, node, prune)
}

// Health says whether the agent's halves work: a server that knows a leader, a node that has reached the
// servers.
func (l local) Health() *api.AgentHealth {
	h := &api.AgentHealth{}
	if l.a.server != nil {
		_, _, known, _ := l.a.server.Leader()
		h.Server = &api.HalfHealth{OK: known, Message: "ok"}
		if !known {
			h.Server.Message = "no leader is known"
		}
	}
	if l.a.client != nil {
		h.Client = &api.HalfHealth{OK: true, Message: "ok"}
		select {
		case <-l.a.client.ServersContacted():
		default:
			h.Client = &api.HalfHealth{Message: "the servers have not been reached yet"}
		}
	}
	return h
}

// Metrics are those of the process.
func (l local) Metrics() api.Metrics { return l.a.metrics }

// HostStats measures the machine of this agent's node.
func (l local) HostStats(ctx context.Context, nodeID string) (*structs.HostStats, error) {
	if l.a.client == nil {
		return nil, structs.Errorf(structs.KindNotFound, "this agent runs no node; name one: ?node_id=ID")
	}
	if own := l.a.client.NodeID(); nodeID != "" && nodeID != own {
		return nil, structs.Errorf(structs.KindNotFound, "node %s is not this agent's, which is %s", nodeID,
			own)
	}
	return l.a.client.HostStats(ctx)
}

// LogFiles finds a task's logs on this agent's node.
func (l local) LogFiles(allocID, task, kind string) (string, error) {
	if l.a.client == nil {
		return "", structs.Errorf(structs.KindNotFound, "allocation %s is not on this agent", allocID)
	}
	return l.a.client.LogFiles(allocID, task, kind)
}

// SnapshotSave writes an archive of the leader's state, asking the leader for it if need be.
func (l local) SnapshotSave(ctx context.Context, w io.Writer) error {
	if l.a.server == nil {
		return noServer("a snapshot")
	}
	if _, leads, _, _ := l.a.server.Leader(); leads {
		return l.a.server.SnapshotSave(ctx, w)
	}
	return l.atLeader(ctx, http.MethodGet, nil, w)
}

// SnapshotRestore replaces the whole state, at the leader.
func (l local) SnapshotRestore(ctx context.Context, r io.Reader) error {
	if l.a.server == nil {
		return noServer("a restore")
	}
	if _, leads, _, _ := l.a.server.Leader(); leads {
		return l.a.server.SnapshotRestore(ctx, r)
	}
	return l.atLeader(ctx, http.MethodPut, r, io.Discard)
}

// atLeader passes a snapshot request on to the leader's HTTP API.
func (l local) atLeader(ctx context.Context, method string, body io.Reader, w io.Writer) error {
	addr := l.a.server.LeaderHTTP()
	if addr == "" {
		return structs.Errorf(structs.KindUnavailable, "no leader is known; try again")
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/v1/operator/snapshot", body)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return structs.Errorf(structs.KindUnavailable, "asking the leader at %s: %w", addr,
			netfault.Plain(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return structs.Errorf(structs.KindFromHTTP(resp.StatusCode), "the leader at %s: %s", addr, text)
	}
	_, err = io.Copy(w, resp.Body)
	return err
}
