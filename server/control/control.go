package control

import (
	"context"
	"sync"
	"time"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/internal/idtoken"
	"berth/internal/keyring"
	"berth/scheduler"
	"berth/server/authority"
	loops "berth/server/control/cluster"
	"berth/server/control/fence"
	"berth/server/control/garbage"
	"berth/server/control/loop"
	"berth/server/control/volumes"
	"berth/server/control/workqueue"
	"berth/server/leases"
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
	loop.Common
	Leases  *leases.Leases
	Term    uint64       // Raft's term of the leadership; not 0
	Consul  loops.Consul // nil: the servers use no Consul
	Fencers fence.Devices
	Config  Config
	// Drains is held while a drain takes a step, and while a request changes one: a step acts on the drain
	// for which it was planned. nil: nothing else changes drains.
	Drains sync.Locker
	// Calls gives the loads of plugins to those who share it. nil: nobody else asks.
	Calls *workqueue.Loads
}

// propose executes a command on all servers.
func propose[P any](ctx context.Context, d Deps, c fsm.Command[P], payload *P) error {
	_, err := fsm.Propose(ctx, d.Proposer, c, payload)
	return err
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
		{"leases", func(ctx context.Context) { d.Leases.Run(ctx, leases.Deps{Common: d.Common, Term: d.Term}) }},
		{"scheduler_config", loops.SchedulerConfigLoop{
			Common: d.Common,
			Config: d.Config.Scheduler,
			Retry:  d.Config.Retry,
		}.Run},
		{"schedule", scheduleLoop{d, scheduler.Process}.run},
		{"controllers", controllerLoop{Deps: d}.runner().Run},
		{"capacity", volumes.CapacityLoop{Common: d.Common}.Run},
		{"drift", volumes.DriftLoop{Common: d.Common}.Run},
		{"volume_health", volumes.HealthLoop{Common: d.Common}.Run},
		{"reaper", reaperLoop{d}.runner().Run},
		{"fence", func(ctx context.Context) {
			l := fence.Loop{
				Common:      d.Common,
				Now:         time.Now,
				Devices:     d.Fencers,
				MaxParallel: d.Config.FenceParallel,
			}
			l.Run(ctx)
		}},
		{"lease_proofs", func(ctx context.Context) {
			l := fence.LeaseLoop{Common: d.Common, Now: time.Now}
			l.Run(ctx)
		}},
		{"seal_secrets", loops.SealLoop{Common: d.Common}.Run},
		{"signing_keys", loops.SigningKeyLoop{Common: d.Common, RotateAfter: d.Config.RotateSigning}.Run},
		{"deployments", deploymentLoop{d}.runner().Run},
		{"drain", drainLoop{d}.run},
		{"growth", volumes.GrowthLoop{Common: d.Common}.Run},
		{"periodic", periodicLoop{d}.run},
		{"snapshot_schedules", volumes.ScheduleLoop{Common: d.Common, Retry: d.Config.Retry}.Runner().Run},
		{"si_tokens", loops.ConsulTokenLoop{Common: d.Common, Consul: d.Consul, Retry: d.Config.Retry}.Run},
		{"gc", garbage.Loop{Common: d.Common, Interval: d.Config.GCInterval, Keep: d.Config.GCKeep}.Run},
		{"authority", loops.AuthorityKeyLoop{Common: d.Common, Files: d.Config.Authority}.Run},
		{"gauges", loops.GaugeLoop{Common: d.Common, Calls: d.Calls}.Run},
	}
}
