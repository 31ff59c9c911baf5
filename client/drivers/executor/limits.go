package executor

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// defaultCgroupParent is the cgroup below which each task has its own, in every hierarchy.
const defaultCgroupParent = "berth"

// defaultPIDsLimit is the most processes and threads that a task may have at a time.
const defaultPIDsLimit = 4096

// minPIDsLimit is enough for a small program to start.
const minPIDsLimit = 8

// CgroupConfig has the settings of a driver that bound its tasks. "" and 0 select the defaults.
type CgroupConfig struct {
	// CgroupParent is the cgroup below which each task has its own.
	CgroupParent string `hcl:"cgroup_parent"`
	// PIDsLimit is the most processes and threads that a task may have at a time; -1 is no limit.
	PIDsLimit int `hcl:"pids_limit"`
}

// DefaultCgroupConfig has the values of missing settings.
func DefaultCgroupConfig() CgroupConfig {
	return CgroupConfig{CgroupParent: defaultCgroupParent, PIDsLimit: defaultPIDsLimit}
}

// Faults lists the invalid settings of a driver.
func (c CgroupConfig) Faults(driver string) []error {
	var faults []error
	p := c.CgroupParent
	if p != "" && (p != filepath.Clean(p) || !filepath.IsLocal(p)) {
		faults = append(faults,
			fmt.Errorf("%s.cgroup_parent: %q: expected a name such as %q", driver, p, defaultCgroupParent))
	}
	n := c.PIDsLimit
	if n != 0 && n != -1 && n < minPIDsLimit {
		faults = append(faults,
			fmt.Errorf("%s.pids_limit: %d: expected at least %d, or -1 for no limit",
				driver, n, minPIDsLimit))
	}
	return faults
}

// limiter finds out whether tasks of this machine can have cgroups. It does not repeat a check that has
// succeeded, because a check makes a cgroup.
type limiter struct {
	parent string
	pids   int64

	mu      sync.Mutex       // held during a check
	machine *cgroups.Machine // nil before the first check
	err     error            // of the last check; it is repeated while there is one
}

func newLimiter(c CgroupConfig) *limiter {
	pids := max(cmp.Or(c.PIDsLimit, defaultPIDsLimit), 0)
	return &limiter{
		parent: cmp.Or(c.CgroupParent, defaultCgroupParent),
		pids:   int64(pids),
	}
}

func (l *limiter) probe() (*cgroups.Machine, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.machine == nil || l.err != nil {
		l.machine = cgroups.Detect()
		l.err = l.machine.Probe(l.parent)
	}
	return l.machine, l.err
}

// RestrictsDevices reports whether the cgroups of tasks can restrict their devices.
func (ts *Tasks) RestrictsDevices() bool {
	m, err := ts.limits.probe()
	return err == nil && m.Missing[cgroups.Devices] == ""
}

// cgroup returns the cgroup for a task's Spec, nil if this machine has none.
func (l *limiter) cgroup(r structs.Resources) *Cgroup {
	machine, err := l.probe()
	if err != nil {
		return nil
	}
	limits := limitsOf(r)
	limits.PIDs = l.pids
	return &Cgroup{Machine: machine, Parent: l.parent, Limits: limits}
}

// TaskGroup returns the cgroup that a task has, or will have once it is started. It reports false if the
// tasks of this machine have none.
func (ts *Tasks) TaskGroup(id string) (*cgroups.Group, bool) {
	machine, err := ts.limits.probe()
	if err != nil {
		return nil, false
	}
	return machine.Path(ts.limits.parent, filepath.Base(ts.DirOf(id))), true
}

// Healthy returns the report of a working driver: its attributes name the controllers in use, its description
// the limits that are not enforced, with reasons.
func (ts *Tasks) Healthy() *structs.DriverInfo {
	used := "none"
	var lacking []string
	m, err := ts.limits.probe()
	if err != nil {
		lacking = []string{"resource limits are not enforced: " + err.Error()}
	} else {
		used = strings.Join(m.Controllers(), ",")
		limited := []string{cgroups.CPU, cgroups.Memory, cgroups.PIDs, cgroups.Devices}
		for _, c := range limited {
			if why := m.Missing[c]; why != "" {
				lacking = append(lacking, c+" limits are not enforced: "+why)
			}
		}
	}

	description := "Healthy"
	if len(lacking) > 0 {
		description += ", but " + strings.Join(lacking, "; ")
	}

	return &structs.DriverInfo{
		Detected:          true,
		Healthy:           true,
		HealthDescription: description,
		UpdateTime:        time.Now(),
		Attributes: map[string]string{
			structs.AttrNetworkNamespace(ts.driver): "1",

			"driver." + ts.driver:              "1",
			"driver." + ts.driver + ".cgroups": used,
		},
	}
}
