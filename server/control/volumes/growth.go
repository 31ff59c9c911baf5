package volumes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/wallclock"
	"berth/server/control/loop"
	"berth/server/nodeconn"
	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/storage"
)

const (
	// GrowthInterval is the time between two rounds. Nodes measure each minute, too.
	GrowthInterval = time.Minute
	// growthAtOnce bounds the nodes that a round asks at the same time.
	growthAtOnce = 8
	// settles is the least time between two growths of a volume. Its file system has grown until then, and was
	// measured again, also if the clock of the node differs a little.
	settles = 3 * time.Minute
	// fresh is the age up to which a measurement counts.
	fresh = 2 * storage.MaxUsageInterval
)

// GrowthLoop makes volumes larger while this server leads.
//
// It makes volumes larger before they are full, by the rule that their rows have. The leader
// asks the nodes for the use of these volumes, and the growth itself is an expansion like any other.
type GrowthLoop struct {
	loop.Common
}

// Run makes rounds until ctx ends.
func (l GrowthLoop) Run(ctx context.Context) {
	for backoff.Sleep(ctx, GrowthInterval) {
		l.round(ctx)
	}
}

// round asks the nodes once and makes the volumes larger that are as full as their rules say.
func (l GrowthLoop) round(ctx context.Context) {
	tx := l.Store.Read()
	fullest := l.ask(ctx, holders(tx))

	keys := slices.SortedFunc(maps.Keys(fullest), storage.CompareUsageKeys)
	for _, k := range keys {
		v := csi.Volume(tx, k.Namespace, k.VolumeID)
		req := next(tx, v, fullest[k], time.Now())
		if req == nil {
			continue
		}
		_, err := fsm.Propose(ctx, l.Proposer, fsm.VolumeGrow, req)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			l.Logger.Warn("failed to make a volume larger", "namespace", v.Namespace, "volume_id", v.ID, "error", err)
		case req.Fault != "":
			l.Logger.Warn("volume does not grow", "namespace", v.Namespace, "volume_id", v.ID, "reason", req.Fault)
		case req.To != 0:
			metrics.IncrCounterWithLabels([]string{"csi", "growths"}, 1,
				[]metrics.Label{{Name: "plugin", Value: v.PluginID}})
			l.Logger.Info("volume grows", "namespace", v.Namespace, "volume_id", v.ID, "bytes", req.To,
				"used_percent", int(fullest[k].Bytes.Percent()))
		}
	}
}

// holders returns the reachable nodes that have volumes which grow by themselves, each with these.
func holders(tx *state.ReadTx) map[string][]storage.UsageKey {
	nodes := map[string][]storage.UsageKey{}
	for v := range csi.SelfGrowing(tx) {
		k := storage.UsageKey{Namespace: v.Namespace, VolumeID: v.ID}
		for c := range csi.ClaimsOf(tx, v.Namespace, v.ID) {
			list := nodes[c.NodeID]
			known := len(list) > 0 && list[len(list)-1] == k
			if c.State != structs.ClaimGranted || known || !nodeconn.Reachable(state.Node(tx, c.NodeID)) {
				continue
			}
			nodes[c.NodeID] = append(list, k)
		}
	}
	return nodes
}

// ask returns the usage of each volume on the node where it is fullest. A node that does not answer is asked
// again in the next round.
func (l GrowthLoop) ask(
	ctx context.Context, nodes map[string][]storage.UsageKey,
) map[storage.UsageKey]*storage.VolumeUsage {
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex
		slots   = make(chan struct{}, growthAtOnce)
		fullest = map[storage.UsageKey]*storage.VolumeUsage{}
	)
	for _, id := range slices.Sorted(maps.Keys(nodes)) {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			usages, err := nodeconn.AskUsage(ctx, l.Nodes, id, nodes[id])
			if err != nil {
				l.Logger.Debug("node does not tell the use of its volumes", "node_id", id, "error", err)
			}

			mu.Lock()
			defer mu.Unlock()
			for _, u := range usages {
				k := nodeconn.UsageKeyOf(u)
				known := fullest[k]
				if known == nil || known.Bytes.Percent() < u.Bytes.Percent() {
					fullest[k] = u
				}
			}
		})
	}
	wg.Wait()
	return fullest
}

// next returns the request about a volume with a usage, nil if nothing changes.
func next(
	tx *state.ReadTx, v *structs.CSIVolume, u *storage.VolumeUsage, now time.Time,
) *storage.VolumeGrowRequest {
	measured := time.Unix(0, u.Time)
	if u.Bytes == nil || u.Time == 0 || now.Sub(measured) > fresh {
		return nil
	}
	if v.Grown != nil && !wallclock.Ahead(v.Grown.Time) {
		grown := time.Unix(0, v.Grown.Time)
		if now.Sub(grown) < settles || measured.Before(grown) {
			return nil
		}
	}

	req := &storage.VolumeGrowRequest{
		ID:       v.ID,
		RowIndex: v.ModifyIndex,
	}
	req.Namespace = v.Namespace
	req.Now = now.UnixNano()
	if u.Bytes.Percent() >= float64(v.Grow.At) {
		req.To, req.Fault = size(tx, v, u)
	}
	if req.To == 0 && req.Fault == storage.GrowFault(v) {
		return nil
	}
	return req
}

// size returns the size to which a volume grows, or the reason why it does not.
func size(tx *state.ReadTx, v *structs.CSIVolume, u *storage.VolumeUsage) (to int64, fault string) {
	has := max(v.Capacity, v.RequestedCapacityMin)
	to = storage.GrownSize(v.Grow, has, v.RequestedCapacityMax)
	switch {
	case has == 0:
		return 0, "its capacity is not known: give capacity_min"

	// A directory of a larger file system, for example.
	case u.Bytes.Total > has:
		return 0, fmt.Sprintf("its file system has %s, more than the volume: the use of the volume is not known",
			structs.FormatBytes(u.Bytes.Total))
	case !csi.Expands(tx, v.PluginID):
		return 0, fmt.Sprintf("plugin %s does not expand volumes", v.PluginID)
	case to <= has:
		return 0, fmt.Sprintf("it has its largest size, %s: raise max in grow, or capacity_max",
			structs.FormatBytes(has))
	}

	grown := v.Copy()
	grown.RequestedCapacityMin = to
	err := namespace.CheckVolumeQuota(tx, v, grown)
	if err != nil {
		return 0, err.Error()
	}
	return to, ""
}
