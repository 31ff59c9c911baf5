package invariant

import (
	"fmt"
	"strings"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/quota"
)

// use is what namespaces have of a quota, counted anew from the rows of allocations and volumes. It counts
// devices of all kinds together.
type use struct {
	allocs, cpu, memory, devices, volumes int
}

// WithinQuotas finds quotas of which their namespaces have more together than it allows. It holds where no
// bound is ever lowered.
func WithinQuotas(v *View) (faults []string) {
	for s := range namespace.Quotas(v.Tx) {
		short := v.quotaUse(s.Name).exceeds(s)
		if short != "" {
			faults = append(faults, fmt.Sprintf("quota %s: %s", s.Name, short))
		}
	}
	return faults
}

// quotaOf returns the quota that a namespace names, nil if it names none.
func (v *View) quotaOf(ns string) *quota.Spec {
	n := namespace.Get(v.Tx, ns)
	if n == nil || n.Quota == "" {
		return nil
	}
	return namespace.Quota(v.Tx, n.Quota)
}

// quotaUse adds up what all namespaces with a quota have: allocations that have not ended and are not to end,
// and volumes.
func (v *View) quotaUse(name string) (u use) {
	names := func(namespace string) bool {
		s := v.quotaOf(namespace)
		return s != nil && s.Name == name
	}
	for _, a := range v.Allocs {
		if a.DesiredStatus != structs.AllocDesiredRun || a.ClientTerminal() || !names(a.Namespace) {
			continue
		}
		u.allocs++
		u.cpu += a.Resources.CPU
		u.memory += a.Resources.MemoryMB
		for _, groups := range a.Devices {
			for _, d := range groups {
				u.devices += len(d.DeviceIDs)
			}
		}
	}
	for volume := range csi.VolumesFrom(v.Tx, structs.AllNamespaces, "", state.Page{}) {
		if names(volume.Namespace) {
			u.volumes++
		}
	}
	return u
}

// exceeds names the amounts beyond the bounds of a quota, "" for none. It knows one bound of devices.
func (u use) exceeds(s *quota.Spec) string {
	b := s.Limits[0].RegionLimit
	var all []string
	beyond := func(name string, used, most int) {
		if most != 0 && used > max(most, 0) {
			all = append(all, fmt.Sprintf("%d %s of %d", used, name, most))
		}
	}
	beyond("allocations", u.allocs, b.Allocations)
	beyond("MHz", u.cpu, b.CPU)
	beyond("MiB", u.memory, b.MemoryMB)
	for _, d := range b.Devices {
		beyond("devices", u.devices, d.Count)
	}
	if b.Storage != nil {
		beyond("volumes", u.volumes, b.Storage.Volumes)
	}
	return strings.Join(all, ", ")
}

// quotaLeft reports whether the quota of the namespace of a job has one more allocation of a group left.
func (v *View) quotaLeft(w want) bool {
	s := v.quotaOf(w.job.Namespace)
	if s == nil {
		return true
	}
	u := v.quotaUse(s.Name)
	u.allocs++
	for _, t := range w.group.Tasks {
		u.cpu += t.Resources.CPU
		u.memory += t.Resources.MemoryMB
		for _, d := range t.Resources.Devices {
			u.devices += int(d.Count)
		}
	}
	return u.exceeds(s) == ""
}
