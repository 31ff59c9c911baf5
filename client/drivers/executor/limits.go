package executor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/client/cgroups"
	"berth/structs"
)

// DefaultCgroupParent is the cgroup below which each task has its own, in every hierarchy.
const DefaultCgroupParent = "berth"

// CheckCgroupParent describes the fault of a configured parent, "" if it is valid. An empty one has its
// default.
func CheckCgroupParent(field, parent string) string {
	if parent == "" || parent == filepath.Clean(parent) && filepath.IsLocal(parent) {
		return ""
	}
	return fmt.Sprintf("%s: %q: expected a name such as %q", field, parent, DefaultCgroupParent)
}

// DefaultPIDsLimit is the most processes and threads that a task may have at a time.
const DefaultPIDsLimit = 4096

// minPIDsLimit leaves a small program room to start.
const minPIDsLimit = 8

// CheckPIDsLimit returns the fault of a configured limit, "" if there is none; 0 is DefaultPIDsLimit.
func CheckPIDsLimit(field string, n int) string {
	if n == 0 || n == -1 || n >= minPIDsLimit {
		return ""
	}
	return fmt.Sprintf("%s: %d: expected at least %d, or -1 for no limit", field, n, minPIDsLimit)
}

// Limiter knows whether tasks of this machine can have cgroups. The check costs a little, so it does not
// repeat one that has succeeded.
type Limiter struct {
	parent string
	pids   int64

	mu      sync.Mutex
	machine *cgroups.Machine
	err     error
}

// NewLimiter makes cgroups below a parent, DefaultCgroupParent for "", with room for so many processes and
// threads in each: DefaultPIDsLimit for 0, any number for -1.
func NewLimiter(parent string, pids int) *Limiter {
	pids = max(cmp.Or(pids, DefaultPIDsLimit), 0)
	return &Limiter{parent: cmp.Or(parent, DefaultCgroupParent), pids: int64(pids)}
}

func (l *Limiter) probe() (*cgroups.Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.machine == nil || l.err != nil {
		l.machine = cgroups.Detect()
		l.err = l.machine.Probe(l.parent)
	}
	return l.machine, l.err
}

// Cgroup returns the cgroup for a task's Spec, nil if this machine has none.
func (l *Limiter) Cgroup(r structs.Resources) *Cgroup {
	if _, err := l.probe(); err != nil {
		return nil
	}
	limits := limitsOf(r)
	limits.PIDs = l.pids
	return &Cgroup{Parent: l.parent, Limits: limits}
}

// Fingerprint returns the report of a working driver: its attributes name the controllers in use, its
// description the limits that are not enforced, with reasons.
func (l *Limiter) Fingerprint(name string) *structs.DriverInfo {
	used, lacking := l.describe()
	description := "Healthy"
	if lacking != "" {
		description = "Healthy, but " + lacking
	}
	return &structs.DriverInfo{
		Detected: true, Healthy: true, HealthDescription: description, UpdateTime: time.Now(),
		Attributes: map[string]string{"driver." + name: "1", "driver." + name + ".cgroups": used},
	}
}

// describe returns the controllers in use, and the limits that are not enforced, with reasons ("" for none).
func (l *Limiter) describe() (used, lacking string) {
	m, err := l.probe()
	if err != nil {
		return "none", "resource limits are not enforced: " + err.Error()
	}
	var missing []string
	for _, c := range []string{cgroups.CPU, cgroups.Memory, cgroups.PIDs} {
		if why := m.Missing[c]; why != "" {
			missing = append(missing, c+" limits are not enforced: "+why)
		}
	}
	return strings.Join(m.Controllers(), ","), strings.Join(missing, "; ")
}
