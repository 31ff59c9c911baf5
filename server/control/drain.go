package control

import (
	"context"
	"slices"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/scheduler/drainer"
	"berth/state"
	"berth/structs"
)

const (
	// drainInterval is the time between two looks at the draining nodes.
	drainInterval = 250 * time.Millisecond
	// migratedTogether is the most allocations that one log entry moves.
	migratedTogether = 1000
)

// drainLoop moves allocations off the nodes that drain, and ends the drains. While no node drains it costs a
// look into an empty index.
type drainLoop struct{ Deps }

func (d drainLoop) run(ctx context.Context) {
	for backoff.Sleep(ctx, drainInterval) {
		err := d.takeStep(ctx)
		if err != nil && ctx.Err() == nil {
			d.Logger.Warn("failed to continue the drain of nodes, retrying", "error", err)
		}
	}
}

// takeStep proposes what the drains need now. What a crash leaves out follows from the rows at the next look.
func (d drainLoop) takeStep(ctx context.Context) error {
	d.Drains.Lock()
	defer d.Drains.Unlock()
	step := drainer.Next(d.Store.Read(), d.Clock.Now())
	events := forcedEvents(step.ForcedPlugins)
	for some := range slices.Chunk(step.Migrate, migratedTogether) {
		err := propose(ctx, d.Deps, fsm.AllocsMigrate, &structs.AllocsMigrateRequest{
			AllocIDs:     some,
			Events:       events,
			WriteOptions: d.stamp(""),
		})
		if err != nil {
			return err
		}

		// They are recorded once, with the first entry.
		events = nil
	}

	for some := range slices.Chunk(step.Ended, migratedTogether) {
		err := propose(ctx, d.Deps, fsm.NodeDrained, &structs.NodeDrainedUpdate{
			Nodes:        some,
			WriteOptions: d.stamp(""),
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// forcedEvents records on each node that its plugins stop although it has volumes.
func forcedEvents(volumes map[string]string) map[string][]*structs.NodeEvent {
	events := map[string][]*structs.NodeEvent{}
	for node, first := range volumes {
		events[node] = []*structs.NodeEvent{{
			Message:   "CSI plugins stopped by force while the node has volumes",
			Subsystem: state.DrainSubsystem,
			Details:   map[string]string{"volume": first},
			Timestamp: time.Now().UTC(),
		}}
	}
	return events
}
