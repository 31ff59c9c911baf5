package devices

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-hclog"

	"berth/structs"
)

// hostName is the name of the built-in plugin.
const hostName = "host"

// scanInterval is the time between two looks for device files.
const scanInterval = 5 * time.Second

// HostGroup is a device group of the built-in plugin: the device files that match one of the paths. A file
// that was seen and is gone stays in the group as an unhealthy device.
type HostGroup struct {
	ID          string         `hcl:",label"` // "vendor/type/name"
	Paths       []string       `hcl:"paths,required"`
	Permissions string         `hcl:"permissions"` // any of "rwm"; "" is "rw"
	Attributes  map[string]any `hcl:"attributes"`  // texts, numbers and flags
}

// maxPaths bounds the patterns of a group.
const maxPaths = 64

// Validate names every fault, with its place in the agent's configuration.
func (g *HostGroup) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		args = append([]any{g.ID}, args...)
		faults = append(faults, structs.Invalidf("client.device %q: "+format, args...))
	}
	parts := strings.Split(g.ID, "/")
	if len(parts) != 3 || !isName(parts[0]) || !isName(parts[1]) || !isName(parts[2]) {
		fault("the name has three parts, as \"vendor/type/name\"")
	}

	if len(g.Paths) == 0 {
		fault("paths names no device file")
	}

	if len(g.Paths) > maxPaths {
		fault("it has %d paths: at most %d are allowed", len(g.Paths), maxPaths)
	}

	for _, p := range g.Paths {
		// A malformed pattern is an error for each name.
		_, err := filepath.Match(p, "")
		if err != nil || !isPath(p) {
			fault("the path %q is no absolute path or pattern", p)
		}
	}

	if strings.Trim(g.Permissions, "rwm") != "" {
		fault("the permissions %q are not any of rwm", g.Permissions)
	}

	if len(g.Attributes) > structs.MaxDeviceAttributes {
		fault("it has %d attributes: at most %d are allowed", len(g.Attributes), structs.MaxDeviceAttributes)
	}

	for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
		a := hostAttribute(g.Attributes[name])
		if a == nil || len(name) > maxText || len(a.Text()) > maxText {
			fault("the attribute %q is no text, number or flag of at most %d bytes", name, maxText)
		}
	}

	return errors.Join(faults...)
}

// host is the built-in plugin.
type host struct {
	changed chan struct{} // has a value after setGroups

	mu     sync.Mutex
	groups []*HostGroup
	seen   map[string]map[string]bool // the paths of each group, since the start
	held   *holdings
}

func newHost(cfg Config, logger hclog.Logger) *host {
	return &host{
		changed: make(chan struct{}, 1),
		groups:  cfg.Host,
		seen:    map[string]map[string]bool{},
		held:    openHoldings(cfg, logger),
	}
}

// setGroups replaces the groups. run reports them soon. Files that the new groups do not name are forgotten.
func (h *host) setGroups(groups []*HostGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups = groups
	named := map[string]map[string]bool{}
	for _, g := range groups {
		named[g.ID] = h.seen[g.ID]
		maps.DeleteFunc(named[g.ID], func(path string, _ bool) bool { return !g.names(path) })
	}
	h.seen = named

	// One value is enough: run then looks at all groups.
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// names reports whether a path belongs to the group.
func (g *HostGroup) names(path string) bool {
	return slices.ContainsFunc(g.Paths, func(pattern string) bool {
		matches, _ := filepath.Match(pattern, path) // Validate has checked the pattern
		return matches
	})
}

// run implements source. Nothing tells the agent when a device file comes or goes, so it looks at an
// interval.
func (h *host) run(ctx context.Context, to reporter) {
	var last []*structs.NodeDeviceResource
	pause := time.NewTicker(scanInterval)
	defer pause.Stop()
	for first := true; ; first = false {
		groups := h.scan()

		// WaitFirst needs a report of each plugin, even an empty one.
		if first || !reflect.DeepEqual(groups, last) {
			to.groups(groups)
		}
		last = groups
		select {
		case <-pause.C:
		case <-h.changed:
		case <-ctx.Done():
			return
		}
	}
}

// scan looks for the device files of all groups. A group without any has never had one.
func (h *host) scan() []*structs.NodeDeviceResource {
	h.mu.Lock()
	defer h.mu.Unlock()
	var groups []*structs.NodeDeviceResource
	s := hostScan{
		owners: map[deviceNumber]deviceOwner{},
		left:   structs.MaxDevices,
	}
	// A device that a task has keeps its name: it is not offered under another one.
	for device, one := range h.held.byDevice() {
		s.owners[device] = deviceOwner{one.Group, one.Path}
	}

	for _, g := range h.groups {
		group := g.describe()
		if h.seen[g.ID] == nil {
			h.seen[g.ID] = map[string]bool{}
		}

		group.Instances = s.find(g, h.seen[g.ID])
		if len(group.Instances) > 0 {
			groups = append(groups, group)
		}
	}

	return groups
}

// describe returns the group without its devices.
func (g *HostGroup) describe() *structs.NodeDeviceResource {
	// Validate has checked that there are three.
	parts := strings.SplitN(g.ID, "/", 3)
	group := &structs.NodeDeviceResource{
		Vendor:     parts[0],
		Type:       parts[1],
		Name:       parts[2],
		Attributes: map[string]*structs.DeviceAttribute{},
	}
	for name, value := range g.Attributes {
		group.Attributes[name] = hostAttribute(value)
	}
	return group
}

// deviceOwner is the group and the path under which jobs get a device: the ones under which a task has it,
// else the first ones that lead to it.
type deviceOwner struct{ group, path string }

// hostScan is one look at all groups.
type hostScan struct {
	owners map[deviceNumber]deviceOwner
	left   int // devices that the node may still report
}

// find returns the devices of the group's patterns, and devices that were seen before, by path. A second path
// to a device is unhealthy: two tasks would get one device.
func (s *hostScan) find(g *HostGroup, seen map[string]bool) []*structs.NodeDevice {
	// New files must not displace the devices that were seen before.
	free := max(s.left-len(seen), 0)
	for _, pattern := range g.Paths {
		found, _ := filepath.Glob(pattern) // Validate has checked the pattern
		for _, path := range found {
			// The servers would get a path that is no UTF-8 as another one.
			if !seen[path] && free > 0 && utf8.ValidString(path) {
				seen[path] = true
				free--
			}
		}
	}

	// Devices that are gone stay in the report, so they count, too.
	s.left -= len(seen)
	var devices []*structs.NodeDevice
	// In this order the same path to a device is the healthy one at each look.
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		d, number := hostDevice(path)
		here := deviceOwner{g.ID, path}
		owner, owned := s.owners[number]
		switch {
		case !d.Healthy:
		case !owned:
			s.owners[number] = here
		case owner != here:
			d.Healthy = false
			same := fmt.Sprintf("it is the same device as %s of %s", owner.path, owner.group)
			d.HealthDescription = structs.Cut(same, maxText)
		}

		devices = append(devices, d)
	}

	return devices
}

// hostDevice looks at one path. Only a healthy device has a number.
func hostDevice(path string) (*structs.NodeDevice, deviceNumber) {
	d := &structs.NodeDevice{ID: path}
	var number deviceNumber
	// Stat follows the links by which udev names devices.
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.HealthDescription = "the device file is gone"
	case err != nil:
		d.HealthDescription = structs.Cut(err.Error(), maxText)
	case info.Mode()&fs.ModeDevice == 0:
		d.HealthDescription = "it is no device file"
	default:
		d.Healthy = true
		number.Block = info.Mode()&fs.ModeCharDevice == 0
		// The kernel knows a device by its kind and this number.
		number.Number = info.Sys().(*syscall.Stat_t).Rdev
	}
	return d, number
}

// hostAttribute converts a value of the configuration: a text with a unit ("11 GiB") becomes a number. It
// returns nil for a value that is no attribute.
func hostAttribute(v any) *structs.DeviceAttribute {
	switch v := v.(type) {
	case string:
		// A text is a number only with a unit.
		if a := structs.ParseDeviceAttribute(v); a.Unit != "" {
			return a
		}
		return structs.TextAttribute(v)
	case bool:
		return &structs.DeviceAttribute{Bool: &v}
	case int64:
		return &structs.DeviceAttribute{Int: &v}
	case float64:
		return &structs.DeviceAttribute{Float: &v}
	}
	return nil
}

// reserve implements source. The IDs are paths, and the group of the IDs has them. A device that another
// allocation has under another path or in another group is rejected.
func (h *host) reserve(_ context.Context, alloc, group string, ids []string) (*Reservation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.groups, func(g *HostGroup) bool { return g.ID == group })
	if at < 0 {
		return nil, structs.Unavailablef("the configuration of this node no longer has the group")
	}

	// The task finds its devices of the group by this variable.
	r := &Reservation{Env: map[string]string{hostVariable(group): strings.Join(ids, ",")}}
	// Allocations that have ended hold nothing any more.
	held := h.held.byDevice()
	for _, path := range ids {
		// The link need not exist for the task, so its driver gets the file behind it.
		file, number, err := hostFile(path)
		if err != nil {
			return nil, err
		}

		own := holding{alloc, group, path, number}
		// A repeated reservation finds its own record.
		one, isHeld := held[number]
		if isHeld && one != own {
			return nil, structs.Unavailablef("%s: allocation %s has the device as %s of %s",
				path, one.AllocID, one.Path, one.Group)
		}

		err = h.held.add(own)
		if err != nil {
			return nil, err
		}

		held[number] = own
		r.Devices = append(r.Devices, DeviceFile{
			TaskPath:    path,
			HostPath:    file,
			Permissions: cmp.Or(h.groups[at].Permissions, "rw"),
		})
	}

	return r, nil
}

// hostFile returns the device file behind a path, which may be a link of udev.
func hostFile(path string) (file string, number deviceNumber, err error) {
	file, err = filepath.EvalSymlinks(path)
	if err != nil {
		file = path // the reason is in its health
	}
	d, number := hostDevice(file)
	if !d.Healthy {
		return "", number, structs.Unavailablef("%s: %s", path, d.HealthDescription)
	}
	return file, number, nil
}

// hostVariable is the environment variable with the paths of a task's devices of a group.
func hostVariable(group string) string {
	// A shell takes no other characters in the name of a variable.
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, group)
	return fmt.Sprintf("BERTH_DEVICES_%s", strings.ToUpper(name))
}
