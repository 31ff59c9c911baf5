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
	"time"

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

// Validate names every fault.
func (g *HostGroup) Validate() error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, structs.Invalidf("device %q: "+format, append([]any{g.ID}, args...)...))
	}
	parts := strings.Split(g.ID, "/")
	if len(parts) != 3 || !isName(parts[0]) || !isName(parts[1]) || !isName(parts[2]) {
		fault("the name has three parts, as \"vendor/type/name\"")
	}
	if len(g.Paths) == 0 {
		fault("paths names no device file")
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
	for _, name := range slices.Sorted(maps.Keys(g.Attributes)) {
		if hostAttribute(g.Attributes[name]) == nil {
			fault("the attribute %q is no text, number or flag", name)
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

// setGroups replaces the groups. run reports them soon.
func (h *host) setGroups(groups []*HostGroup) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.groups = groups
	select {
	case h.changed <- struct{}{}:
	default:
	}
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
	for _, g := range h.groups {
		group := h.scanGroup(g)
		if len(group.Instances) > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

func (h *host) scanGroup(g *HostGroup) *structs.NodeDeviceResource {
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
	seen := h.seen[g.ID]
	if seen == nil {
		seen = map[string]bool{}
		h.seen[g.ID] = seen
	}
	for _, pattern := range g.Paths {
		found, _ := filepath.Glob(pattern) // Validate has checked the pattern
		for _, path := range found {
			if len(seen) < maxInstances {
				seen[path] = true
			}
		}
	}
	for path := range seen {
		group.Instances = append(group.Instances, hostDevice(path))
	}
	slices.SortFunc(group.Instances, func(a, b *structs.NodeDevice) int { return cmp.Compare(a.ID, b.ID) })
	return group
}

// hostDevice looks at one path.
func hostDevice(path string) *structs.NodeDevice {
	d := &structs.NodeDevice{ID: path}
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
	}
	return d
}

// hostAttribute converts a value of the configuration. It returns nil for one that is no attribute.
func hostAttribute(v any) *structs.DeviceAttribute {
	switch v := v.(type) {
	case string:
		return &structs.DeviceAttribute{String: &v}
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
	r := &Reservation{}
	for i := range h.groups {
		if h.groups[i].ID != group {
			continue
		}
		permissions := cmp.Or(h.groups[i].Permissions, "rw")
		for _, path := range ids {
			file, err := hostFile(path)
			if err != nil {
				return nil, err
			}
			r.Devices = append(r.Devices, DeviceFile{TaskPath: path, HostPath: file, Permissions: permissions})
		}
	}
	r.Env = map[string]string{hostVariable(group): strings.Join(ids, ",")}
	return r, nil
}

// hostFile returns the device file behind a path, which may be a link of udev.
func hostFile(path string) (string, error) {
	d := hostDevice(path)
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
