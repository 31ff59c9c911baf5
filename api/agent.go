package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

var agentSelf = NewEndpoint[*AgentSelf](Get, "/v1/agent/self", serveSelf, Needs(access.NeedsAgentRead))

func serveSelf(c *Call) (any, error) {
	server := c.Param("server_id")
	if server == "" {
		return c.Agent.Self(), nil
	}

	place, err := c.Agent.Place("", server)
	if err != nil {
		return nil, err
	}
	if !place.Here {
		return nil, ForwardToServer(c, place.Server, place.HTTPAddr)
	}
	return c.Agent.Self(), nil
}

// AgentSelfOf returns the description of the agent of a server, by its name or ID, or "leader".
func AgentSelfOf(ctx context.Context, c *Client, server string) (*AgentSelf, error) {
	return agentSelf.Send(ctx, c, Request{Query: url.Values{"server_id": {server}}})
}

// AgentSelf returns the agent's description of itself.
func (c *Client) AgentSelf(ctx context.Context) (*AgentSelf, error) {
	return agentSelf.Send(ctx, c, Request{})
}

var agentMembers = NewEndpoint[*ServerMembers](Get, "/v1/agent/members", serveMembers,
	Needs(access.NeedsNodeRead))

// ServerMembers has the servers that one agent knows.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*cluster.AgentMember
}

func serveMembers(c *Call) (any, error) {
	members, err := c.Agent.Members(c.Ctx())
	if err != nil {
		return nil, err
	}
	answer := ServerMembers{Members: members}
	me := c.Agent.Self().Member
	if me != nil {
		answer.ServerName = me.Name
		answer.ServerRegion = me.Tags["region"]
		answer.ServerDC = me.Tags["dc"]
	}
	return answer, nil
}

// AgentMembers returns the servers that the agent knows.
func (c *Client) AgentMembers(ctx context.Context) (*ServerMembers, error) {
	return agentMembers.Send(ctx, c, Request{})
}

var agentHealth = NewEndpoint[*AgentHealth](Get, "/v1/agent/health", serveHealth, Needs(access.NeedsNothing))

// serveHealth answers with status 500 if a requested half is unhealthy. ?type names one half.
func serveHealth(c *Call) (any, error) {
	health := *c.Agent.Health()
	switch t := c.Param("type"); t {
	case "":
	case "client":
		health.Server = nil
	case "server":
		health.Client = nil
	default:
		return nil, badParam("type", t, "client or server")
	}

	status := http.StatusOK
	for _, half := range []*HalfHealth{health.Client, health.Server} {
		if half != nil && !half.OK {
			status = http.StatusInternalServerError
		}
	}

	c.render(status, health)
	return nil, nil
}

// AgentHealth returns the health of the agent. It returns an error if the agent is unhealthy.
func (c *Client) AgentHealth(ctx context.Context) (*AgentHealth, error) {
	return agentHealth.Send(ctx, c, Request{})
}

// The dialect does not have this route.
var agentLeave = NewEndpoint[struct{}](Put, "/v1/agent/leave", serveLeave, Needs(access.NeedsAgentWrite))

func serveLeave(c *Call) (any, error) {
	force, err := c.Flag("force")
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Agent.Leave(c.Ctx(), force)
}

// AgentLeave removes the agent's server from the cluster and then stops the agent.
func (c *Client) AgentLeave(ctx context.Context, force bool) error {
	params := url.Values{"force": {strconv.FormatBool(force)}}
	return agentLeave.route.exec(ctx, c, Request{Query: params})
}

var agentForceLeave = NewEndpoint[struct{}](Put, "/v1/agent/force-leave", serveForceLeave,
	Needs(access.NeedsAgentWrite))

func serveForceLeave(c *Call) (any, error) {
	prune, err := c.Flag("prune")
	if err != nil {
		return nil, err
	}
	node := c.Param("node")
	if node == "" {
		return nil, badParam("node", "", "the name of a server")
	}
	return struct{}{}, c.Agent.ForceLeave(c.Ctx(), node, prune)
}

// AgentForceLeave marks a failed server as one that has left. prune removes it at once.
func (c *Client) AgentForceLeave(ctx context.Context, node string, prune bool) error {
	params := url.Values{
		"node":  {node},
		"prune": {strconv.FormatBool(prune)},
	}
	return agentForceLeave.route.exec(ctx, c, Request{Query: params})
}

var agentJoin = NewEndpoint[AgentJoin](Put, "/v1/agent/join", serveJoin, Needs(access.NeedsAgentWrite))

// AgentJoin is the outcome of joining servers.
type AgentJoin struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"` // "" if an address answered
}

// serveJoin answers with status 200 if no server could be joined, and with the reason, as the dialect does.
func serveJoin(c *Call) (any, error) {
	joined, err := c.Agent.Join(c.Ctx(), c.Params()["address"])
	answer := AgentJoin{NumJoined: joined}
	if structs.IsKind(err, structs.KindUnavailable) {
		answer.Error = err.Error()
		err = nil
	}
	return answer, err
}

// AgentJoin makes the agent's server join the gossip of the servers at some addresses, and returns the number
// of addresses that answered.
func (c *Client) AgentJoin(ctx context.Context, addrs []string) (int, error) {
	answer, err := agentJoin.Send(ctx, c, Request{Query: url.Values{"address": addrs}})
	if err == nil && answer.Error != "" {
		err = structs.Unavailablef("%s", answer.Error)
	}
	return answer.NumJoined, err
}

var agentReload = NewEndpoint[struct{}](Put, "/v1/agent/reload", serveReload, Needs(access.NeedsAgentWrite))

func serveReload(c *Call) (any, error) {
	return struct{}{}, c.Agent.Reload()
}

// AgentReload makes the agent read its configuration again and apply the live settings.
func (c *Client) AgentReload(ctx context.Context) error {
	return agentReload.route.exec(ctx, c, Request{})
}

var statusLeader = NewEndpoint(Get, "/v1/status/leader",
	ServeMethod(cluster.StatusLeader, nil,
		func(a *cluster.StatusLeaderResponse) string {
			return a.Leader
		}))

// StatusLeader returns the RPC address of the leader, or "" if there is none.
func (c *Client) StatusLeader(ctx context.Context) (string, error) {
	return statusLeader.Send(ctx, c, Request{})
}

var statusPeers = NewEndpoint(Get, "/v1/status/peers",
	ServeMethod(cluster.StatusPeers, nil,
		func(a *cluster.StatusPeersResponse) []string {
			return a.Peers
		}))

// StatusPeers returns the RPC addresses of the servers.
func (c *Client) StatusPeers(ctx context.Context) ([]string, error) {
	return statusPeers.Send(ctx, c, Request{})
}

var _ = Handle(Get, "/v1/agent/servers", statusPeers.route.serve)

var _ = Handle(Get, "/v1/regions", serveRegions, Needs(access.NeedsNothing))

func serveRegions(c *Call) (any, error) {
	members, err := c.Agent.Members(c.Ctx())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range members {
		if r := m.Tags["region"]; r != "" {
			names = append(names, r)
		}
	}
	if names == nil {
		names = []string{structs.DefaultRegion}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

var raftConfiguration = NewEndpoint(Get, "/v1/operator/raft/configuration",
	ServeMethod(cluster.OperatorRaft, nil,
		func(a *cluster.RaftConfigurationResponse) raftAnswer {
			return raftAnswer{Servers: a.Servers, Index: a.Index}
		}))

// raftAnswer is the Raft configuration in the dialect's shape.
type raftAnswer struct {
	Servers []*cluster.RaftServer
	Index   uint64
}

// RaftConfiguration returns the servers of the Raft configuration.
func (c *Client) RaftConfiguration(ctx context.Context, q *Query) (
	[]*cluster.RaftServer, error,
) {
	answer, _, err := raftConfiguration.Fetch(ctx, c, "", q)
	return answer.Servers, err
}

var raftRemovePeer = NewEndpoint(Remove, "/v1/operator/raft/peer",
	ServeMethod(cluster.OperatorRemove, bindRemovePeer, Whole))

func bindRemovePeer(c *Call, req *cluster.RaftRemovePeerRequest) error {
	req.ID = c.Param("id")
	req.Address = c.Param("address")
	return nil
}

// RaftRemovePeer removes a failed server from the Raft configuration. It uses the address if the ID is "".
func (c *Client) RaftRemovePeer(ctx context.Context, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	return raftRemovePeer.route.exec(ctx, c, Request{Query: params})
}

var raftTransfer = NewEndpoint(Put, "/v1/operator/raft/transfer-leadership",
	ServeMethod(cluster.OperatorTransfer, bindTransfer, Whole))

func bindTransfer(c *Call, req *cluster.RaftTransferRequest) error {
	req.ID = c.Param("id")
	req.Address = c.Param("address")
	return nil
}

// RaftTransferLeadership makes another server lead. It uses the address if the ID is "".
func (c *Client) RaftTransferLeadership(ctx context.Context, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	return raftTransfer.route.exec(ctx, c, Request{Query: params})
}

var snapshotSave = NewEndpoint[[]byte](Get, "/v1/operator/snapshot",
	serveSnapshot, Streams, Needs(access.NeedsManagement))

// allowArchives returns an error if the caller may not save or restore the state: see Config.CheckArchives.
func allowArchives(c *Call) error {
	if c.CheckArchives == nil {
		return nil
	}
	return c.CheckArchives(c.r)
}

// serveSnapshot first spools the archive. The dialect has the digest in a header, and an error can then still
// become the answer.
func serveSnapshot(c *Call) (any, error) {
	err := allowArchives(c)
	if err != nil {
		return nil, err
	}
	spool, err := spoolArchive(func(w io.Writer) error { return c.Agent.SnapshotSave(c.Ctx(), c.Token(), w) })
	if err != nil {
		return nil, err
	}
	defer spool.Close()

	h := c.w.Header()
	h.Set("Content-Type", "application/gzip")
	h.Set("Content-Length", fmt.Sprint(spool.Size))
	h.Set("Digest", spool.Digest)
	c.began = true
	_, err = spool.WriteTo(c.w)
	return nil, err
}

// SnapshotSave writes an archive of the whole state to w and verifies the agent's digest. The content of w is
// useless after an error.
func (c *Client) SnapshotSave(ctx context.Context, w io.Writer) error {
	resp, err := snapshotSave.route.open(ctx, c, Request{})
	if err != nil {
		return err
	}
	defer closeBody(resp)
	return receiveArchive(w, resp.Body, resp.Header.Get("Digest"))
}

var snapshotRestore = NewEndpoint[struct{}](Put, "/v1/operator/snapshot",
	serveRestore, Streams, Needs(access.NeedsManagement))

func serveRestore(c *Call) (any, error) {
	err := allowArchives(c)
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Agent.SnapshotRestore(c.Ctx(), c.Token(), c.r.Body, keyring.RestoreKeysOf(c.r.Header))
}

// SnapshotRestore replaces the whole state of the cluster by the state in an archive.
func (c *Client) SnapshotRestore(ctx context.Context, r io.Reader, keys keyring.RestoreKeys) error {
	header := http.Header{}
	keys.SetHeader(header)
	return snapshotRestore.route.exec(ctx, c, Request{Body: r, Header: header})
}

var systemGC = NewEndpoint(Put, "/v1/system/gc",
	ServeMethod(cluster.SystemGC, nil, Whole))

// SystemGC deletes the ended rows that nothing needs, however young they are.
func (c *Client) SystemGC(ctx context.Context) error {
	return systemGC.route.exec(ctx, c, Request{})
}

// The summary of a job is computed from its allocations when it is read, so this changes nothing.
var _ = Handle(Put, "/v1/system/reconcile/summaries",
	func(*Call) (any, error) { return struct{}{}, nil }, Needs(access.NeedsManagement))
