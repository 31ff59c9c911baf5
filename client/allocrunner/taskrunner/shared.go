package taskrunner

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/allocrunner/lifecycle"
	"berth/client/drivers/driver"
	"berth/client/hooks"
	"berth/client/mesh/services"
	"berth/client/store"
	"berth/structs"
)

// Drivers are the task drivers of a node.
type Drivers interface {
	// Driver finds a driver by its name. The error is invalid for an unknown name, and unavailable if the
	// driver cannot work now.
	Driver(name string) (driver.Driver, error)
	// FollowTask passes the events that drivers send about a task to handle. After stop it is not called.
	FollowTask(allocID, task string, handle func(*structs.TaskEvent)) (stop func())
}

// Shared is all that the tasks of an allocation share: facts of their node and of the allocation, and the
// calls by which they reach its runner. The runner makes one for all of its tasks. Nothing in it changes once
// the first task is attached.
type Shared struct {
	// Of the node:
	DB               *store.DB
	Drivers          Drivers
	Node             func() *structs.Node // the current row; the caller must not change it
	Region           string
	DeniedUsers      []string        // users that no task may run as
	MaxKillTimeout   time.Duration   // bounds the kill_timeout of tasks; 0 is no bound
	ServersContacted <-chan struct{} // closed: the servers have sent the allocations of this node
	// Hooks makes the hooks of a task, in the order of their Ups.
	Hooks func(env *hooks.AllocEnv, task *structs.Task) []hooks.Task
	// LeaseEnded reports whether an allocation ends with the lease of the node. nil: none does.
	LeaseEnded func(allocID string) bool

	// Of the allocation:
	Logger   hclog.Logger
	AllocID  string
	Dir      string
	Restored bool // the agent has found the allocation in the store
	Env      *hooks.AllocEnv
	Services *services.Set
	Orders   *lifecycle.Orders
	Phases   *lifecycle.Phases
	// Alloc returns the allocation as the servers last sent it, and Group its task group.
	Alloc func() *structs.Allocation
	Group func() *structs.TaskGroup
	// Members returns the tasks of the allocation.
	Members func() []lifecycle.Member

	// Changed is called after each change of the state of a task, Ended once a task is dead, before the Downs
	// of its hooks. Both are called without a lock of the task.
	Changed func()
	Ended   func(*Task)
}

// facts returns the facts of a task that sees some directories.
func (s *Shared) facts(task *structs.Task, dirs driver.Dirs) taskFacts {
	return taskFacts{
		alloc:   s.Alloc(),
		group:   s.Group(),
		task:    task,
		node:    s.Node(),
		dirs:    dirs,
		region:  s.Region,
		network: s.NetworkStatus(),
	}
}

// NetworkStatus returns the network of the allocation once a hook has made it, nil for the node's.
func (s *Shared) NetworkStatus() *structs.AllocNetworkStatus {
	n := s.Env.Network()
	if n == nil {
		return nil
	}
	return n.Status
}

// Expander returns the function that replaces the references to variables that do not depend on a task.
func (s *Shared) Expander() func(string) string {
	_, vars := s.facts(&structs.Task{}, driver.Inside).variables()
	return vars.expand
}
