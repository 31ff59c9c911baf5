package compose

import (
	"strconv"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// mhzPerCPU is the CPU time that stands for one processor.
const mhzPerCPU = 1000

func number[T ~int | ~int64 | ~uint64](n T) string { return strconv.FormatInt(int64(n), 10) }

// count sets the instances of a group, whose services have one number of them. A service that only prepares
// another one has no number.
func (c *converter) count(g *structs.TaskGroup, members []string) {
	first := ""
	for _, name := range members {
		s := c.project.Services[name]
		n := s.GetScale()
		switch {
		case c.before(name) != "":
		case first == "":
			first = name
			g.Count = n
		case n != g.Count:
			c.note(g.Name, "not carried: %d instances of %s: the tasks of a group have one count", n, name)
		}
	}
}

// deploy notes the parts of a deploy block that a job has elsewhere.
func (c *converter) deploy(g *structs.TaskGroup, s *types.ServiceConfig) {
	if s.Deploy == nil {
		return
	}
	if s.Deploy.Mode == "global" {
		c.note(g.Name, "not carried: mode global: put the group into a job of its own with type = \"system\"")
	}
	d := s.Deploy
	for _, p := range d.Placement.Constraints {
		c.lost(g.Name, "constraint "+p, "write a constraint on an attribute or a meta of the node")
	}
	if len(d.Placement.Preferences) > 0 {
		c.lost(g.Name, "placement preferences", "write a spread")
	}
	if d.Placement.MaxReplicas > 0 {
		c.lost(g.Name, "max_replicas_per_node", "write a constraint with distinct_hosts")
	}
	if d.UpdateConfig != nil || d.RollbackConfig != nil {
		c.lost(g.Name, "update_config", "write an update block; without one, one instance is replaced at a time")
	}
	if len(d.Labels) > 0 {
		c.lost(g.Name, "labels of deploy", "write them into meta")
	}
	if d.EndpointMode != "" {
		c.lost(g.Name, "endpoint_mode", "services have the addresses of their instances")
	}
}

// resources sets what a task reserves. Without a reservation, its limit is reserved.
func (c *converter) resources(place string, t *structs.Task, s *types.ServiceConfig) {
	cpus := float64(s.CPUS)
	most := int64(s.MemLimit)
	least := int64(s.MemReservation)
	if s.Deploy != nil {
		if l := s.Deploy.Resources.Limits; l != nil {
			cpus = max(cpus, float64(l.NanoCPUs))
			most = max(most, int64(l.MemoryBytes))
			c.others(place, l)
		}
		if r := s.Deploy.Resources.Reservations; r != nil {
			if r.NanoCPUs > 0 {
				cpus = float64(r.NanoCPUs)
			}
			least = max(least, int64(r.MemoryBytes))
			c.others(place, r)
		}
	}

	r := &structs.Resources{}
	// A number that is none, or too large, fails the comparison.
	switch mhz := cpus * mhzPerCPU; {
	case cpus == 0:
	case mhz >= 1 && mhz <= structs.MaxCPU:
		r.CPU = int(mhz)
		c.note(place, "%g processors are %d MHz here: write the MHz that the task needs", cpus, r.CPU)
	default:
		c.lost(place, "cpus", "the number is out of bounds; write cpu in MHz")
	}
	r.MemoryMB = c.megabytes(place, "memory", least)
	limit := c.megabytes(place, "memory", most)
	switch {
	case r.MemoryMB == 0:
		r.MemoryMB = limit
	case limit > r.MemoryMB:
		r.MemoryMaxMB = limit
	}
	if r.CPU > 0 || r.MemoryMB > 0 {
		t.Resources = r
	}
}

// others notes the resources that a task asks for otherwise.
func (c *converter) others(place string, r *types.Resource) {
	if r.Pids != 0 {
		c.lost(place, "pids of resources", "write pids_limit")
	}
	if len(r.Devices)+len(r.GenericResources) > 0 {
		c.lost(place, "devices of resources", "ask for them by device in resources")
	}
}

// megabytes returns a number of bytes in MiB, rounded up, and 0 for a number out of bounds.
func (c *converter) megabytes(place, name string, bytes int64) int {
	mb := bytes >> 20
	if bytes&(1<<20-1) != 0 {
		mb++
	}
	if mb < 0 || mb > structs.MaxMemoryMB {
		c.lost(place, name, "the number is out of bounds; write memory in MiB")
		return 0
	}
	return int(mb)
}

// restart sets the policy of restarts, unless it is the usual one: berth starts a service again.
func (c *converter) restart(place string, t *structs.Task, s *types.ServiceConfig) {
	attempts := ""
	of, isBounded := strings.CutPrefix(s.Restart, "on-failure:")
	if isBounded {
		attempts = of
	}
	if s.Deploy != nil && s.Deploy.RestartPolicy != nil {
		p := s.Deploy.RestartPolicy
		if p.MaxAttempts != nil {
			attempts = number(*p.MaxAttempts)
		}
		if p.Condition == "none" {
			attempts = "0"
		}
		if p.Delay != nil || p.Window != nil {
			c.lost(place, "delay and window of restart_policy", "write a restart block")
		}
	}
	if attempts == "" {
		return
	}

	n, err := strconv.Atoi(attempts)
	if err != nil || n < 0 || n > maxAttempts {
		c.lost(place, "the attempts of restart", "the number is out of bounds; write a restart block")
		return
	}
	t.RestartPolicy = &structs.RestartPolicy{
		Attempts: n,
		Interval: 30 * time.Minute,
		Delay:    15 * time.Second,
		Mode:     structs.RestartModeFail,
	}
	c.note(place, "after %d restarts the allocation fails, and another one may replace it: see reschedule", n)
}

// maxAttempts is the most restarts that are carried.
const maxAttempts = 1000
