package control

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/fsm"
	"berth/internal/backoff"
	"berth/scheduler"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
)

// Config tunes the loops.
type Config struct {
	Leases LeaseConfig

	CallTimeout    time.Duration   // of one call to a node
	CallsPerPlugin int             // controller calls in flight at once
	CallsPerNode   int             // detach calls in flight at once
	Retry          backoff.Backoff // of a call that may succeed when it is made again
	FinalRetry     time.Duration   // of a call that was denied: permission may be given meanwhile
	// OutcomeWait is how long a controller call may still take effect after it was sent to a node that cannot be
	// asked any more. Until then it is neither repeated elsewhere nor undone.
	OutcomeWait    time.Duration
	ReapGrace      time.Duration // how long a node may take to release an ended allocation's claims by itself
	EvalAttempts   int           // failures after which an evaluation is given up
	GCInterval     time.Duration
	MountGrace     time.Duration // for which a claim that was just granted is left to its node
	GCKeep         GCThresholds
	GCBatch        int           // rows deleted by one log entry
	SchedulerBatch int           // evaluations processed before their order is read again
	GaugeInterval  time.Duration // between two counts of the rows that metrics show
}

// DefaultConfig is what suits a small and a large cluster alike.
func DefaultConfig() Config {
	return Config{
		Leases:         DefaultLeaseConfig(),
		CallTimeout:    2 * time.Minute,
		CallsPerPlugin: 8,
		CallsPerNode:   8,
		Retry:          backoff.Backoff{Min: 250 * time.Millisecond, Max: 30 * time.Second},
		FinalRetry:     time.Minute,
		MountGrace:     time.Minute,
		OutcomeWait:    structs.CallSettles,
		ReapGrace:      10 * time.Second,
		EvalAttempts:   5,
		GCInterval:     5 * time.Minute,
		GCKeep:         GCThresholds{Eval: time.Hour, Job: 4 * time.Hour, Node: 24 * time.Hour},
		GCBatch:        512,
		SchedulerBatch: 64,
		GaugeInterval:  10 * time.Second,
	}
}

// Validate names every value that no loop could work with.
func (c Config) Validate() error {
	var faults []error
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"leases: ttl", float64(c.Leases.TTL)},
		{"leases: grace", float64(c.Leases.Grace)},
		{"call timeout", float64(c.CallTimeout)},
		{"calls per plugin", float64(c.CallsPerPlugin)},
		{"calls per node", float64(c.CallsPerNode)},
		{"retry: min", float64(c.Retry.Min)},
		{"retry: max", float64(c.Retry.Max)},
		{"final retry", float64(c.FinalRetry)},
		{"mount grace", float64(c.MountGrace)},
		{"outcome wait", float64(c.OutcomeWait)},
		{"evaluation attempts", float64(c.EvalAttempts)},
		{"gc interval", float64(c.GCInterval)},
		{"gc batch", float64(c.GCBatch)},
		{"scheduler batch", float64(c.SchedulerBatch)},
		{"gauge interval", float64(c.GaugeInterval)},
	} {
		if v.value <= 0 {
			fault := structs.Errorf(structs.KindInvalid, "%s is %v; expected more than 0", v.name, v.value)
			faults = append(faults, fault)
		}
	}
	return errors.Join(faults...)
}

// entryMost is how much one log entry carries at most.
const entryMost = 4096

// Deps are what the loops work with. Leases is shared with the endpoints, which renew them.
type Deps struct {
	Store    *state.Store
	Proposer fsm.Proposer
	Nodes    nodeconn.Caller
	Leases   *Leases
	Logger   hclog.Logger
	Now      func() time.Time
	Config   Config
}

// Loop runs while this server leads. Run returns when ctx has ended and all it started has too.
type Loop struct {
	Name string
	Run  func(ctx context.Context)
}

// Loops are all there are. Each may be run again after it has ended, for the next time of leading.
func Loops(d Deps) []Loop {
	return []Loop{
		{"leases", leaseLoop{d}.run},
		{"schedule", scheduleLoop{d, scheduler.Process}.run},
		{"controllers", controllerLoop{Deps: d}.run},
		{"reaper", reaperLoop{d}.run},
		{"gc", gcLoop{d}.run},
		{"gauges", gaugeLoop{d}.run},
	}
}
