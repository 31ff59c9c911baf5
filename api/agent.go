package api

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"

	"berth/structs"
)

var (
	statusLeader = read(structs.StatusLeader, nil, func(a *structs.StatusLeaderResponse) any { return a.Leader })
	statusPeers  = read(structs.StatusPeers, nil, func(a *structs.StatusPeersResponse) any { return a.Peers })
	systemGC     = write(structs.SystemGC, nil, done)

	raftRemovePeer = write(structs.OperatorRemove, func(c *call, r *structs.RaftRemovePeerRequest) error {
		r.ID, r.Address = c.param("id"), c.param("address")
		return nil
	}, done)

	raftConfiguration = read(structs.OperatorRaft, nil, func(a *structs.RaftConfigurationResponse) any {
		return raftAnswer{Servers: a.Servers, Index: a.Index}
	})
)

// raftAnswer is the Raft configuration in the dialect's shape.
type raftAnswer struct {
	Servers []*structs.RaftServer
	Index   uint64
}

func agentSelf(c *call) (any, error) { return c.h.Agent.Self(), nil }

// ServerMembers are the servers as one agent sees them.
type ServerMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*structs.AgentMember
}

func agentMembers(c *call) (any, error) {
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

func agentLeave(c *call) (any, error) {
	force, err := c.flag("force")
	if err != nil {
		return nil, err
	}
	return struct{}{}, c.h.Agent.Leave(c.ctx(), force)
}

func agentForceLeave(c *call) (any, error) {
	prune, err := c.flag("prune")
	if err != nil {
		return nil, err
	}
	if c.param("node") == "" {
		return nil, badParam("node", "", "the name of a server")
	}
	return struct{}{}, c.h.Agent.ForceLeave(c.ctx(), c.param("node"), prune)
}

// agentHealth answers with 500 when a half asked for is not well; ?type names one half.
func agentHealth(c *call) (any, error) {
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

// snapshotSave spools the archive to a file first, because the dialect has its digest in a header and
// because a failure can then still be told.
func snapshotSave(c *call) (any, error) {
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

func snapshotRestore(c *call) (any, error) {
	if err := c.h.Agent.SnapshotRestore(c.ctx(), c.r.Body); err != nil {
		return nil, err
	}
	return struct{}{}, nil
}
