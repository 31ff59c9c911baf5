package control

import (
	"context"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/idtoken"
	"berth/internal/keyring"
	"berth/scheduler"
	"berth/server/authority"
	"berth/server/clock"
	loops "berth/server/control/cluster"
	"berth/server/control/fence"
	"berth/server/control/garbage"
	"berth/server/control/volumes"
	"berth/server/control/workqueue"
	"berth/server/leases"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// Config has the settings of the loops. The server has checked them.
type Config struct {
	Leases leases.Config

	CallsPerPlugin int             // calls in flight at once, of a plugin without a setting
	Retry          backoff.Backoff // of a call that may succeed when it is made again
	GCInterval     time.Duration
	GCKeep         garbage.Thresholds
	SchedulerBatch int // evaluations processed before their order is read again
	FenceParallel  int // nodes that are fenced at once; 0: one
	// Scheduler is stored if no configuration of the scheduler is, and this is not the default.
	Scheduler cluster.SchedulerConfiguration
	// Authority is stored if the cluster has none.
	Authority authority.Files
	// RotateSigning is the age at which a key of identities is replaced.
	RotateSigning time.Duration
}

// DefaultConfig returns settings for small and large clusters. The server adds its own settings: the times of
// the leases and of the garbage collection.
func DefaultConfig() Config {
	return Config{
		Leases:         leases.Config{MaxPerSecond: 1000},
		CallsPerPlugin: storage.DefaultCallsInFlight,
		Retry: backoff.Backoff{
			Min: 250 * time.Millisecond,
			Max: 30 * time.Second,
		},
		SchedulerBatch: 64,
		Scheduler:      cluster.DefaultSchedulerConfiguration(),
		RotateSigning:  idtoken.DefaultSettings().RotateAfter,
	}
}

// Deps are the dependencies of the loops. The endpoints also use Leases, to renew them.
type Deps struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Nodes    nodeconn.Caller
	Leases   *leases.Leases
	Term     uint64       // Raft's term of the leadership; not 0
	Consul   loops.Consul // nil: the servers use no Consul
	Fencers  fence.Devices
	Logger   hclog.Logger
	Config   Config
	// Drains is held while a drain takes a step, and while a request changes one: a step acts on the drain
	// for which it was planned. nil: nothing else changes drains.
	Drains sync.Locker
	// Keys open the secrets of the cluster. nil: none.
	Keys *keyring.Ring
	// Clock is the time by which ages count. nil: the wall clock.
	Clock *clock.Cluster
	// Calls gives the loads of plugins to those who share it. nil: nobody else asks.
	Calls *workqueue.Loads
}

// propose executes a command on all servers.
func propose[P any](ctx context.Context, d Deps, c fsm.Command[P], payload *P) error {
	_, err := fsm.Propose(ctx, d.Proposer, c, payload)
	return err
}

// runLeases grants and ends the leases of nodes.
func (d Deps) runLeases(ctx context.Context) {
	d.Leases.Run(ctx, leases.Deps{
		Store:    d.Store,
		Proposer: d.Proposer,
		Logger:   d.Logger,
		Term:     d.Term,
		Clock:    d.Clock,
	})
}

// firstConfig stores the first configuration of the scheduler.
func (d Deps) firstConfig() loops.SchedulerConfigLoop {
	return loops.SchedulerConfigLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Logger:   d.Logger,
		Config:   d.Config.Scheduler,
		Retry:    d.Config.Retry,
	}
}

// garbage deletes rows that ended long ago.
func (d Deps) garbage() garbage.Loop {
	return garbage.Loop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Logger:   d.Logger,
		Interval: d.Config.GCInterval,
		Clock:    d.Clock,
		Keep:     d.Config.GCKeep,
	}
}

// snapshotSchedules takes snapshots by their schedules, and deletes snapshots that are no longer kept.
func (d Deps) snapshotSchedules() workqueue.Runner {
	return volumes.NewScheduleLoop(volumes.ScheduleDeps{
		Store:    d.Store,
		Proposer: d.Proposer,
		Clock:    d.Clock,
		Logger:   d.Logger,
		Retry:    d.Config.Retry,
	})
}

// siTokens revokes tokens in Consul.
func (d Deps) siTokens() loops.ConsulTokenLoop {
	return loops.ConsulTokenLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Consul:   d.Consul,
		Clock:    d.Clock,
		Logger:   d.Logger,
		Retry:    d.Config.Retry,
	}
}

// runFence fences lost nodes.
func (d Deps) runFence(ctx context.Context) {
	loop := fence.Loop{
		Store:       d.Store,
		Proposer:    d.Proposer,
		Logger:      d.Logger,
		Now:         time.Now,
		Devices:     d.Fencers,
		MaxParallel: d.Config.FenceParallel,
	}
	loop.Run(ctx)
}

// runLeaseProofs releases the claims whose nodes end them with their leases.
func (d Deps) runLeaseProofs(ctx context.Context) {
	loop := fence.LeaseLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Logger:   d.Logger,
		Now:      time.Now,
	}
	loop.Run(ctx)
}

// runGrowth makes volumes larger before they are full.
func (d Deps) runGrowth(ctx context.Context) {
	loop := volumes.GrowthLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Nodes:    d.Nodes,
		Logger:   d.Logger,
	}
	loop.Run(ctx)
}

// runSeal encrypts secrets that are stored without encryption.
func (d Deps) runSeal(ctx context.Context) {
	loops.SealLoop{Store: d.Store, Proposer: d.Proposer, Keys: d.Keys, Logger: d.Logger}.Run(ctx)
}

// runSigningKeys keeps the keys of identities.
func (d Deps) runSigningKeys(ctx context.Context) {
	loop := loops.SigningKeyLoop{
		Store:       d.Store,
		Proposer:    d.Proposer,
		Keys:        d.Keys,
		Clock:       d.Clock,
		RotateAfter: d.Config.RotateSigning,
		Logger:      d.Logger,
	}
	loop.Run(ctx)
}

// capacity asks plugins for their free space.
func (d Deps) capacity() volumes.CapacityLoop {
	return volumes.CapacityLoop{Store: d.Store, Proposer: d.Proposer, Nodes: d.Nodes, Logger: d.Logger}
}

// drift compares the rows with what plugins list.
func (d Deps) drift() volumes.DriftLoop {
	return volumes.DriftLoop{Store: d.Store, Proposer: d.Proposer, Nodes: d.Nodes, Logger: d.Logger}
}

// runVolumeHealth reads the health of volumes from controllers.
func (d Deps) runVolumeHealth(ctx context.Context) {
	loop := volumes.HealthLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Nodes:    d.Nodes,
		Keys:     d.Keys,
		Logger:   d.Logger,
	}
	loop.Run(ctx)
}

// runAuthorityKey takes the authority of the files of this server.
func (d Deps) runAuthorityKey(ctx context.Context) {
	loop := loops.AuthorityKeyLoop{
		Store:    d.Store,
		Proposer: d.Proposer,
		Keys:     d.Keys,
		Files:    d.Config.Authority,
		Logger:   d.Logger,
	}
	loop.Run(ctx)
}

// Loop runs while this server leads. Run returns after ctx and everything that Run started have ended.
type Loop struct {
	Name string
	Run  func(ctx context.Context)
}

// Loops returns all leader loops. Each may run again after it has ended, in the next leadership.
func Loops(d Deps) []Loop {
	if d.Drains == nil {
		d.Drains = &sync.Mutex{}
	}

	if d.Keys == nil {
		d.Keys = &keyring.Ring{}
	}

	if d.Calls == nil {
		d.Calls = workqueue.NewLoads()
	}

	return []Loop{
		{"leases", d.runLeases},
		{"scheduler_config", d.firstConfig().Run},
		{"schedule", scheduleLoop{d, scheduler.Process}.run},
		{"controllers", controllerLoop{Deps: d}.runner().Run},
		{"capacity", d.capacity().Run},
		{"drift", d.drift().Run},
		{"volume_health", d.runVolumeHealth},
		{"reaper", reaperLoop{d}.runner().Run},
		{"fence", d.runFence},
		{"lease_proofs", d.runLeaseProofs},
		{"seal_secrets", d.runSeal},
		{"signing_keys", d.runSigningKeys},
		{"deployments", deploymentLoop{d}.runner().Run},
		{"drain", drainLoop{d}.run},
		{"growth", d.runGrowth},
		{"periodic", periodicLoop{d}.run},
		{"snapshot_schedules", d.snapshotSchedules().Run},
		{"si_tokens", d.siTokens().Run},
		{"gc", d.garbage().Run},
		{"authority", d.runAuthorityKey},
		{"gauges", loops.GaugeLoop{Store: d.Store, Calls: d.Calls}.Run},
	}
}
