package volumes

import (
	"context"
	"maps"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/storage"
)

// The budget of the calls.
const (
	// CapacityInterval is the time between two rounds.
	CapacityInterval = time.Minute
	// MaxCalls is the most calls of a round. With more places than that, a later round asks for the others.
	MaxCalls = 64
	// MaxPlaces is the most places of a class. Beyond that none is asked for: the answers to creations tell.
	MaxPlaces = 256
)

// callTimeout bounds a call, unless the settings of the plugin have a timeout.
const callTimeout = 10 * time.Second

// CapacityLoop asks in each CapacityInterval. It belongs to the leader, and keeps nothing: the answers are
// rows, because the plans of any server read them.
//
// It asks plugins how much space they have for the volumes that jobs ask for, so that the
// placement leaves out the places that have too little.
type CapacityLoop struct {
	loop.Common
}

// Run works until ctx ends.
func (l CapacityLoop) Run(ctx context.Context) {
	var last target // of the round before
	for ctx.Err() == nil {
		last = l.Round(ctx, last)
		backoff.Sleep(ctx, CapacityInterval)
	}
}

// target is a class in a place for which there is to be a figure.
type target struct {
	class *storage.VolumeClass // nil: none
	place string               // see storage.TopologyText
	at    *structs.CSITopology
}

// Round asks for the targets after the last one of the round before, those first that had no space since
// they were asked for, and returns the last one.
func (l CapacityLoop) Round(ctx context.Context, after target) (last target) {
	tx := l.Store.Read()
	all := targets(tx)
	first := slices.IndexFunc(all, func(t target) bool { return t.isAfter(after) })
	if first > 0 {
		all = slices.Concat(all[first:], all[:first])
	}
	since := time.Now().Add(-2 * CapacityInterval).UnixNano()
	full, others := []target{}, []target{}
	for _, t := range all {
		e := csi.Exhausted(tx, t.class.PluginID, t.class.Name, t.at)
		if e != nil && e.Time > max(e.LeftTime, since) {
			full = append(full, t)
		} else {
			others = append(others, t)
		}
	}
	all = slices.Concat(full, others)
	all = all[:min(len(all), MaxCalls)]
	if len(all) == 0 {
		return target{}
	}
	l.record(ctx, l.askAll(ctx, tx, all))
	return all[len(all)-1]
}

// askAll returns the answers that differ from their rows.
func (l CapacityLoop) askAll(ctx context.Context, tx *state.ReadTx, all []target) *storage.SpaceRequest {
	req := &storage.SpaceRequest{}
	failed := map[string]bool{} // plugins: one that does not answer is called once in a round
	for _, t := range all {
		if ctx.Err() != nil || failed[t.class.PluginID] {
			continue
		}
		a, err := l.ask(ctx, tx, t)
		switch {
		case err != nil:
			failed[t.class.PluginID] = structs.IsKind(err, structs.KindTimeout) ||
				structs.IsKind(err, structs.KindUnavailable)
			l.Logger.Debug("failed to ask a plugin for its capacity",
				"plugin_id", t.class.PluginID, "class", t.class.Name, "place", t.place, "error", err)
		case a.SaysMore(csi.Exhausted(l.Store.Read(), a.PluginID, a.Class, t.at)):
			req.Answers = append(req.Answers, a)
		}
	}

	return req
}

func (l CapacityLoop) record(ctx context.Context, req *storage.SpaceRequest) {
	if len(req.Answers) == 0 || ctx.Err() != nil {
		return
	}
	req.Now = time.Now().UnixNano()
	_, err := fsm.Propose(ctx, l.Proposer, fsm.VolumeSpace, req)
	if err != nil && ctx.Err() == nil {
		l.Logger.Warn("failed to record the capacity of plugins; the next round repeats it", "error", err)
	}
}

// isAfter reports whether a target follows another one in the order of targets.
func (t target) isAfter(other target) bool {
	return other.class == nil || t.class.Name > other.class.Name ||
		t.class.Name == other.class.Name && t.place > other.place
}

// targets returns the classes whose volumes are made where their first allocation is placed, in each place of
// a ready node that they allow, by class and place.
func targets(tx *state.ReadTx) (all []target) {
	for c := range csi.Classes(tx) {
		if c.Binding != storage.BindFirstConsumer || !tells(tx, c.PluginID) {
			continue
		}
		places := capacityPlaces(tx, c)
		if len(places) > MaxPlaces {
			continue
		}
		for _, place := range slices.Sorted(maps.Keys(places)) {
			all = append(all, target{c, place, places[place]})
		}
	}
	return all
}

// tells reports whether a reachable controller of a plugin announces GET_CAPACITY.
func tells(tx *state.ReadTx, pluginID string) bool {
	for i := range csi.InstancesByPluginKind(tx, pluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && i.ControllerInfo.SupportsGetCapacity &&
			nodeconn.Reachable(state.Node(tx, i.NodeID)) {
			return true
		}
	}
	return false
}

// capacityPlaces returns the distinct topologies of the healthy halves on ready nodes that a class allows. A
// nil topology has the key "".
func capacityPlaces(tx *state.ReadTx, c *storage.VolumeClass) map[string]*structs.CSITopology {
	places := map[string]*structs.CSITopology{}
	for i := range csi.InstancesByPluginKind(tx, c.PluginID, structs.CSIKindNode) {
		place := i.NodeReport().AccessibleTopology
		allows := func(t *structs.CSITopology) bool { return t.Matches(place) }
		allowed := len(c.AllowedTopologies) == 0 || slices.ContainsFunc(c.AllowedTopologies, allows)
		if i.Healthy && allowed && nodeconn.Reachable(state.Node(tx, i.NodeID)) {
			places[storage.TopologyText(place)] = place
		}
	}
	return places
}

// ask calls a controller. The request has what a later creation has, of a volume that a job asks for without
// more than a class.
func (l CapacityLoop) ask(ctx context.Context, tx *state.ReadTx, t target) (*storage.SpaceAnswer, error) {
	req := &nodecalls.ClientCSICapacityRequest{
		PluginID:   t.class.PluginID,
		Parameters: t.class.Parameters,
		Capability: &structs.CSIVolumeCapability{
			AccessMode:     structs.CSISingleNodeWriter,
			AttachmentMode: structs.CSIFileSystem,
		},
		MountOptions: t.class.MountOptions,
		Topology:     t.at,
	}
	var where *structs.CSITopologyRequest
	if t.at != nil {
		where = &structs.CSITopologyRequest{Required: []*structs.CSITopology{t.at}}
	}
	nodeconn.Address(tx, req)
	to := nodeconn.Target{
		Nodes: l.Nodes,
		IDs:   nodeconn.Controllers(tx, t.class.PluginID, where, t.class.Name+" "+t.place),
		Limit: callTimeout,
	}
	resp, err := nodeconn.Call(ctx, to, nodecalls.ClientCSIControllerCapacity, req)
	switch {
	case err != nil:
		return nil, err
	case resp.Available < 0 || resp.MaxVolume < 0:
		return nil, structs.Internalf("the node's answer has a negative size")
	}
	return &storage.SpaceAnswer{
		PluginID:  t.class.PluginID,
		Class:     t.class.Name,
		Place:     t.place,
		Left:      resp.Available,
		MaxVolume: min(resp.MaxVolume, structs.MaxVolumeBytes),
	}, nil
}
