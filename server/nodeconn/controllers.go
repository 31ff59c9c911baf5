package nodeconn

import (
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
)

// Controller is a controller instance with the inputs of the choice.
type Controller struct {
	NodeID   string
	Topology *structs.CSITopology // of the plugin's node half on the same node, nil if there is none
}

// Controllers returns the nodes whose controllers may serve a call for an object with the topologies, the
// best first. Key, the name of the object, spreads the calls over equally good controllers and sends the
// calls for one object to the same one.
func Controllers(
	tx *state.ReadTx,
	pluginID string,
	want *structs.CSITopologyRequest,
	key string,
) []string {
	healthy, _ := AllControllers(tx, pluginID)
	return chooseControllers(healthy, want, key)
}

// AllControllers returns the plugin's reachable controllers and the others.
func AllControllers(tx *state.ReadTx, pluginID string) (healthy, others []Controller) {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		c := Controller{NodeID: i.NodeID}
		half := csi.Instance(tx, pluginID, structs.CSIKindNode, i.NodeID)
		if half != nil && half.NodeInfo != nil {
			c.Topology = half.NodeInfo.AccessibleTopology
		}

		if i.Healthy && Reachable(state.Node(tx, i.NodeID)) {
			healthy = append(healthy, c)
		} else {
			others = append(others, c)
		}
	}

	return healthy, others
}

// Reachable reports whether a node can be called. While it cannot, it may still write.
func Reachable(node *structs.Node) bool {
	return node != nil && node.Status == structs.NodeReady
}

// VolumeControllers returns the Controllers for a volume. They reach the place where it is or, while it does
// not exist yet, where it has to be: a copy where its source is.
func VolumeControllers(tx *state.ReadTx, v *structs.CSIVolume) []string {
	want := v.RequestedTopologies
	source := csi.SourceTopologies(tx, v)
	switch {
	case len(v.Topologies) > 0:
		want = &structs.CSITopologyRequest{Required: v.Topologies}
	case len(source) > 0:
		want = &structs.CSITopologyRequest{Required: source}
	}
	return Controllers(tx, v.PluginID, want, v.Namespace+"/"+v.ID)
}

// chooseControllers omits the controllers that are elsewhere than required. A controller without a topology
// serves every topology. A preferred one counts before the spread by key.
func chooseControllers(
	all []Controller,
	want *structs.CSITopologyRequest,
	key string,
) []string {
	fitting := slices.Clone(all)
	if want != nil && len(want.Required) > 0 {
		fitting = slices.DeleteFunc(fitting, func(c Controller) bool {
			return topologyRank(c, want.Required) == len(want.Required)
		})
	}

	slices.SortFunc(fitting, func(a, b Controller) int {
		return strings.Compare(a.NodeID, b.NodeID)
	})
	n := len(fitting)
	ids := make([]string, n)
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key))
	for i := range fitting {
		shift := int(hash.Sum32() % uint32(n))
		ids[i] = fitting[(i+shift)%n].NodeID
	}

	if want == nil || len(want.Preferred) == 0 {
		return ids
	}

	ranks := map[string]int{}
	for _, c := range fitting {
		ranks[c.NodeID] = topologyRank(c, want.Preferred)
	}

	slices.SortStableFunc(ids, func(a, b string) int {
		return ranks[a] - ranks[b]
	})
	return ids
}

// topologyRank returns the index of the first topology that the controller is in; len(topologies) if it is in
// none.
func topologyRank(c Controller, topologies []*structs.CSITopology) int {
	if c.Topology == nil || len(c.Topology.Segments) == 0 {
		return 0
	}
	for i, p := range topologies {
		if p.Matches(c.Topology) {
			return i
		}
	}
	return len(topologies)
}

// Address names the driver in a request for a plugin's controller, so that a node with another driver under
// the plugin's ID does not make the call. It also gives the request the timeout of the plugin's settings.
func Address(tx *state.ReadTx, req any) {
	if r, ok := req.(nodecalls.CSIControllerRequest); ok {
		id, provider := r.Driver()
		*provider = Provider(tx, id)
		r.SetTimeout(csi.PluginConfig(tx, id).OfController())
	}
}

// NodeTimeout returns the timeout of the calls of a plugin's node half for a volume, 0 without a setting.
func NodeTimeout(tx *state.ReadTx, namespace, volume string) time.Duration {
	v := csi.Volume(tx, namespace, volume)
	if v == nil {
		return 0
	}
	return csi.PluginConfig(tx, v.PluginID).OfNode()
}

// StampEpoch gives a request the present epoch of the node that it is sent to. If the request arrives after
// the node was lost, the node rejects it.
func StampEpoch(tx *state.ReadTx, nodeID string, req any) {
	node := state.Node(tx, nodeID)
	r, ok := req.(interface{ StampEpoch(epoch uint64) })
	if ok && node != nil {
		r.StampEpoch(node.Epoch)
	}
}

// Provider returns the driver that a plugin's ID belongs to, "" while it is not known.
func Provider(tx *state.ReadTx, pluginID string) string {
	plugin := csi.Plugin(tx, pluginID)
	if plugin == nil {
		return ""
	}
	return plugin.Provider
}

// ErrNoController is the error of a call without a node to make it at.
var ErrNoController = structs.Unavailablef(
	"no healthy controller of the plugin is on a fitting node that is ready")
