package control

import (
	"context"
	"iter"
	"strings"
	"time"

	"berth/internal/wallclock"
	"berth/server/control/workqueue"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/csi/snapshot"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

// controllerLoop makes the calls to plugins that rows need: it creates, deletes, expands, attaches and
// detaches volumes, and grows mounted file systems. One loop makes all of them, because a controller gets one
// call for a volume at a time.
type controllerLoop struct {
	Deps
	// candidates are the nodes whose controllers may be called for a row, the best first.
	candidates []string
	seen       *wallclock.Seen // the records of calls ahead of the clock
	// recordCall records that a call for the row is about to go to a node.
	recordCall func(ctx context.Context, node string) error
}

// target is for calls to these nodes, the best first.
func (c controllerLoop) target(ids ...string) nodeconn.Target {
	return nodeconn.Target{Nodes: c.Nodes, IDs: ids, Limit: callTimeout}
}

// withCandidates returns a loop that calls these nodes.
func (c controllerLoop) withCandidates(candidates []string) controllerLoop {
	c.candidates = candidates
	return c
}

func (c controllerLoop) runner() workqueue.Runner {
	c.seen = &wallclock.Seen{}
	return workqueue.Runner{
		Name:     "controllers",
		Logger:   c.Logger,
		Store:    c.Store,
		Retry:    c.Config.Retry,
		Parallel: c.callsOf,
		Topics: []state.Topic{
			schema.VolumeRows,
			schema.AttachmentRows,
			schema.GrowingClaimRows,
			schema.SnapshotRows,
			schema.SnapshotGroupRows,
			schema.InstanceRows,
			schema.NodeRows,
			schema.PluginConfigRows,
		},
		All:     unsettled,
		Read:    c.read,
		Keys:    callKeys,
		Signals: controllerSignals,
		Bounds:  configuredPlugin,
		Loads:   c.Calls,
	}
}

// callsOf returns the most calls of a plugin in flight at once.
func (c controllerLoop) callsOf(tx *state.ReadTx, plugin string) int {
	return csi.PluginConfig(tx, plugin).InFlight(c.Config.CallsPerPlugin)
}

// configuredPlugin returns the plugin whose settings have changed.
func configuredPlugin(c state.Change) string {
	if c.Topic == schema.PluginConfigRows {
		return c.Key[0]
	}
	return ""
}

// rowKey returns the key of a row of a table.
func rowKey(table state.Topic, parts ...string) workqueue.Key {
	key := workqueue.Key{Topic: table}
	copy(key.Key[:], parts)
	return key
}

// unsettled yields the rows that need a call, volumes first.
func unsettled(tx *state.ReadTx) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		for v := range csi.UnsettledVolumes(tx) {
			key := rowKey(schema.VolumeRows, v.Namespace, v.ID)
			if !yield(key) {
				return
			}
		}

		for a := range csi.UnsettledAttachments(tx) {
			key := rowKey(schema.AttachmentRows, a.Namespace, a.VolumeID, a.NodeID)
			if !yield(key) {
				return
			}
		}

		for c := range csi.GrowingClaims(tx) {
			key := rowKey(schema.GrowingClaimRows, c.Namespace, c.VolumeID, c.AllocID)
			if !yield(key) {
				return
			}
		}

		for s := range schema.UnsettledSnapshots.Scan(tx) {
			if !yield(rowKey(schema.SnapshotRows, s.Namespace, s.Name)) {
				return
			}
		}

		for g := range schema.UnsettledSnapshotGroups.Scan(tx) {
			if !yield(rowKey(schema.SnapshotGroupRows, g.Namespace, g.Name)) {
				return
			}
		}
	}
}

// callKeys yields the changed row, if it is one that may need a call.
func callKeys(_ *state.ReadTx, c state.Change) iter.Seq[workqueue.Key] {
	return func(yield func(workqueue.Key) bool) {
		switch c.Topic {
		case schema.VolumeRows, schema.AttachmentRows, schema.GrowingClaimRows, schema.SnapshotRows,
			schema.SnapshotGroupRows:
			yield(c)
		}
	}
}

// controllerSignals names the calls that may have a controller now: calls of the plugins whose controllers on
// the node are reachable, and calls for the volume, whose topology may have changed. An attachment also names
// the attaches to its node, which may have a place now.
func controllerSignals(tx *state.ReadTx, c state.Change) (signals []string) {
	switch c.Topic {
	case schema.VolumeRows:
		return []string{volumeSignal(c.Key[0] + "/" + c.Key[1])}
	case schema.AttachmentRows:
		return []string{
			volumeSignal(c.Key[0] + "/" + c.Key[1]),
			attachmentSignal(c.Key[2]),
		}

	case schema.InstanceRows:
		plugin := c.Key[0]
		if controllerReachable(tx, plugin, c.Key[2]) {
			return []string{pluginSignal(plugin)}
		}

	case schema.NodeRows:
		signals = []string{nodeSignal(c.Key[0])}
		if !csi.AllRecovering(tx) {
			signals = append(signals, accountedSignal)
		}

		for i := range csi.InstancesByNode(tx, c.Key[0]) {
			if i.Kind == structs.CSIKindController &&
				controllerReachable(tx, i.PluginID, i.NodeID) {
				signals = append(signals, pluginSignal(i.PluginID))
			}
		}
	}

	return signals
}

func pluginSignal(id string) string   { return "plugin " + id }
func volumeSignal(name string) string { return "volume " + name }

// attachmentSignal is given when an attachment to a node has changed.
func attachmentSignal(node string) string { return "attachments of node " + node }

// controllerReachable reports whether a plugin's controller on a node is healthy and reachable.
func controllerReachable(tx *state.ReadTx, plugin, node string) bool {
	i := csi.Instance(tx, plugin, structs.CSIKindController, node)
	return i != nil && i.Healthy && nodeconn.Reachable(state.Node(tx, node))
}

// work is one call that a row needs.
type work struct {
	op         string
	volume     string // namespace/volume
	plugin     string
	rank       int // among the calls for the volume
	version    uint64
	lastError  *structs.OperationError
	call       *structs.CSICall                // earlier, of unknown outcome
	candidates func(tx *state.ReadTx) []string // nodes whose controller may serve it
	// act makes the call and records the outcome. If err is not nil, act makes no call, and err is the
	// outcome.
	act func(ctx context.Context, candidates []string, err error) error
}

// rpcs has the RPC of each call, which decides about its repeats: see nodecalls.RepeatOf.
var rpcs = map[string]string{
	opCreate:                 "CreateVolume",
	opLearn:                  "CreateVolume",
	opDelete:                 "DeleteVolume",
	opExpand:                 "ControllerExpandVolume",
	opModify:                 "ControllerModifyVolume",
	opAttach:                 "ControllerPublishVolume",
	opDetach:                 "ControllerUnpublishVolume",
	storage.OpSnapshotCreate: "CreateSnapshot",
	storage.OpSnapshotLearn:  "CreateSnapshot",
	storage.OpSnapshotDelete: "DeleteSnapshot",
	storage.OpGroupCreate:    "CreateVolumeGroupSnapshot",
	storage.OpGroupLearn:     "CreateVolumeGroupSnapshot",
	storage.OpGroupDelete:    "DeleteVolumeGroupSnapshot",
}

// read decides which call a row needs. A failed call comes after the others, so that a failing volume delays
// no other.
func (c controllerLoop) read(tx *state.ReadTx, k workqueue.Key) workqueue.Step {
	namespace := k.Key[0]
	volume := k.Key[1]
	switch k.Topic {
	case schema.GrowingClaimRows:
		claim := csi.Claim(tx, namespace, volume, k.Key[2])
		if needsNodeExpand(claim) {
			return c.growStep(tx, claim)
		}

	case schema.AttachmentRows:
		a := csi.Attachment(tx, namespace, volume, k.Key[2])
		if a != nil && nextAttachment(a) != "" {
			s := c.step(tx, c.attachmentWork(tx, a))
			s = waitForNodes(tx, namespace, volume, s)
			return waitForDetach(tx, a, s)
		}

	case schema.SnapshotRows:
		s := csi.Snapshot(tx, namespace, volume) // the key has its name
		if s != nil && s.Unsettled() {
			return c.snapshotStep(tx, s)
		}

	case schema.SnapshotGroupRows:
		g := snapshot.Group(tx, namespace, volume) // the key has its name
		if g != nil && g.Unsettled() {
			return c.groupStep(tx, g)
		}

	case schema.VolumeRows:
		v := csi.Volume(tx, namespace, volume)
		if v != nil && v.Marked() {
			return c.reclaimStep(tx, v)
		}
		if v != nil &&
			nextVolume(v) != "" &&
			(v.Modifies() || csi.ExpandBlocked(tx, v) == "") {
			return waitForNodes(tx, namespace, volume, c.step(tx, c.volumeWork(v)))
		}
	}

	return workqueue.Step{}
}

// step turns work into a step. The node is chosen when the call is made. While no node is reachable, this is
// recorded once, and the call is made as soon as one is.
func (c controllerLoop) step(tx *state.ReadTx, w work) workqueue.Step {
	s := workqueue.Step{
		Op:      w.op,
		Version: w.version,
		Group:   w.plugin,
		Serial:  w.volume,
		Rank:    w.rank,
		Failed:  w.lastError != nil,
		Due:     retryDue(c.Clock, c.Config.Retry, w.lastError, rpcs[w.op]),
	}
	signals := []string{
		pluginSignal(w.plugin),
		volumeSignal(w.volume),
	}
	switch {
	case s.Failed && w.lastError.Code == codeNoController:
		s.Due = time.Time{}
		if !csi.HealthyInstance(tx, w.plugin, structs.CSIKindController) ||
			len(w.candidates(tx)) == 0 {
			s.Awaits = signals
			s.Counts = true
		}
	case s.Failed &&
		w.lastError.RetryTime == structs.NeverTry &&
		!c.changedSince(tx, w):
		s.Due = time.Time{}
		s.Awaits = signals
	case w.call != nil:
		_, until := c.callable(tx, w)
		if until.IsZero() {
			break
		}
		check := time.Now().Add(checkInterval)
		if check.Before(until) {
			until = check
		}
		if until.After(s.Due) {
			s.Due = until
		}
	}
	s.Act = func(ctx context.Context) error {
		candidates, until := c.callable(c.Store.Read(), w)
		switch {
		case !until.IsZero():
			return structs.Unavailablef("node %s is not reachable for the outcome of %s",
				w.call.NodeID, w.call.Op)
		case len(candidates) == 0:
			return w.act(ctx, nil, c.noController(w))
		}
		return w.act(ctx, candidates, nil)
	}
	return s
}

// codeNoController is the code in a row of a call for which there was no controller.
const codeNoController = "NoController"

// noController is the error of work without a controller to call. It says if nothing is where the volume is.
func (c controllerLoop) noController(w work) error {
	tx := c.Store.Read()
	namespace, id, _ := strings.Cut(w.volume, "/")
	v := csi.Volume(tx, namespace, id)
	why := ""
	if v != nil {
		why = csi.Placeless(tx, v)
	}
	if why == "" {
		return noController(w.plugin)
	}
	return &structs.Error{
		Kind: structs.KindUnavailable,
		Code: codeNoController,
		Text: why + "; to forget the volume then: " + csi.GoneCommand(v),
	}
}

func noController(plugin string) error {
	return &structs.Error{
		Kind: structs.KindUnavailable,
		Code: codeNoController,
		Text: "no controller of plugin " + plugin +
			" is healthy on a ready node that reaches the volume: is its job running?",
	}
}

// changedSince reports whether a controller of the plugin or the volume has changed since a request was
// rejected. The plugin may accept the request then.
func (c controllerLoop) changedSince(tx *state.ReadTx, w work) bool {
	for i := range csi.InstancesByPluginKind(tx, w.plugin, structs.CSIKindController) {
		if i.ModifyIndex > w.version {
			return true
		}
	}
	namespace, id, _ := strings.Cut(w.volume, "/")
	v := csi.Volume(tx, namespace, id)
	return v != nil && v.ModifyIndex > w.version
}

// stamp returns the write options of an entry that a loop proposes now: its namespace and the time.
func (d Deps) stamp(namespace string) structs.WriteOptions {
	return structs.WriteOptions{
		Namespace: namespace,
		Now:       d.Clock.Now().UnixNano(),
	}
}

// operationError returns the row's record of a failed call, which the RPC names, with the time of the next
// attempt. last is the record of the call before.
func (d Deps) operationError(err error, last *structs.OperationError, rpc string) *structs.OperationError {
	e := &structs.OperationError{
		Message:  err.Error(),
		Kind:     structs.KindOf(err),
		Code:     structs.CodeOf(err),
		Attempts: 1,
		Time:     d.Clock.Now().UnixNano(),
	}

	if last != nil {
		e.Attempts = last.Attempts + 1
	}

	if e.Code != codeNoController { // it is tried as soon as there is one
		e.RetryTime = retryTime(d.Config.Retry, e, rpc)
	}

	return e
}
