package quota

import (
	"slices"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
)

// The most that a quota may have.
const (
	maxBoundDevices = 128     // bounds on devices
	maxBoundVolumes = 128     // bounds on the volumes of plugins and classes
	mostNumber      = 1 << 48 // of a bound, except of bytes
)

var nameForm = field.Pattern(`^[a-zA-Z0-9-]{1,128}$`)

// ValidateGiven is Validate for what a user gives: a limit without a region is of the cluster's.
func (s *Spec) ValidateGiven() error {
	c := s.Copy()
	c.SetRegion(structs.DefaultRegion)
	return c.Validate()
}

// SetRegion sets the region of limits without one.
func (s *Spec) SetRegion(region string) {
	for _, l := range s.Limits {
		if l != nil && l.Region == "" {
			l.Region = region
		}
	}
}

// Validate returns every fault of a quota, each with its path. Whether its region is the cluster's is for the
// servers to decide.
func (s *Spec) Validate() error {
	f := field.New("")
	f.Require(s.Name != "", "quota: name is required")
	f.Require(s.Name == "" || nameForm().MatchString(s.Name),
		"quota: name %q must be 1 to 128 letters, digits and dashes", s.Name)

	f = f.At("quota %q", s.Name)
	f.CheckBytes("description", len(s.Description), structs.MaxDescription)
	f.Require(field.IsText(s.Description), "description must be text in UTF-8 without NUL")

	// A second limit would be of another region, and a cluster has one.
	f.Require(len(s.Limits) == 1 && s.Limits[0] != nil, "expected one limit block")
	for _, l := range s.Limits[:min(1, len(s.Limits))] {
		checkLimit(f, l)
	}
	return f.Err()
}

func checkLimit(f field.Errors, l *Limit) {
	if l == nil {
		return
	}
	f.CheckName("limit: region", l.Region)
	b := l.RegionLimit
	if b == nil {
		f.Addf("limit %q: region_limit is required", l.Region)
		return
	}

	f = f.At("limit %q", l.Region).At("region_limit")
	checkNumber(f, "cpu", b.CPU)
	checkNumber(f, "memory", b.MemoryMB)
	checkNumber(f, "memory_max", b.MemoryMaxMB)
	checkNumber(f, "allocations", b.Allocations)
	checkDevices(f, b.Devices)
	checkStorage(f.At("storage"), b.Storage)
}

func checkDevices(f field.Errors, devices []*DeviceBound) {
	names := map[string]bool{}
	for _, d := range field.FirstOf(f, "device", devices, maxBoundDevices) {
		if d == nil {
			f.Addf("device: expected a bound, found null")
			continue
		}

		f.Require(d.Name != "", "device: name is required")
		f.CheckString("device", d.Name, structs.MaxName)
		f.Require(!names[d.Name], "device %q is bounded twice", d.Name)
		names[d.Name] = true
		checkNumber(f.At("device %q", d.Name), "count", d.Count)
	}
}

func checkStorage(f field.Errors, s *StorageBound) {
	if s == nil {
		return
	}
	checkNumber(f, "volumes", s.Volumes)
	checkBytes(f, s.VolumeBytes)

	seen := map[[2]string]bool{}
	for _, v := range field.FirstOf(f, "plugin", s.Of, maxBoundVolumes) {
		if v == nil {
			f.Addf("plugin: expected a bound, found null")
			continue
		}
		if !slices.Contains(Kinds, v.Kind) {
			f.Addf("the kind of a bound is %.40q; expected one of %s", v.Kind, strings.Join(Kinds, ", "))
			continue
		}

		f.CheckName(v.Kind, v.Name)
		f.Require(!seen[[2]string{v.Kind, v.Name}], "%s %q is bounded twice", v.Kind, v.Name)
		seen[[2]string{v.Kind, v.Name}] = true
		f := f.At("%s %q", v.Kind, v.Name)
		checkNumber(f, "volumes", v.Volumes)
		checkBytes(f, v.Bytes)
	}
}

func checkNumber(f field.Errors, name string, n int) {
	f.Require(-1 <= n && n <= mostNumber,
		"%s is %d; expected -1 (nothing), 0 (no bound) or a number up to %d", name, n, mostNumber)
}

func checkBytes(f field.Errors, n int64) {
	f.Require(n >= -1, "bytes is %d; expected -1 (nothing), 0 (no bound) or a size", n)
}
