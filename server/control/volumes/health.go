package volumes

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/control/loop"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// The budget of the calls.
const (
	// healthAfter is the time from the begin of a leadership to the first calls: plugins connect meanwhile.
	healthAfter = 30 * time.Second
	// healthInterval is the time between two rounds of a plugin.
	healthInterval = time.Minute
	// healthCallTime bounds a call, unless the settings of the plugin have a timeout.
	healthCallTime = 30 * time.Second
	// maxAsked bounds the calls for single volumes in a round.
	maxAsked = 100
	// maxIll bounds the volumes of a list.
	maxIll = 100_000
	// maxDelay is the longest time between two calls for a volume that its plugin does not know, or for which it
	// does not answer.
	maxDelay = time.Hour
)

// HealthLoop reads the health while this server leads. It remembers the lists of each plugin. Another leader
// has the rows, and counts the lists anew.
//
// It reads the health of volumes from the controllers of CSI plugins, and records unhealthy ones.
//
// Its rules (CSI spec, ControllerListVolumeHealth and ControllerGetVolumeHealth):
//
//   - A volume counts as ill at once. Pages are no consistent view, so a volume that a list leaves out is
//     healthy only if the plugin says so when it is asked for it alone, or after two complete lists in a row
//     if it cannot be asked.
//   - An error is no recovery. After NOT_FOUND the rows tell whether the volume still exists, and the plugin
//     is asked ever more seldom.
//   - Nothing is done to a volume. The rows are for people and alerts.
type HealthLoop struct {
	loop.Common
}

type volumeKey = storage.UsageKey

// healthMemory is what the loop knows of a plugin.
type healthMemory struct {
	clean   map[volumeKey]int      // complete lists in a row that have left out a volume with a row
	delayed map[volumeKey]*delayed // that the plugin does not know, or did not answer for in time
	after   volumeKey              // the last volume that was asked for, of a plugin that does not list
}

// delayed is when to ask again for a volume.
type delayed struct {
	pause backoff.Backoff
	until time.Time
}

// Run reads until ctx ends.
func (l HealthLoop) Run(ctx context.Context) {
	loop.Rounds[healthMemory]{
		Common: l.Common,
		After:  healthAfter,
		Interval: func(context.Context, *state.ReadTx, string, *healthMemory) (time.Duration, bool) {
			return healthInterval, true
		},
		Round: l.ask,
	}.Run(ctx)
}

// ask reads the health of the volumes of a plugin once, and records what has changed. The health of a plugin
// that does not tell it any more is not known.
func (l HealthLoop) ask(ctx context.Context, pluginID string, m *healthMemory) {
	p := newHealthPass(l, pluginID, m)
	var err error
	switch {
	case p.lists:
		err = p.list(ctx)
	case p.gets:
		err = p.askInTurn(ctx)
	case p.reachable:
		p.forget()
	}
	if err != nil && ctx.Err() == nil {
		l.Logger.Debug("the health of the volumes of a plugin is not known completely", "plugin_id", pluginID,
			"error", err)
	}
	p.dropOld()
	l.record(ctx, p)
}

// record writes the changes of a pass.
func (l HealthLoop) record(ctx context.Context, p *healthPass) {
	for chunk := range slices.Chunk(p.gone, storage.MaxHealthChanges) {
		l.propose(ctx, &storage.HealthRecordRequest{PluginID: p.plugin, Gone: chunk})
	}
	for chunk := range slices.Chunk(p.found, storage.MaxHealthChanges) {
		l.propose(ctx, &storage.HealthRecordRequest{PluginID: p.plugin, Found: chunk})
	}
}

// propose writes changes. If that fails, the next round finds them again.
func (l HealthLoop) propose(ctx context.Context, req *storage.HealthRecordRequest) {
	req.Now = time.Now().UnixNano()
	_, err := fsm.Propose(ctx, l.Proposer, fsm.HealthRecord, req)
	if err != nil && ctx.Err() == nil {
		l.Logger.Warn("failed to record the health of volumes; the next round repeats it",
			"plugin_id", req.PluginID, "error", err)
	}
}

// rowOf makes the row of a volume.
func rowOf(v *structs.CSIVolume, c *storage.VolumeCondition) *storage.VolumeHealth {
	return &storage.VolumeHealth{
		Namespace:  v.Namespace,
		VolumeID:   v.ID,
		PluginID:   v.PluginID,
		ExternalID: v.ExternalID,
		Condition:  c,
	}
}

// keyOf returns the key of the row of a volume.
func keyOf(v *structs.CSIVolume) volumeKey { return volumeKey{Namespace: v.Namespace, VolumeID: v.ID} }

// rowsOf returns the rows of a plugin.
func rowsOf(tx *state.ReadTx, pluginID string) []*storage.VolumeHealth {
	return slices.Collect(csi.HealthOfPlugin(tx, pluginID))
}
