// Package timekeeper advances the cluster time on the leader, by the rule of package clustertime.
package timekeeper

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/go-metrics"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/server/clock"
	"berth/state"
	"berth/state/clustertime"
	"berth/structs"
	"berth/structs/admin"
)

// Interval is the time between two entries. The next leader continues from the last one.
const Interval = 20 * time.Second

// Keeper advances the cluster time while this server leads.
type Keeper struct {
	Store      *state.Store
	Clock      *clock.Cluster
	Proposer   fsm.Proposer
	Wall       func() time.Time
	Agree      func(ctx context.Context) bool // whether most servers have the wall clock of this one
	Quarantine time.Duration
	Logger     hclog.Logger
}

// Run advances the time until ctx ends. Begin comes before.
func (k Keeper) Run(ctx context.Context) {
	for backoff.Sleep(ctx, Interval) {
		k.advance(ctx, false)
	}
}

// Begin takes over the time from the former leader, before anything acts by it.
func (k Keeper) Begin(ctx context.Context) { k.advance(ctx, true) }

func (k Keeper) advance(ctx context.Context, first bool) {
	old, passed := k.Clock.Look()
	r := clustertime.Reading{
		Wall:       k.Wall().UnixNano(),
		Passed:     passed,
		First:      first,
		Quarantine: k.Quarantine,
	}
	if old == nil {
		r.Newest = clustertime.Newest(k.Store.Read(), r.Wall)
	}
	row := clustertime.Advance(old, r)
	if clustertime.Far(row.Ahead) && (!first || old == nil) { // the others are asked only then
		r.Agreed = k.Agree(ctx)
		row = clustertime.Advance(old, r)
	}
	p := &admin.ClusterTimeRequest{Clock: row}
	if old != nil {
		p.RowIndex = old.ModifyIndex
	}
	_, err := fsm.Propose(ctx, k.Proposer, fsm.ClusterTimeSet, p)
	k.Clock.Look() // the time until the next look counts from here
	if err != nil {
		// Precondition: a server is too old to know the cluster time, and the wall clock is the time.
		if ctx.Err() == nil && !structs.IsKind(err, structs.KindPrecondition) {
			k.Logger.Warn("failed to advance the cluster time, retrying", "error", err)
		}
		return
	}
	k.tell(old, &row)
}

// tell names a change of the difference of the clocks. old is nil for a new cluster time.
func (k Keeper) tell(old, row *admin.ClusterTime) {
	metrics.SetGauge([]string{"cluster_time", "ahead_seconds"}, float32(row.Ahead.Seconds()))
	if old == nil {
		return
	}
	behind := row.Ahead < -clustertime.Tolerance
	switch {
	case row.Since != 0 && old.Since == 0:
		k.Logger.Error("the clock of this server was set, or the servers were off: nothing is deleted by it "+
			"until most servers have agreed for the quarantine",
			"ahead", row.Ahead, "quarantine", k.Quarantine)
	case row.Since == 0 && old.Since != 0 && len(row.Jumps) > 0 && row.Time-old.Time > int64(2*Interval):
		k.Logger.Warn("the cluster time follows the clocks of most servers",
			"by", time.Duration(row.Time-old.Time))
	case row.Since == 0 && old.Since != 0:
		k.Logger.Info("the clock of the leader is right again", "ahead", row.Ahead)
	case behind && old.Ahead >= -clustertime.Tolerance:
		k.Logger.Error("the clock of this server is behind the cluster time: set it right",
			"behind", -row.Ahead)
	}
}
