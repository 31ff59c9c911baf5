package devices

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/structs"
	"berth/structs/validate/report"
)

// link makes a path that leads to a device of the machine.
func link(t *testing.T, device, path string) string {
	t.Helper()
	if err := os.Symlink(device, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// hostOf is the built-in plugin with groups. All allocations hold their devices.
func hostOf(t *testing.T, groups ...*HostGroup) *host {
	t.Helper()
	records, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = records.Close() })
	return newHost(Config{
		Host:    groups,
		Records: records,
		Holds:   func(string) bool { return true },
	}, hclog.NewNullLogger())
}

// healthOf writes the devices of groups as "name/file=health".
func healthOf(groups []*structs.NodeDeviceResource) string {
	var all []string
	for _, g := range groups {
		for _, d := range g.Instances {
			health := "healthy"
			if !d.Healthy {
				health = d.HealthDescription
			}
			all = append(all, g.Name+"/"+filepath.Base(d.ID)+"="+health)
		}
	}
	return strings.Join(all, " ")
}

// Two paths to one device are one device for tasks, also in two groups.
func TestHost_ReportsADeviceOnce(t *testing.T) {
	dir := t.TempDir()
	zero := link(t, "/dev/zero", filepath.Join(dir, "a-zero"))
	link(t, zero, filepath.Join(dir, "b-zero"))
	link(t, "/dev/full", filepath.Join(dir, "c-full"))
	h := hostOf(t,
		&HostGroup{ID: "v/t/first", Paths: []string{dir + "/a-*", dir + "/b-*"}},
		&HostGroup{ID: "v/t/second", Paths: []string{dir + "/b-*", dir + "/c-*"}})
	same := "it is the same device as " + zero + " of v/t/first"
	want := "first/a-zero=healthy first/b-zero=" + same + " second/b-zero=" + same + " second/c-full=healthy"
	if got := healthOf(h.scan()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := os.Remove(zero); err != nil {
		t.Fatal(err)
	}
	link(t, "/dev/zero", filepath.Join(dir, "b-zero-2"))
	want = "first/a-zero=the device file is gone first/b-zero=the device file is gone first/b-zero-2=healthy"
	if got := healthOf(h.scan()[:1]); got != want { // no task has it
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The devices of a task are its own under whatever path and group they appear, until its allocation has
// ended.
func TestHost_KeepsADeviceForItsTask(t *testing.T) {
	dir := t.TempDir()
	held := map[string]bool{"one": true, "two": true}
	n := &HostGroup{ID: "v/t/n", Paths: []string{dir + "/*"}}
	m := &HostGroup{ID: "v/t/m", Paths: []string{dir + "/*"}}
	h := hostOf(t, n)
	h.held.holds = func(alloc string) bool { return held[alloc] }
	want := func(want string) {
		t.Helper()
		if got := healthOf(h.scan()); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	rejected := func(alloc string, ids ...string) {
		t.Helper()
		r, err := h.reserve(t.Context(), alloc, h.groups[0].ID, ids)
		if !structs.IsKind(err, structs.KindUnavailable) {
			t.Errorf("allocation %s gets %+v, %v", alloc, r, err)
		}
	}
	a := link(t, "/dev/zero", filepath.Join(dir, "a"))
	for range 2 { // a task may start again
		if _, err := h.reserve(t.Context(), "one", n.ID, []string{a}); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(a); err != nil {
		t.Fatal(err)
	}
	b := link(t, "/dev/zero", filepath.Join(dir, "b"))
	want("n/b=it is the same device as " + a + " of v/t/n")
	rejected("two", b)
	rejected("one", b)

	h.setGroups([]*HostGroup{m})
	want("m/b=it is the same device as " + a + " of v/t/n")
	rejected("two", b)

	// The next agent knows it, too, and not from the path that is gone.
	h = newHost(Config{
		Host:    h.groups,
		Records: h.held.records,
		Holds:   h.held.holds,
	}, hclog.NewNullLogger())
	want("m/b=it is the same device as " + a + " of v/t/n")
	rejected("two", b)

	delete(held, "one")
	want("m/b=healthy")
	if all, err := holdingTable.All(h.held.records, ""); err != nil || len(all) > 0 {
		t.Errorf("%d records are left, %v", len(all), err)
	}
	link(t, "/dev/zero", filepath.Join(dir, "c"))
	rejected("two", b, filepath.Join(dir, "c"))
	if _, err := h.reserve(t.Context(), "two", m.ID, []string{b}); err != nil {
		t.Error(err)
	}
	want("m/b=healthy m/c=it is the same device as " + b + " of v/t/m")
}

func TestHost_FollowsItsConfiguration(t *testing.T) {
	dir := t.TempDir()
	zero := link(t, "/dev/zero", filepath.Join(dir, "zero"))
	full := link(t, "/dev/full", filepath.Join(dir, "full"))
	h := hostOf(t,
		&HostGroup{ID: "v/t/n", Paths: []string{dir + "/*"}},
		&HostGroup{ID: "v/t/m", Paths: []string{dir + "/x"}})
	if got := healthOf(h.scan()); got != "n/full=healthy n/zero=healthy" {
		t.Fatalf("got %s", got)
	}
	h.setGroups([]*HostGroup{{ID: "v/t/n", Paths: []string{full}}})
	if got := healthOf(h.scan()); got != "n/full=healthy" {
		t.Errorf("a path that the configuration no longer names: %s", got)
	}
	h.setGroups([]*HostGroup{{ID: "v/t/m", Paths: []string{zero}}})
	if got := healthOf(h.scan()); got != "m/zero=healthy" {
		t.Errorf("a group that the configuration no longer has: %s", got)
	}
	_, err := h.reserve(t.Context(), "alloc", "v/t/n", []string{full})
	if !structs.IsKind(err, structs.KindUnavailable) {
		t.Errorf("a device of a former group: got %v, want unavailable", err)
	}
}

// The servers reject a node with a longer description.
func TestHost_BoundsItsDescriptions(t *testing.T) {
	dir := t.TempDir()
	link(t, "/dev/zero", filepath.Join(dir, "a"))
	link(t, "/dev/zero", filepath.Join(dir, "b"))
	long := strings.Repeat("x", maxText)
	h := hostOf(t, &HostGroup{ID: long + "/" + long + "/" + long, Paths: []string{dir + "/*"}})
	d := h.scan()[0].Instances[1]
	if d.Healthy || len(d.HealthDescription) > maxText+len("…") {
		t.Errorf("a second path is healthy: %v, its description has %d bytes", d.Healthy, len(d.HealthDescription))
	}
}

func TestHost_BoundsItsDevices(t *testing.T) {
	dir := t.TempDir()
	for i := range structs.MaxDevices + 10 {
		link(t, "/dev/zero", filepath.Join(dir, fmt.Sprintf("%04d", i)))
	}
	h := hostOf(t,
		&HostGroup{ID: "v/t/a", Paths: []string{dir + "/000*"}},
		&HostGroup{ID: "v/t/b", Paths: []string{dir + "/*"}})
	for range 2 {
		groups := h.scan()
		n := len(groups[0].Instances) + len(groups[1].Instances)
		if len(groups[0].Instances) != 10 || n != structs.MaxDevices {
			t.Errorf("%d devices, %d of the first group", n, len(groups[0].Instances))
		}
	}
}

func TestHostGroup_BoundsItsSettings(t *testing.T) {
	g := &HostGroup{ID: "a/b/c", Attributes: map[string]any{"long": strings.Repeat("x", maxText+1)}}
	for range maxPaths + 1 {
		g.Paths = append(g.Paths, "/dev/x")
	}
	for i := range structs.MaxDeviceAttributes {
		g.Attributes[fmt.Sprint(i)] = true
	}
	err := g.Validate()
	for _, want := range []string{"it has 65 paths", "it has 129 attributes", `"long" is no text`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not in %v", want, err)
		}
	}
}

// The servers reject a node with more than their bounds, so the agent leaves groups out.
func TestGroups_KeepToTheBoundsOfTheServers(t *testing.T) {
	m := newManager(hclog.NewNullLogger())
	group := func(name string, devices, bytes int) *structs.NodeDeviceResource {
		g := &structs.NodeDeviceResource{Vendor: "v", Type: "t", Name: name}
		for i := range devices {
			id := fmt.Sprintf("%s-%06d", strings.Repeat("i", bytes), i)
			g.Instances = append(g.Instances, &structs.NodeDevice{ID: id})
		}
		return g
	}
	var many []*structs.NodeDeviceResource
	for i := range structs.MaxDeviceGroups {
		many = append(many, group(fmt.Sprintf("m%03d", i), 0, 0))
	}
	for name, c := range map[string]struct {
		first, second []*structs.NodeDeviceResource
		want          int
	}{
		"one group twice": {
			[]*structs.NodeDeviceResource{group("n", 1, 1)},
			[]*structs.NodeDeviceResource{group("n", 2, 1)}, 1,
		},
		"devices": {
			[]*structs.NodeDeviceResource{group("a", structs.MaxDevices, 1)},
			[]*structs.NodeDeviceResource{group("b", 1, 1)}, 1,
		},
		"bytes": {
			[]*structs.NodeDeviceResource{group("a", 1000, 500)},
			[]*structs.NodeDeviceResource{group("b", 20, 1000), group("c", 1, 1)}, 2,
		},
		"groups": {many, []*structs.NodeDeviceResource{group("b", 1, 1)}, structs.MaxDeviceGroups},
	} {
		m.names = []string{"first", "second"}
		m.groups = map[string][]*structs.NodeDeviceResource{"first": c.first, "second": c.second}
		all := m.Groups()
		if len(all) != c.want || len(all[0].Instances) != len(c.first[0].Instances) {
			t.Errorf("%s: %d groups, want %d", name, len(all), c.want)
		}
		n := &structs.Node{ID: "n", NodeResources: &structs.NodeResources{Devices: all}}
		if err := report.Node(n); err != nil {
			t.Errorf("%s: the servers reject it: %v", name, err)
		}
	}
}

func TestHost_ReservesWithItsPermissions(t *testing.T) {
	h := hostOf(t, &HostGroup{ID: "linux/mem-dev/null", Paths: []string{"/dev/null"}, Permissions: "r"})
	h.scan()
	got, err := h.reserve(t.Context(), "alloc", "linux/mem-dev/null", []string{"/dev/null"})
	want := &Reservation{
		Env:     map[string]string{"BERTH_DEVICES_LINUX_MEM_DEV_NULL": "/dev/null"},
		Devices: []DeviceFile{{TaskPath: "/dev/null", HostPath: "/dev/null", Permissions: "r"}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
}
