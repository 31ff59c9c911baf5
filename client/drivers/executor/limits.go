package executor

import (
	"strings"
	"sync"

	"berth/client/cgroups"
	"berth/structs"
)

// DefaultCgroupParent is the cgroup below which each task has its own, in every hierarchy.
const DefaultCgroupParent = "berth"

// Limiter knows whether tasks of this machine can have cgroups. Being found out costs a little, so what
// works is not tried again.
type Limiter struct {
	Parent string

	mu      sync.Mutex
	machine *cgroups.Machine
	err     error
}

func (l *Limiter) probe() (*cgroups.Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.machine == nil || l.err != nil {
		l.machine = cgroups.Detect()
		l.err = l.machine.Probe(l.Parent)
	}
	return l.machine, l.err
}

// Cgroup is what a task's Spec says of its cgroup: nil where this machine cannot have any.
func (l *Limiter) Cgroup(r structs.Resources) *Cgroup {
	if _, err := l.probe(); err != nil {
		return nil
	}
	return &Cgroup{Parent: l.Parent, Limits: LimitsOf(r)}
}

// Describe says which controllers are used, and what is not enforced and why ("" if all is).
func (l *Limiter) Describe() (used, lacking string) {
	m, err := l.probe()
	if err != nil {
		return "none", "resource limits are not enforced: " + err.Error()
	}
	var missing []string
	for _, c := range []string{cgroups.CPU, cgroups.Memory} {
		if why := m.Missing[c]; why != "" {
			missing = append(missing, c+" limits are not enforced: "+why)
		}
	}
	return strings.Join(m.Controllers(), ","), strings.Join(missing, "; ")
}
