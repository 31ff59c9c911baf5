package devicemanager

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
		faults = append(faults, structs.Invalidf("client.device %q: "+format, append([]any{g.ID}, args...)...))
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
}

func newHost(groups []*HostGroup) *host {
	return &host{
		changed: make(chan struct{}, 1),
		groups:  groups,
		seen:    map[string]map[string]bool{},
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

func (h *host) run(ctx context.Context, to reporter) {
	var last []*structs.NodeDeviceResource
	pause := time.NewTicker(scanInterval)
	defer pause.Stop()
	for first := true; ; first = false {
		groups := h.scan()
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
		owners: map[deviceNumber]string{},
		left:   structs.MaxDevices,
	}
	for _, g := range h.groups {
		group := g.describe()
		if h.seen[g.ID] == nil {
			h.seen[g.ID] = map[string]bool{}
		}
		group.Instances = s.find(g.Paths, h.seen[g.ID])
		if len(group.Instances) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// describe returns the group without its devices.
func (g *HostGroup) describe() *structs.NodeDeviceResource {
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

// deviceNumber identifies a device of the kernel: several files and links may lead to it.
type deviceNumber struct {
	block  bool
	number uint64
}

// hostScan is one look at all groups.
type hostScan struct {
	owners map[deviceNumber]string // the path under which jobs get a device
	left   int                     // devices that the node may still report
}

// find returns the devices of the patterns, and those that were seen before, by path. A second path to a
// device is unhealthy: two tasks would get one device.
func (s *hostScan) find(patterns []string, seen map[string]bool) []*structs.NodeDevice {
	room := max(s.left-len(seen), 0)
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern) // Validate has checked the pattern
		for _, path := range found {
			if !seen[path] && room > 0 && utf8.ValidString(path) {
				seen[path] = true
				room--
			}
		}
	}
	s.left -= len(seen)
	var devices []*structs.NodeDevice
	for _, path := range slices.Sorted(maps.Keys(seen)) {
		d, number := hostDevice(path)
		owner := s.owners[number]
		switch {
		case !d.Healthy:
		case owner != "":
			d.Healthy = false
			d.HealthDescription = "it is the same device as " + owner
		default:
			s.owners[number] = path
		}
		devices = append(devices, d)
	}
	return devices
}

// hostDevice looks at one path. The number is that of a healthy device.
func hostDevice(path string) (*structs.NodeDevice, deviceNumber) {
	d := &structs.NodeDevice{ID: path}
	var number deviceNumber
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
		number.block = info.Mode()&fs.ModeCharDevice == 0
		number.number = info.Sys().(*syscall.Stat_t).Rdev
	}
	return d, number
}

// hostAttribute converts a value of the configuration: a text with a unit ("11 GiB") becomes a number. It
// returns nil for a value that is no attribute.
func hostAttribute(v any) *structs.DeviceAttribute {
	switch v := v.(type) {
	case string:
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

// reserve implements source. The IDs are paths, and the group of the IDs has them.
func (h *host) reserve(_ context.Context, group string, ids []string) (*Reservation, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := slices.IndexFunc(h.groups, func(g *HostGroup) bool { return g.ID == group })
	if at < 0 {
		return nil, structs.Unavailablef("the configuration of this node no longer has the group")
	}
	r := &Reservation{Env: map[string]string{hostVariable(group): strings.Join(ids, ",")}}
	for _, path := range ids {
		file, err := hostFile(path)
		if err != nil {
			return nil, err
		}
		r.Devices = append(r.Devices, DeviceFile{
			TaskPath:    path,
			HostPath:    file,
			Permissions: cmp.Or(h.groups[at].Permissions, "rw"),
		})
	}
	return r, nil
}

// hostFile returns the device file behind a path, which may be a link of udev.
func hostFile(path string) (string, error) {
	d, _ := hostDevice(path)
	if !d.Healthy {
		return "", structs.Unavailablef("%s: %s", path, d.HealthDescription)
	}
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", structs.Unavailablef("%w", err)
	}
	return file, nil
}

// hostVariable is the environment variable with the paths of a task's devices of a group.
func hostVariable(group string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, group)
	return fmt.Sprintf("BERTH_DEVICES_%s", strings.ToUpper(name))
}
