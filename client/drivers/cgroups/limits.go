package cgroups

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// The bounds of the kernel's cpu.shares (v1) and cpu.weight (v2).
const (
	minShares, maxShares = 2, 262144
	minWeight, maxWeight = 1, 10000
)

// cpuPeriod is the kernel's default time, in microseconds, in which a group may use its CPUCores.
const cpuPeriod = 100_000

// quotaFile bounds the processors of a group of v1.
const quotaFile = "cpu.cfs_quota_us"

// control is a value for one control file. A kernel may lack an optional one (swap accounting is a boot
// option).
type control struct {
	controller string
	file       string
	value      int64 // zero is not written
	optional   bool
}

// controlsV1 has the limit of memory before the one of memory and swap: the kernel rejects the second one
// below the first.
func (l Limits) controlsV1() []control {
	return []control{
		{CPU, "cpu.shares", int64(cpuShares(l.CPUShares)), false},
		{CPU, quotaFile, int64(l.CPUCores) * cpuPeriod, true},
		{Memory, "memory.limit_in_bytes", l.MemoryBytes, false},
		{Memory, "memory.memsw.limit_in_bytes", l.MemoryBytes, true},
		{Memory, "memory.soft_limit_in_bytes", l.MemoryReserve, true},
		{PIDs, "pids.max", l.PIDs, false},
	}
}

// controlsV2 has no limit of swap, which v2 counts apart from memory: see applyLimits.
func (l Limits) controlsV2() []control {
	return []control{
		{CPU, "cpu.weight", int64(cpuWeight(l.CPUShares)), false},
		{CPU, "cpu.max", int64(l.CPUCores) * cpuPeriod, true},
		{Memory, "memory.max", l.MemoryBytes, false},
		{Memory, "memory.low", l.MemoryReserve, true},
		{PIDs, "pids.max", l.PIDs, false},
	}
}

// applyLimits writes the limits that are not zero into the hierarchies that have the controller.
func (g *Group) applyLimits(l Limits) error {
	for _, c := range l.controlsV1() {
		if dir := g.V1[c.controller]; dir != "" {
			if err := c.writeLimit(dir); err != nil {
				return err
			}
		}
	}

	if g.V2 == "" {
		return nil
	}

	for _, c := range l.controlsV2() {
		// On a hybrid machine v1 has the controller, and this hierarchy does not.
		if g.V1[c.controller] == "" && hasController(g.V2, c.controller) {
			if err := c.writeLimit(g.V2); err != nil {
				return err
			}
		}
	}

	if l.MemoryBytes <= 0 || !hasController(g.V2, Memory) {
		return nil
	}

	// Swap without a limit would bypass the memory limit.
	return ignoreUnavailable(writeControl(filepath.Join(g.V2, "memory.swap.max"), "0"))
}

func (c control) writeLimit(dir string) error {
	if c.value == 0 {
		return nil
	}

	err := writeControl(filepath.Join(dir, c.file), strconv.FormatInt(c.value, 10))
	if c.file == quotaFile && errors.Is(err, unix.EINVAL) {
		return nil // a group above has less, which holds here too
	}
	if c.optional {
		return ignoreUnavailable(err)
	}
	return err
}

// ignoreUnavailable drops the error of a control file that this kernel or this container does not have.
func ignoreUnavailable(err error) error {
	if errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, os.ErrPermission) {
		return nil
	}
	return err
}

// hasController reports whether a directory of the unified hierarchy has the controller.
func hasController(dir, controller string) bool {
	_, err := os.Stat(filepath.Join(dir, probeFile[controller]))
	return err == nil
}

// probeFile has a file of each controller that a group has only with the controller.
var probeFile = map[string]string{
	CPU:    "cpu.weight",
	Memory: "memory.max",
	PIDs:   "pids.max",
}

// cpuShares brings a weight into the bounds of the kernel. A weight of 1 MHz is one share. Zero stays zero,
// which is no limit.
func cpuShares(mhz int) int {
	if mhz == 0 {
		return 0
	}
	return min(max(mhz, minShares), maxShares)
}

// cpuWeight maps cpu.shares onto cpu.weight linearly, as container runtimes do.
func cpuWeight(mhz int) int {
	if mhz == 0 {
		return 0
	}
	above := cpuShares(mhz) - minShares
	return minWeight + above*(maxWeight-minWeight)/(maxShares-minShares)
}
