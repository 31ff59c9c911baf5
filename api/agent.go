package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"

	"berth/structs"
)

var (
	agentSelf    = route[*AgentSelf](get, "/v1/agent/self", serveSelf)
	agentMembers = route[*ServerMembers](get, "/v1/agent/members", serveMembers)
	agentHealth  = route[*AgentHealth](get, "/v1/agent/health", serveHealth)
	// The dialect does not have this route.
	agentLeave      = route[struct{}](put, "/v1/agent/leave", serveLeave)
	agentForceLeave = route[struct{}](put, "/v1/agent/force-leave", serveForceLeave)
	statusLeader    = route[string](get, "/v1/status/leader",
		read(structs.StatusLeader, nil, func(a *structs.StatusLeaderResponse) any { return a.Leader }))
	statusPeers = route[[]string](get, "/v1/status/peers",
		read(structs.StatusPeers, nil, func(a *structs.StatusPeersResponse) any { return a.Peers }))
	_                 = handle(get, "/v1/agent/servers", statusPeers.serve)
	_                 = handle(get, "/v1/regions", regions)
	_                 = handle(get, "/v1/namespaces", namespaces)
	_                 = handle(get, "/v1/namespace/{id}", namespaceGet)
	raftConfiguration = route[raftAnswer](get, "/v1/operator/raft/configuration",
		read(structs.OperatorRaft, nil, func(a *structs.RaftConfigurationResponse) any {
			return raftAnswer{Servers: a.Servers, Index: a.Index}
		}))
	raftRemovePeer = route[structs.Empty](remove, "/v1/operator/raft/peer",
		write(structs.OperatorRemove, func(c *call, r *structs.RaftRemovePeerRequest) error {
			r.ID, r.Address = c.param("id"), c.param("address")
			return nil
		}, done))
	snapshotSave    = route[[]byte](get, "/v1/operator/snapshot", serveSnapshot, streams)
	snapshotRestore = route[struct{}](put, "/v1/operator/snapshot", serveRestore, streams)
	systemGC        = route[structs.Empty](put, "/v1/system/gc", write(structs.SystemGC, nil, done))
)

// raftAnswer is the Raft configuration in the dialect's shape.
type raftAnswer struct {
	Servers []*structs.RaftServer
	Index   uint64
}

func serveSelf(c *call) (any, error) { return c.h.Agent.Self(), nil }

// ServerMembers are the servers as one agent sees them.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*structs.AgentMember
}

func serveMembers(c *call) (any, error) {
	members, err := c.h.Agent.Members(c.ctx())
	if err != nil {
		return nil, err
	}
	answer := ServerMembers{Members: members}
	if me := c.h.Agent.Self().Member; me != nil {
		answer.ServerName, answer.ServerRegion, answer.ServerDC = me.Name, me.Tags["region"], me.Tags["dc"]
	}
	return answer, nil
}

func serveLeave(c *call) (any, error) {
	force, err := c.flag("force")
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.h.Agent.Leave(c.ctx(), force)
}

func serveForceLeave(c *call) (any, error) {
	prune, err := c.flag("prune")
	if err != nil {
		return nil, err
	}
	if c.param("node") == "" {
		return nil, badParam("node", "", "the name of a server")
	}
	return struct{}{}, c.h.Agent.ForceLeave(c.ctx(), c.param("node"), prune)
}

// serveHealth answers with 500 when a half asked for is not well; ?type names one half.
func serveHealth(c *call) (any, error) {
	health := *c.h.Agent.Health()
	switch t := c.param("type"); t {
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
	c.renderStatus(status, health)
	return nil, nil
}

func regions(c *call) (any, error) {
	members, err := c.h.Agent.Members(c.ctx())
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range members {
		if r := m.Tags["region"]; r != "" && !slices.Contains(names, r) {
			names = append(names, r)
		}
	}
	if names == nil {
		names = []string{structs.DefaultRegion}
	}
	slices.Sort(names)
	return names, nil
}

// namespace is the dialect's; berth has the default one only.
type namespace struct {
	Name        string
	Description string
	structs.Indexes
}

var defaultNamespace = namespace{
	Name: structs.DefaultNamespace, Description: "The only namespace",
	Indexes: structs.Indexes{CreateIndex: 1, ModifyIndex: 1},
}

func namespaces(c *call) (any, error) {
	c.setIndex(1)
	return []namespace{defaultNamespace}, nil
}

func namespaceGet(c *call) (any, error) {
	if c.id() != structs.DefaultNamespace {
		return nil, structs.Errorf(structs.KindNotFound, "no namespace %q", c.id())
	}
	c.setIndex(1)
	return defaultNamespace, nil
}

// serveSnapshot spools the archive to a file first, because the dialect has its digest in a header and
// because a failure can then still be told.
func serveSnapshot(c *call) (any, error) {
	spool, err := os.CreateTemp("", "berth-snapshot-*")
	if err != nil {
		return nil, fmt.Errorf("spooling the snapshot: %w", err)
	}
	defer func() { _ = spool.Close() }()
	if err := os.Remove(spool.Name()); err != nil {
		return nil, fmt.Errorf("spooling the snapshot: %w", err)
	}
	sum := sha256.New()
	if err := c.h.Agent.SnapshotSave(c.ctx(), io.MultiWriter(spool, sum)); err != nil {
		return nil, err
	}
	size, err := spool.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("spooling the snapshot: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/gzip")
	h.Set("Content-Length", fmt.Sprint(size))
	h.Set("Digest", "sha-256="+base64.StdEncoding.EncodeToString(sum.Sum(nil)))
	c.began = true
	_, err = io.Copy(c.w, spool)
	return nil, err
}

func serveRestore(c *call) (any, error) {
	if err := c.h.Agent.SnapshotRestore(c.ctx(), c.r.Body); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}

// AgentSelf is what the agent says of itself.
func (c *Client) AgentSelf(ctx context.Context) (*AgentSelf, error) {
	self, _, err := agentSelf.fetch(ctx, c, "", nil)
	return self, err
}

// AgentMembers are the servers as the agent sees them.
func (c *Client) AgentMembers(ctx context.Context) (*ServerMembers, error) {
	members, _, err := agentMembers.fetch(ctx, c, "", nil)
	return members, err
}

// AgentHealth is the agent's health; one that is not well is an error.
func (c *Client) AgentHealth(ctx context.Context) (*AgentHealth, error) {
	health, _, err := agentHealth.fetch(ctx, c, "", nil)
	return health, err
}

// StatusLeader is the RPC address of the leader, "" while there is none.
func (c *Client) StatusLeader(ctx context.Context) (string, error) {
	leader, _, err := statusLeader.fetch(ctx, c, "", nil)
	return leader, err
}

// StatusPeers are the RPC addresses of the servers.
func (c *Client) StatusPeers(ctx context.Context) ([]string, error) {
	peers, _, err := statusPeers.fetch(ctx, c, "", nil)
	return peers, err
}

// RaftConfiguration is the Raft configuration.
func (c *Client) RaftConfiguration(ctx context.Context, q *Query) ([]*structs.RaftServer, error) {
	answer, _, err := raftConfiguration.fetch(ctx, c, "", q)
	return answer.Servers, err
}

// RaftRemovePeer takes the vote of a server away that is not alive. The server is named by its ID or, where
// that is empty, by its address.
func (c *Client) RaftRemovePeer(ctx context.Context, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	return raftRemovePeer.exec(ctx, c, request{query: params})
}

// AgentLeave has the agent's server leave the cluster, and then the agent end.
func (c *Client) AgentLeave(ctx context.Context, force bool) error {
	params := url.Values{"force": {strconv.FormatBool(force)}}
	return agentLeave.exec(ctx, c, request{query: params})
}

// AgentForceLeave has a server that has failed count as one that has left; prune forgets it at once.
func (c *Client) AgentForceLeave(ctx context.Context, node string, prune bool) error {
	params := url.Values{"node": {node}, "prune": {strconv.FormatBool(prune)}}
	return agentForceLeave.exec(ctx, c, request{query: params})
}

// SystemGC collects what is of no more use.
func (c *Client) SystemGC(ctx context.Context) error {
	return systemGC.exec(ctx, c, request{})
}

// SnapshotSave writes an archive of the whole state to w, checked against the agent's digest: after an
// error what w has is of no use.
func (c *Client) SnapshotSave(ctx context.Context, w io.Writer) error {
	resp, err := snapshotSave.open(ctx, c, request{})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), resp.Body); err != nil {
		return structs.Errorf(structs.KindUnavailable, "the snapshot broke off: %w", err)
	}
	if want := resp.Header.Get("Digest"); want != "sha-256="+base64.StdEncoding.EncodeToString(sum.Sum(nil)) {
		return structs.Errorf(structs.KindUnavailable, "the snapshot was damaged on its way: its digest is not %q",
			want)
	}
	return nil
}

// SnapshotRestore replaces the cluster's whole state by what an archive holds.
func (c *Client) SnapshotRestore(ctx context.Context, r io.Reader) error {
	return snapshotRestore.exec(ctx, c, request{body: r})
}
