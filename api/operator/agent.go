// Package operator has the routes of operators, each with the call of the client. Those of the cluster are
// namespaces, Raft, autopilot, the scheduler, keys, certificates, joins, clocks, archives and search. Those
// of one agent are its state, its metrics, the lines and files of its log, its machine, the profiles of its
// process, and the metadata and the identity of its node. Such a request names the agent by the ID of its
// node or the name of its server; any agent passes it on.
package operator

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"berth/api"
	"berth/internal/keyring"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

var agentSelf = api.NewEndpoint[*api.AgentSelf](&table, api.Get, "/v1/agent/self",
	serveSelf, api.Needs(access.NeedsAgentRead))

func serveSelf(c *api.Call) (any, error) {
	server := c.Param("server_id")
	if server == "" {
		return c.Agent.Self(), nil
	}

	place, err := c.Agent.Place("", server)
	if err != nil {
		return nil, err
	}
	if !place.Here {
		return nil, api.ForwardToServer(c, place.Server, place.HTTPAddr)
	}
	return c.Agent.Self(), nil
}

// AgentSelfOf returns the description of the agent of a server, by its name or ID, or "leader".
func AgentSelfOf(ctx context.Context, c *api.Client, server string) (*api.AgentSelf, error) {
	return agentSelf.Send(ctx, c, api.Request{Query: url.Values{"server_id": {server}}})
}

// ReadAgent returns the agent's description of itself.
func ReadAgent(ctx context.Context, c *api.Client) (*api.AgentSelf, error) {
	return agentSelf.Send(ctx, c, api.Request{})
}

var agentMembers = api.NewEndpoint[*ServerMembers](&table, api.Get, "/v1/agent/members", serveMembers,
	api.Needs(access.NeedsNodeRead))

// ServerMembers has the servers that one agent knows.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*cluster.AgentMember
}

func serveMembers(c *api.Call) (any, error) {
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

// ListMembers returns the servers that the agent knows.
func ListMembers(ctx context.Context, c *api.Client) (*ServerMembers, error) {
	return agentMembers.Send(ctx, c, api.Request{})
}

var agentHealth = api.NewEndpoint[*api.AgentHealth](&table, api.Get, "/v1/agent/health",
	serveHealth, api.Needs(access.NeedsNothing))

// serveHealth answers with status 500 if a requested half is unhealthy. ?type names one half.
func serveHealth(c *api.Call) (any, error) {
	health := *c.Agent.Health()
	switch t := c.Param("type"); t {
	case "":
	case "client":
		health.Server = nil
	case "server":
		health.Client = nil
	default:
		return nil, api.BadParam("type", t, "client or server")
	}

	status := http.StatusOK
	for _, half := range []*api.HalfHealth{health.Client, health.Server} {
		if half != nil && !half.OK {
			status = http.StatusInternalServerError
		}
	}

	c.Render(status, health)
	return nil, nil
}

// ReadHealth returns the health of the agent. It returns an error if the agent is unhealthy.
func ReadHealth(ctx context.Context, c *api.Client) (*api.AgentHealth, error) {
	return agentHealth.Send(ctx, c, api.Request{})
}

// The dialect does not have this route.
var agentLeave = api.NewEndpoint[struct{}](&table, api.Put, "/v1/agent/leave",
	serveLeave, api.Needs(access.NeedsAgentWrite))

func serveLeave(c *api.Call) (any, error) {
	force, err := c.Flag("force")
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.Agent.Leave(c.Ctx(), force)
}

// Leave removes the agent's server from the cluster and then stops the agent.
func Leave(ctx context.Context, c *api.Client, force bool) error {
	params := url.Values{"force": {strconv.FormatBool(force)}}
	return agentLeave.Exec(ctx, c, api.Request{Query: params})
}

var agentForceLeave = api.NewEndpoint[struct{}](&table, api.Put, "/v1/agent/force-leave", serveForceLeave,
	api.Needs(access.NeedsAgentWrite))

func serveForceLeave(c *api.Call) (any, error) {
	prune, err := c.Flag("prune")
	if err != nil {
		return nil, err
	}
	node := c.Param("node")
	if node == "" {
		return nil, api.BadParam("node", "", "the name of a server")
	}
	return struct{}{}, c.Agent.ForceLeave(c.Ctx(), node, prune)
}

// ForceLeave marks a failed server as one that has left. prune removes it at once.
func ForceLeave(ctx context.Context, c *api.Client, node string, prune bool) error {
	params := url.Values{
		"node":  {node},
		"prune": {strconv.FormatBool(prune)},
	}
	return agentForceLeave.Exec(ctx, c, api.Request{Query: params})
}

var agentJoin = api.NewEndpoint[AgentJoin](&table, api.Put, "/v1/agent/join",
	serveJoin, api.Needs(access.NeedsAgentWrite))

// AgentJoin is the outcome of joining servers.
type AgentJoin struct {
	NumJoined int    `json:"num_joined"`
	Error     string `json:"error"` // "" if an address answered
}

// serveJoin answers with status 200 if no server could be joined, and with the reason, as the dialect does.
func serveJoin(c *api.Call) (any, error) {
	joined, err := c.Agent.Join(c.Ctx(), c.Params()["address"])
	answer := AgentJoin{NumJoined: joined}
	if structs.IsKind(err, structs.KindUnavailable) {
		answer.Error = err.Error()
		err = nil
	}
	return answer, err
}

// Join makes the agent's server join the gossip of the servers at some addresses, and returns the number
// of addresses that answered.
func Join(ctx context.Context, c *api.Client, addrs []string) (int, error) {
	answer, err := agentJoin.Send(ctx, c, api.Request{Query: url.Values{"address": addrs}})
	if err == nil && answer.Error != "" {
		err = structs.Unavailablef("%s", answer.Error)
	}
	return answer.NumJoined, err
}

var agentReload = api.NewEndpoint[struct{}](&table, api.Put, "/v1/agent/reload",
	serveReload, api.Needs(access.NeedsAgentWrite))

func serveReload(c *api.Call) (any, error) {
	return struct{}{}, c.Agent.Reload()
}

// Reload makes the agent read its configuration again and apply the live settings.
func Reload(ctx context.Context, c *api.Client) error {
	return agentReload.Exec(ctx, c, api.Request{})
}

var statusLeader = api.NewEndpoint(&table, api.Get, "/v1/status/leader",
	api.ServeMethod(cluster.StatusLeader, nil,
		func(a *cluster.StatusLeaderResponse) string {
			return a.Leader
		}))

// Leader returns the RPC address of the leader, or "" if there is none.
func Leader(ctx context.Context, c *api.Client) (string, error) {
	return statusLeader.Send(ctx, c, api.Request{})
}

var statusPeers = api.NewEndpoint(&table, api.Get, "/v1/status/peers",
	api.ServeMethod(cluster.StatusPeers, nil,
		func(a *cluster.StatusPeersResponse) []string {
			return a.Peers
		}))

// Peers returns the RPC addresses of the servers.
func Peers(ctx context.Context, c *api.Client) ([]string, error) {
	return statusPeers.Send(ctx, c, api.Request{})
}

var _ = statusPeers.At(api.Get, "/v1/agent/servers")

var _ = table.Handle(api.Get, "/v1/regions", serveRegions, api.Needs(access.NeedsNothing))

func serveRegions(c *api.Call) (any, error) {
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

var raftConfiguration = api.NewEndpoint(&table, api.Get, "/v1/operator/raft/configuration",
	api.ServeMethod(cluster.OperatorRaft, nil,
		func(a *cluster.RaftConfigurationResponse) raftAnswer {
			return raftAnswer{Servers: a.Servers, Index: a.Index}
		}))

// raftAnswer is the Raft configuration in the dialect's shape.
type raftAnswer struct {
	Servers []*cluster.RaftServer
	Index   uint64
}

// RaftConfiguration returns the servers of the Raft configuration.
func RaftConfiguration(ctx context.Context, c *api.Client, q *api.Query) (
	[]*cluster.RaftServer, error,
) {
	answer, _, err := raftConfiguration.Fetch(ctx, c, "", q)
	return answer.Servers, err
}

var raftRemovePeer = api.NewEndpoint(&table, api.Remove, "/v1/operator/raft/peer",
	api.ServeMethod(cluster.OperatorRemove, bindRemovePeer, api.Whole))

func bindRemovePeer(c *api.Call, req *cluster.RaftRemovePeerRequest) error {
	req.ID = c.Param("id")
	req.Address = c.Param("address")
	return nil
}

// RemovePeer removes a failed server from the Raft configuration. It uses the address if the ID is "".
func RemovePeer(ctx context.Context, c *api.Client, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	return raftRemovePeer.Exec(ctx, c, api.Request{Query: params})
}

var raftTransfer = api.NewEndpoint(&table, api.Put, "/v1/operator/raft/transfer-leadership",
	api.ServeMethod(cluster.OperatorTransfer, bindTransfer, api.Whole))

func bindTransfer(c *api.Call, req *cluster.RaftTransferRequest) error {
	req.ID = c.Param("id")
	req.Address = c.Param("address")
	return nil
}

// TransferLeadership makes another server lead. It uses the address if the ID is "".
func TransferLeadership(ctx context.Context, c *api.Client, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	return raftTransfer.Exec(ctx, c, api.Request{Query: params})
}

var snapshotSave = api.NewEndpoint[[]byte](&table, api.Get, "/v1/operator/snapshot",
	serveSnapshot, api.Streams, api.Needs(access.NeedsManagement))

// allowArchives returns an error if the caller may not save or restore the state: see Config.CheckArchives.
func allowArchives(c *api.Call) error {
	if c.CheckArchives == nil {
		return nil
	}
	return c.CheckArchives(c.Request)
}

// serveSnapshot first spools the archive. The dialect has the digest in a header, and an error can then still
// become the answer.
func serveSnapshot(c *api.Call) (any, error) {
	err := allowArchives(c)
	if err != nil {
		return nil, err
	}
	save := func(w io.Writer) error { return c.Agent.SnapshotSave(c.Ctx(), c.Token(), w) }
	spool, err := api.SpoolArchive(save)
	if err != nil {
		return nil, err
	}
	defer spool.Close()

	h := c.Writer.Header()
	h.Set("Content-Type", "application/gzip")
	h.Set("Content-Length", fmt.Sprint(spool.Size))
	h.Set("Digest", spool.Digest)
	c.Began = true
	_, err = spool.WriteTo(c.Writer)
	return nil, err
}

// SaveSnapshot writes an archive of the whole state to w and verifies the agent's digest. The content of w is
// useless after an error.
func SaveSnapshot(ctx context.Context, c *api.Client, w io.Writer) error {
	resp, err := snapshotSave.Open(ctx, c, api.Request{})
	if err != nil {
		return err
	}
	defer api.CloseBody(resp)
	return api.ReceiveArchive(w, resp.Body, resp.Header.Get("Digest"))
}

var snapshotRestore = api.NewEndpoint[struct{}](&table, api.Put, "/v1/operator/snapshot",
	serveRestore, api.Streams, api.Needs(access.NeedsManagement))

func serveRestore(c *api.Call) (any, error) {
	err := allowArchives(c)
	if err != nil {
		return nil, err
	}
	keys := keyring.RestoreKeysOf(c.Request.Header)
	return struct{}{}, c.Agent.SnapshotRestore(c.Ctx(), c.Token(), c.Request.Body, keys)
}

// RestoreSnapshot replaces the whole state of the cluster by the state in an archive.
func RestoreSnapshot(ctx context.Context, c *api.Client, r io.Reader, keys keyring.RestoreKeys) error {
	header := http.Header{}
	keys.SetHeader(header)
	return snapshotRestore.Exec(ctx, c, api.Request{Body: r, Header: header})
}

var systemGC = api.NewEndpoint(&table, api.Put, "/v1/system/gc",
	api.ServeMethod(cluster.SystemGC, nil, api.Whole))

// GC deletes the ended rows that nothing needs, however young they are.
func GC(ctx context.Context, c *api.Client) error {
	return systemGC.Exec(ctx, c, api.Request{})
}

// The summary of a job is computed from its allocations when it is read, so this changes nothing.
var _ = table.Handle(api.Put, "/v1/system/reconcile/summaries",
	func(*api.Call) (any, error) { return struct{}{}, nil }, api.Needs(access.NeedsManagement))
