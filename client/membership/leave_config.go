package membership

import (
	"time"

	"berth/structs"
)

// LeaveConfig is the agent's `client { drain_on_shutdown {} }`.
type LeaveConfig struct {
	// Deadline is the time after which the rest moves at once. Nil: DefaultLeaveDeadline.
	Deadline *time.Duration `hcl:"deadline"`
	// Force moves everything at once. CSI plugins stop even if the node still has volumes.
	Force bool `hcl:"force"`
	// IgnoreSystemJobs leaves the allocations of system and sysbatch jobs on the node.
	IgnoreSystemJobs bool `hcl:"ignore_system_jobs"`
}

// DefaultLeaveDeadline is the deadline of a drain whose configuration gives none.
const DefaultLeaveDeadline = time.Hour

// Validate names every fault. Nil has none.
func (c *LeaveConfig) Validate() error {
	if c == nil {
		return nil
	}
	deadline := c.deadline()
	if deadline <= 0 || deadline > structs.MaxDrainDeadline {
		return structs.Invalidf("client.drain_on_shutdown.deadline: %s is not within 1ns to %s",
			deadline, structs.MaxDrainDeadline)
	}
	return nil
}

func (c *LeaveConfig) deadline() time.Duration {
	if c.Deadline == nil {
		return DefaultLeaveDeadline
	}
	return *c.Deadline
}

// drainSpec is the drain that the node requests.
func (c *LeaveConfig) drainSpec() *structs.DrainSpec {
	spec := &structs.DrainSpec{
		Deadline:         c.deadline(),
		IgnoreSystemJobs: c.IgnoreSystemJobs,
	}
	if c.Force {
		spec.Deadline = -time.Second
	}
	return spec
}
