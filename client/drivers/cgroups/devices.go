package cgroups

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// DeviceRule lets the processes of a group open device files of one kind and number.
type DeviceRule struct {
	Block       bool   // a block device; else a character device
	Major       int64  // -1 is any
	Minor       int64  // likewise
	Permissions string // of "rwm": open for reading, for writing; mknod
}

// anyNumber is the wildcard of a rule.
const anyNumber = -1

// maxRules bounds the rules of a group. The kernel tries one after the other at each open of a device.
const maxRules = 512

// StandardDevices are the device files that every program may expect: null, zero, full, random, urandom, tty,
// ptmx and the pseudo terminals.
func StandardDevices() []DeviceRule {
	// The kernel makes the files of terminals.
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
	// A link is followed: rules are of numbers, and names may change.
	var st unix.Stat_t
	err := unix.Stat(path, &st)
	if err != nil {
		return DeviceRule{}, &os.PathError{Op: "stat", Path: path, Err: err}
	}

	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFBLK && kind != unix.S_IFCHR {
		return DeviceRule{}, fmt.Errorf("%s is not a device file", path)
	}

	if !validPermissions(permissions) {
		return DeviceRule{}, fmt.Errorf("%s: the permissions %q are not any of rwm", path, permissions)
	}

	return DeviceRule{
		Block:       kind == unix.S_IFBLK,
		Major:       int64(unix.Major(st.Rdev)),
		Minor:       int64(unix.Minor(st.Rdev)),
		Permissions: permissions,
	}, nil
}

// validPermissions reports whether there is a permission, and no other letter than rwm.
func validPermissions(permissions string) bool {
	return permissions != "" && strings.Trim(permissions, "rwm") == ""
}

// RestrictDevices lets the group use only the devices of the rules, which replace former ones. A device that
// both allow stays usable meanwhile, and one that neither allows stays out of reach. Without rules the call
// has no effect, and a new group may use any device. A machine that cannot restrict devices has that in
// Machine.Missing after Probe, as for every other limit: its groups get no rules.
func (g *Group) RestrictDevices(rules []DeviceRule) error {
	// A hybrid machine has both. v1 comes first, as for the other controllers.
	dir := cmp.Or(g.V1[Devices], g.V2)
	if len(rules) == 0 || dir == "" {
		return nil
	}
	restrict := restrictUnified
	if g.V1[Devices] != "" {
		restrict = restrictV1
	}
	merged, err := mergeRules(rules)
	if err == nil {
		err = restrict(dir, merged)
	}
	if err != nil {
		return fmt.Errorf("restricting the devices of the cgroup %s: %w", dir, err)
	}
	return nil
}

// mergeRules returns one rule for each of the devices, in the order of their numbers. The kernel allows a
// request only if one rule has all that it asks for: to open a device for reading and writing, two rules for
// one of them each are not enough.
func mergeRules(rules []DeviceRule) ([]DeviceRule, error) {
	merged := map[DeviceRule]string{} // the permissions by a rule without them
	for _, r := range rules {
		permissions := r.Permissions
		r.Permissions = ""
		if !validPermissions(permissions) || !validNumber(r.Major) || !validNumber(r.Minor) {
			return nil, fmt.Errorf("the rule %q for %s is invalid", permissions, r.devices())
		}

		merged[r] += permissions
	}

	if len(merged) > maxRules {
		return nil, fmt.Errorf("%d device rules: at most %d are allowed; mount fewer devices",
			len(merged), maxRules)
	}

	var list []DeviceRule
	for r, permissions := range merged {
		r.Permissions = without("rwm", without("rwm", permissions)) // each once
		list = append(list, r)
	}

	slices.SortFunc(list, func(a, b DeviceRule) int {
		return cmp.Or(
			cmp.Compare(a.Major, b.Major),
			cmp.Compare(a.Minor, b.Minor),
			cmp.Compare(a.devices(), b.devices()), // of the same number: block before character devices
		)
	})

	return list, nil
}

// validNumber reports whether a filter of v2 can compare the number: its constants are signed numbers of 32
// bits.
func validNumber(n int64) bool {
	return n >= anyNumber && n <= math.MaxInt32
}

// without returns the permissions that another string of them does not have.
func without(permissions, other string) string {
	return strings.Map(func(p rune) rune {
		if strings.ContainsRune(other, p) {
			return -1
		}
		return p
	}, permissions)
}

// devices returns the devices of a rule as the files of v1 have them, such as "c 136:*".
func (r DeviceRule) devices() string {
	kind := "c"
	if r.Block {
		kind = "b"
	}
	return kind + " " + numberText(r.Major) + ":" + numberText(r.Minor)
}

func numberText(n int64) string {
	if n == anyNumber {
		return "*"
	}
	return strconv.FormatInt(n, 10)
}

// restrictV1 turns the list of a group into other rules. A new group has the list of its parent, usually the
// line "a *:* rwm" for all devices. The surplus goes before the rules are added: the group never may use more
// devices than by the old or the new rules.
func restrictV1(dir string, rules []DeviceRule) error {
	list, err := os.ReadFile(filepath.Join(dir, "devices.list"))
	if err != nil {
		return err
	}

	kept := map[string]string{} // the permissions by devices
	for _, r := range rules {
		kept[r.devices()] = r.Permissions
	}

	for line := range strings.Lines(string(list)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			return fmt.Errorf("devices.list: %q is no rule", line)
		}

		devices := f[0] + " " + f[1]
		// The line for all devices matches no rule, so all of it is surplus: the kernel then denies what no
		// other line allows.
		surplus := without(f[2], kept[devices])
		if surplus == "" {
			continue
		}

		if err := writeControl(filepath.Join(dir, "devices.deny"), devices+" "+surplus); err != nil {
			return err
		}
	}

	for _, r := range rules {
		err := writeControl(filepath.Join(dir, "devices.allow"), r.devices()+" "+r.Permissions)
		if err != nil {
			return err
		}
	}

	return nil
}
