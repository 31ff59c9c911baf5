package cgroups

import (
	"fmt"
	"os"
	"strings"

	"github.com/opencontainers/cgroups"
	_ "github.com/opencontainers/cgroups/devices" // sets cgroups.DevicesSetV1 and DevicesSetV2
	devices "github.com/opencontainers/cgroups/devices/config"
	"golang.org/x/sys/unix"
)

// DeviceRule lets the processes of a group open device files of one kind and number.
type DeviceRule struct {
	Block       bool  // a block device; else a character device
	Major       int64 // -1 is any
	Minor       int64 // likewise
	Permissions string
}

// anyNumber is the wildcard of a rule.
const anyNumber = -1

// StandardDevices are the device files that every program may expect: null, zero, full, random, urandom, tty,
// ptmx and the pseudo terminals.
func StandardDevices() []DeviceRule {
	// The kernel makes the files of terminals. So one rule is not "rwm": if all were, the library would take it
	// for success that the kernel refuses the rules.
	rules := []DeviceRule{{Major: 136, Minor: anyNumber, Permissions: "rw"}}
	for _, number := range [][2]int64{{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {5, 2}} {
		rules = append(rules, DeviceRule{
			Major:       number[0],
			Minor:       number[1],
			Permissions: "rwm",
		})
	}
	return rules
}

// RuleOf returns the rule for a device file. permissions are any of "rwm".
func RuleOf(path, permissions string) (DeviceRule, error) {
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err != nil {
		return DeviceRule{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFBLK && kind != unix.S_IFCHR {
		return DeviceRule{}, fmt.Errorf("%s is not a device file", path)
	}
	if permissions == "" || strings.Trim(permissions, "rwm") != "" {
		return DeviceRule{}, fmt.Errorf("%s: the permissions %q are not any of rwm", path, permissions)
	}
	return DeviceRule{
		Block:       kind == unix.S_IFBLK,
		Major:       int64(unix.Major(st.Rdev)),
		Minor:       int64(unix.Minor(st.Rdev)),
		Permissions: permissions,
	}, nil
}

// RestrictDevices lets the group use only the devices of the rules. Without rules it may use any. A machine
// that cannot restrict devices has that in Machine.Missing after Probe, as for every other limit: its groups
// get no rules.
func (g *Group) RestrictDevices(rules []DeviceRule) error {
	if len(rules) == 0 {
		return nil
	}
	r := &cgroups.Resources{}
	for _, rule := range rules {
		kind := devices.CharDevice
		if rule.Block {
			kind = devices.BlockDevice
		}
		r.Devices = append(r.Devices, &devices.Rule{
			Type:        kind,
			Major:       rule.Major,
			Minor:       rule.Minor,
			Permissions: devices.Permissions(rule.Permissions),
			Allow:       true,
		})
	}
	var err error
	switch {
	case g.V1[Devices] != "":
		err = cgroups.DevicesSetV1(g.V1[Devices], r)
	case g.V2 != "":
		err = cgroups.DevicesSetV2(g.V2, r)
	}
	if err != nil {
		return fmt.Errorf("restricting the devices of a cgroup: %w", err)
	}
	return nil
}
