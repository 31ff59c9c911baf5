package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"berth/structs"
)

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context, q *Query) ([]*structs.NodeListStub, *structs.QueryMeta, error) {
	return fetch[[]*structs.NodeListStub](ctx, c, q, "nodes")
}

// Node reads one node with its plugin instances.
func (c *Client) Node(ctx context.Context, id string, q *Query) (*structs.NodeDetail, *structs.QueryMeta, error) {
	return fetch[*structs.NodeDetail](ctx, c, q, "node", id)
}

// NodeAllocations lists the allocations on a node.
func (c *Client) NodeAllocations(ctx context.Context, id string, q *Query) ([]*structs.Allocation, *structs.QueryMeta, error) {
	return fetch[[]*structs.Allocation](ctx, c, q, "node", id, "allocations")
}

// NodeEligibility allows or forbids new placements on a node.
func (c *Client) NodeEligibility(ctx context.Context, id string, eligible bool) error {
	body := struct{ NodeID, Eligibility string }{id, structs.NodeIneligible}
	if eligible {
		body.Eligibility = structs.NodeEligible
	}
	_, err := send[structs.NodeEvaluateResponse](ctx, c, http.MethodPut, body, "node", id, "eligibility")
	return err
}

// NodeEvaluate asks for new evaluations of every job on a node.
func (c *Client) NodeEvaluate(ctx context.Context, id string) (*structs.NodeEvaluateResponse, error) {
	return send[*structs.NodeEvaluateResponse](ctx, c, http.MethodPut, nil, "node", id, "evaluate")
}

// NodePurge forgets a node.
func (c *Client) NodePurge(ctx context.Context, id string) error {
	_, err := send[structs.NodeEvaluateResponse](ctx, c, http.MethodPut, nil, "node", id, "purge")
	return err
}

// VolumeFilter narrows a list of volumes to one plugin's, or to those in use on one node.
type VolumeFilter struct {
	PluginID string
	NodeID   string
}

// Volumes lists volumes.
func (c *Client) Volumes(ctx context.Context, f VolumeFilter, q *Query) ([]*structs.CSIVolumeListStub, *structs.QueryMeta, error) {
	params := queryValues(q)
	params.Set("type", "csi")
	for name, value := range map[string]string{"plugin_id": f.PluginID, "node_id": f.NodeID} {
		if value != "" {
			params.Set(name, value)
		}
	}
	return fetchWith[[]*structs.CSIVolumeListStub](ctx, c, params, "volumes")
}

// Volume reads one volume with its claims and attachments.
func (c *Client) Volume(ctx context.Context, id string, q *Query) (*structs.CSIVolumeDetail, *structs.QueryMeta, error) {
	return fetch[*structs.CSIVolumeDetail](ctx, c, q, "volume", "csi", id)
}

// VolumeClaims lists a volume's claims in the order of its line.
func (c *Client) VolumeClaims(ctx context.Context, id string, q *Query) ([]*structs.CSIClaim, *structs.QueryMeta, error) {
	return fetch[[]*structs.CSIClaim](ctx, c, q, "volume", "csi", id, "claims")
}

// VolumeRegister registers a volume that its plugin has already.
func (c *Client) VolumeRegister(ctx context.Context, v *structs.CSIVolume) (*structs.CSIVolume, error) {
	return c.volumePut(ctx, v, "volume", "csi", v.ID)
}

// VolumeCreate has the plugin make a volume, and returns when it has.
func (c *Client) VolumeCreate(ctx context.Context, v *structs.CSIVolume) (*structs.CSIVolume, error) {
	return c.volumePut(ctx, v, "volume", "csi", v.ID, "create")
}

// volumeSent is a volume with its secrets in clear: their own type never shows them in JSON.
type volumeSent struct {
	*structs.CSIVolume
	Secrets map[string]string
}

func (c *Client) volumePut(ctx context.Context, v *structs.CSIVolume, path ...string) (*structs.CSIVolume, error) {
	body := struct{ Volumes []volumeSent }{[]volumeSent{{v, v.Secrets}}}
	answer, err := send[volumesAnswer](ctx, c, http.MethodPut, body, path...)
	if err != nil {
		return nil, err
	}
	if len(answer.Volumes) != 1 {
		return nil, structs.Errorf(structs.KindInternal, "the agent answered with %d volumes, expected one", len(answer.Volumes))
	}
	return answer.Volumes[0], nil
}

// VolumeDeregister forgets a volume without touching it at its plugin.
func (c *Client) VolumeDeregister(ctx context.Context, id string, force bool) error {
	_, err := sendWith[structs.Empty](ctx, c, request{
		method: http.MethodDelete, path: []string{"v1", "volume", "csi", id}, query: url.Values{"force": {strconv.FormatBool(force)}},
	})
	return err
}

// VolumeDelete has the plugin delete a volume, and forgets it.
func (c *Client) VolumeDelete(ctx context.Context, id string, secrets structs.Secrets) error {
	header, err := secretsHeader(secrets)
	if err != nil {
		return err
	}
	_, err = sendWith[structs.Empty](ctx, c, request{
		method: http.MethodDelete, path: []string{"v1", "volume", "csi", id, "delete"}, header: header,
	})
	return err
}

// VolumeDetachOptions say which node is to let go. Force releases the claims although the node cannot be
// asked, or the plugin fails there; By and Reason are recorded.
type VolumeDetachOptions struct {
	NodeID string
	Force  bool
	Reason string
	By     string
}

// VolumeDetach has a node let go of a volume, and returns the proof of it.
func (c *Client) VolumeDetach(ctx context.Context, id string,
	o VolumeDetachOptions) (*structs.CSIVolumeDetachResponse, error) {
	params := url.Values{"node": {o.NodeID}, "force": {strconv.FormatBool(o.Force)}}
	if o.Reason != "" {
		params.Set("reason", o.Reason)
	}
	if o.By != "" {
		params.Set("by", o.By)
	}
	resp, err := sendWith[structs.CSIVolumeDetachResponse](ctx, c, request{
		method: http.MethodDelete, path: []string{"v1", "volume", "csi", id, "detach"}, query: params,
	})
	return &resp, err
}

// VolumeRetry has every failed operation of a volume tried again at once.
func (c *Client) VolumeRetry(ctx context.Context, id string) error {
	_, err := send[structs.Empty](ctx, c, http.MethodPut, nil, "volume", "csi", id, "retry")
	return err
}

// VolumesExternal lists one page of volumes as a plugin knows them.
func (c *Client) VolumesExternal(ctx context.Context, pluginID string, q *Query) (*ExternalVolumes, error) {
	params := queryValues(q)
	params.Set("plugin_id", pluginID)
	answer, _, err := fetchWith[*ExternalVolumes](ctx, c, params, "volumes", "external")
	return answer, err
}

// Plugins lists plugins.
func (c *Client) Plugins(ctx context.Context, q *Query) ([]*structs.CSIPluginListStub, *structs.QueryMeta, error) {
	params := queryValues(q)
	params.Set("type", "csi")
	return fetchWith[[]*structs.CSIPluginListStub](ctx, c, params, "plugins")
}

// Plugin reads one plugin with its instances.
func (c *Client) Plugin(ctx context.Context, id string, q *Query) (*structs.CSIPlugin, *structs.QueryMeta, error) {
	return fetch[*structs.CSIPlugin](ctx, c, q, "plugin", "csi", id)
}

// PluginDelete forgets a plugin that nothing refers to.
func (c *Client) PluginDelete(ctx context.Context, id string) error {
	_, err := send[structs.Empty](ctx, c, http.MethodDelete, nil, "plugin", "csi", id)
	return err
}

// AgentSelf is what the agent says of itself.
func (c *Client) AgentSelf(ctx context.Context) (*AgentSelf, error) {
	self, _, err := fetch[*AgentSelf](ctx, c, nil, "agent", "self")
	return self, err
}

// AgentMembers are the servers as the agent sees them.
func (c *Client) AgentMembers(ctx context.Context) (*ServerMembers, error) {
	members, _, err := fetch[*ServerMembers](ctx, c, nil, "agent", "members")
	return members, err
}

// AgentHealth is the agent's health; one that is not well is an error.
func (c *Client) AgentHealth(ctx context.Context) (*AgentHealth, error) {
	health, _, err := fetch[*AgentHealth](ctx, c, nil, "agent", "health")
	return health, err
}

// StatusLeader is the RPC address of the leader, "" while there is none.
func (c *Client) StatusLeader(ctx context.Context) (string, error) {
	leader, _, err := fetch[string](ctx, c, nil, "status", "leader")
	return leader, err
}

// StatusPeers are the RPC addresses of the servers.
func (c *Client) StatusPeers(ctx context.Context) ([]string, error) {
	peers, _, err := fetch[[]string](ctx, c, nil, "status", "peers")
	return peers, err
}

// RaftConfiguration is the Raft configuration.
func (c *Client) RaftConfiguration(ctx context.Context, q *Query) ([]*structs.RaftServer, error) {
	answer, _, err := fetch[raftAnswer](ctx, c, q, "operator", "raft", "configuration")
	return answer.Servers, err
}

// RaftRemovePeer takes the vote of a server away that is not alive. The server is named by its ID or, where
// that is empty, by its address.
func (c *Client) RaftRemovePeer(ctx context.Context, id, address string) error {
	params := url.Values{"id": {id}, "address": {address}}
	_, err := sendWith[structs.Empty](ctx, c, request{method: http.MethodDelete, query: params,
		path: []string{"v1", "operator", "raft", "peer"}})
	return err
}

// AgentLeave has the agent's server leave the cluster, and then the agent end.
func (c *Client) AgentLeave(ctx context.Context, force bool) error {
	params := url.Values{"force": {strconv.FormatBool(force)}}
	_, err := c.do(ctx, request{method: http.MethodPut, query: params,
		path: []string{"v1", "agent", "leave"}}, nil)
	return err
}

// AgentForceLeave has a server that has failed count as one that has left; prune forgets it at once.
func (c *Client) AgentForceLeave(ctx context.Context, node string, prune bool) error {
	params := url.Values{"node": {node}, "prune": {strconv.FormatBool(prune)}}
	_, err := c.do(ctx, request{method: http.MethodPut, query: params,
		path: []string{"v1", "agent", "force-leave"}}, nil)
	return err
}

// SystemGC collects what is of no more use.
func (c *Client) SystemGC(ctx context.Context) error {
	_, err := send[structs.Empty](ctx, c, http.MethodPut, nil, "system", "gc")
	return err
}

// SnapshotSave writes an archive of the whole state to w, checked against the agent's digest: after an
// error what w has is of no use.
func (c *Client) SnapshotSave(ctx context.Context, w io.Writer) error {
	resp, err := c.open(ctx, request{method: http.MethodGet, path: []string{"v1", "operator", "snapshot"}})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, sum), resp.Body); err != nil {
		return structs.Errorf(structs.KindUnavailable, "the snapshot broke off: %w", err)
	}
	if want := resp.Header.Get("Digest"); want != "sha-256="+base64.StdEncoding.EncodeToString(sum.Sum(nil)) {
		return structs.Errorf(structs.KindUnavailable, "the snapshot was damaged on its way: its digest is not %q", want)
	}
	return nil
}

// SnapshotRestore replaces the cluster's whole state by what an archive holds.
func (c *Client) SnapshotRestore(ctx context.Context, r io.Reader) error {
	_, err := c.do(ctx, request{method: http.MethodPut, path: []string{"v1", "operator", "snapshot"}, body: r}, nil)
	return err
}
