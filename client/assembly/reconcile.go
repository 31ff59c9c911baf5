package assembly

import (
	"context"
	"time"

	"berth/client/csi/volumes"
	"berth/client/guard"
	"berth/client/hooks/network"
	"berth/internal/backoff"
)

// reconcileVolumes returns a loop for the agent's start. It compares the volume store with the mount table
// and releases volumes of allocations that this node did not have then. It retries until they are released,
// because nothing else may know of them. It calls plugins and no server, so the end of a cut between the
// servers and the node ends no pause.
func reconcileVolumes(p Parts, plugins *volumes.Manager, guarding *guard.Guard) func(context.Context) {
	before, err := knownAllocs(p.DB)
	return func(ctx context.Context) {
		if err != nil {
			p.Logger.Warn("failed to read all allocations, keeping volumes of deleted ones", "error", err)
			return
		}

		// A record that cannot be read now counts as known, because a release could hit a running task.
		known := func(id string) bool {
			if before[id] {
				return true
			}

			now, err := knownAllocs(p.DB)
			return err != nil || now[id]
		}

		const failed = "failed to release volumes of deleted allocations, retrying"
		pause := backoff.Backoff{Min: time.Second, Max: time.Minute}
		pause.Retry(ctx, p.Logger, failed, func(ctx context.Context) error {
			_, err := plugins.Volumes().Reconcile(ctx, known)
			if err == nil {
				err = guarding.Retain(known)
			}

			return err
		})
	}
}

// reconcileNetworks returns a loop for the agent's start. It takes down the networks of allocations that this
// node does not have.
func reconcileNetworks(p Parts) func(context.Context) {
	return func(ctx context.Context) {
		const failed = "failed to remove networks of deleted allocations, retrying"
		pause := backoff.Backoff{Min: time.Second, Max: time.Minute}
		pause.Retry(ctx, p.Logger, failed, func(ctx context.Context) error {
			return network.RemoveUnknown(ctx, networkConfig(p), func() (map[string]bool, error) {
				return knownAllocs(p.DB)
			})
		})
	}
}
