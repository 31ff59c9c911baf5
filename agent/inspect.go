package agent

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/agent/certificate"
	"berth/api"
	"berth/client"
	"berth/internal/agentlog"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/nodecalls"
)

// This file answers the requests of experts about the process: see api.AgentInspector.

// leader stands for the name of the server that leads.
const leader = "leader"

// Place finds the agent of a node or a server.
func (l local) Place(nodeID, serverID string) (api.AgentPlace, error) {
	var here api.AgentPlace
	switch {
	case nodeID != "" && serverID != "":
		return here, structs.Invalidf("node_id and server_id exclude each other: each names an agent")
	case serverID != "":
		return l.placeOfServer(serverID)
	}

	here.Here = true
	if l.server != nil {
		here.AgentID = l.server.Member().Name
	}
	if l.client != nil {
		here.AgentID = l.client.NodeID()
	}
	if nodeID != "" && (l.client == nil || nodeID != l.client.NodeID()) {
		return api.AgentPlace{AgentID: nodeID, NodeID: nodeID}, nil
	}
	return here, nil
}

// placeOfServer finds a server by its name, with or without the region, by its ID, or as the leader.
func (l local) placeOfServer(id string) (api.AgentPlace, error) {
	if l.server == nil {
		return api.AgentPlace{}, noServer("other servers")
	}
	if id == leader {
		addr, _, known, _ := l.server.Leader()
		if !known {
			return api.AgentPlace{}, structs.Unavailablef("there is no leader")
		}
		id = addr
	}

	own := l.server.Member()
	for _, m := range l.server.Members() {
		if !slices.Contains(namesOf(m), id) {
			continue
		}
		return api.AgentPlace{
			AgentID:  m.Name,
			Here:     m.Name == own.Name,
			Server:   m.Name,
			HTTPAddr: m.Tags["http_addr"],
		}, nil
	}
	return api.AgentPlace{}, structs.NotFoundf("server %q is not known; berth server members lists them",
		structs.Cut(id, structs.MaxQuoted))
}

// namesOf returns the names by which a request may name a server: its name, with and without its region, its
// ID and its RPC address. Package server sets the tags.
func namesOf(m *cluster.AgentMember) []string {
	return []string{m.Name, strings.TrimSuffix(m.Name, "."+m.Tags["region"]), m.Tags["id"], m.Tags["rpc_addr"]}
}

// Tap follows the log of the agent.
func (l local) Tap(o agentlog.TapOptions) (*agentlog.Tap, error) {
	return agentlog.OpenTap(l.logger, o)
}

// OwnLogFiles returns the log file and its renamed predecessors.
func (l local) OwnLogFiles(since time.Time) ([]string, error) {
	path := l.config().LogFile
	if path == "" {
		return nil, structs.Preconditionf("the log of this agent is on its standard error alone; " +
			"set log_file in its configuration, or follow the log with berth monitor")
	}
	return agentlog.Files(path, since)
}

// NodeMeta changes and returns the metadata of the agent's node.
func (l local) NodeMeta(nodeID string, changes map[string]*string) (*nodecalls.NodeMeta, error) {
	err := l.checkNode(nodeID)
	if err != nil {
		return nil, err
	}
	return client.Meta(l.client, changes)
}

// Identity describes the certificate of the agent of a node, and renews it first if it has to.
func (l local) Identity(ctx context.Context, nodeID string, renew bool) (*api.NodeIdentity, error) {
	err := l.checkNode(nodeID)
	if err != nil {
		return nil, err
	}
	o := certificate.Order{NodeID: l.client.NodeID(), Renews: l.config().TLS.Renew, Renew: renew}
	return renewerOf(l.Agent).Identity(ctx, o)
}

// Host describes the machine.
func (l local) Host(ctx context.Context) (*api.HostFacts, error) { return readHost(ctx) }

// Debug reports whether callers without tokens may look into the process.
func (l local) Debug() bool { return l.config().EnableDebug }
