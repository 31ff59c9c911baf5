package client

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/client/config"
	"berth/client/machine"
	"berth/structs"
	"berth/structs/validate/report"
)

func withPort(id string, index uint64, port int) *structs.Allocation {
	a := testAlloc(id)
	a.CreateIndex = index
	a.Ports = []structs.AllocatedPort{{Label: "http", Value: port, HostIP: "10.0.0.1"}}
	return a
}

func TestPortHolder_IsAnOlderAllocation(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(withPort("a1", 5, 80))
		r.pass(time.Second)
		for _, c := range []struct {
			alloc *structs.Allocation
			want  string
		}{
			{withPort("a2", 6, 80), "a1"},
			{withPort("a2", 4, 80), ""}, // the port went from this one to a1
			{withPort("a2", 6, 81), ""},
			{withPort("a1", 5, 80), ""},
			{testAlloc("a2"), ""},
		} {
			if got := r.client.work.holds.PortHolder(c.alloc); got != c.want {
				t.Errorf("%s of index %d: got %q, want %q", c.alloc.ID, c.alloc.CreateIndex, got, c.want)
			}
		}
	})
}

func TestNode_HasItsNetworksAndPorts(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) {
			c.NetworkInterface = "lo"
			c.HostNetworks = []*machine.HostNetwork{{Name: "local", CIDR: "127.0.0.0/8", ReservedPorts: "9"}}
			c.MinDynamicPort = 1000
			c.MaxDynamicPort = 2000
			c.Reserved.Ports = "22,80-81"
			c.OwnPorts = []int{4746}
		}
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		n := r.client.Node()
		if err := report.Node(n); err != nil {
			t.Error(err)
		}
		local := n.HostAddresses("local")
		main := n.HostAddresses(structs.DefaultHostNetwork)
		if len(local) != 1 || len(main) != 1 || local[0].Address != "127.0.0.1" || main[0].Address != "127.0.0.1" {
			t.Fatalf("the node has %+v and %+v", local, main)
		}
		if low, high := n.DynamicPorts(); low != 1000 || high != 2000 {
			t.Errorf("dynamic ports from %d to %d", low, high)
		}
		for port, want := range map[int]bool{22: true, 81: true, 4746: true, 9: true, 443: false} {
			if got := n.ReservedPorts(local[0]).Has(port); got != want {
				t.Errorf("port %d is reserved: %v, want %v", port, got, want)
			}
		}
	})
}

// writing returns an allocation of an index whose group writes the host volume "data".
func writing(id string, index uint64, mode structs.CSIAccessMode) *structs.Allocation {
	a := testAlloc(id)
	a.CreateIndex = index
	a.Job.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"d": {
		Name:       "d",
		Type:       structs.VolumeTypeHost,
		Source:     "data",
		AccessMode: mode,
	}}
	return a
}

func TestHostVolumeHolder_IsAnOlderWriter(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.start(false)
		defer r.stop()
		r.servers.place(writing("a1", 5, structs.CSISingleNodeSingleWriter))
		r.pass(time.Second)
		for _, c := range []struct {
			alloc *structs.Allocation
			want  string
		}{
			{writing("a2", 6, ""), "a1"},
			{writing("a2", 4, ""), ""}, // a1 waits for this one
			{testAlloc("a2"), ""},
		} {
			if got := r.client.work.holds.HostVolumeHolder(c.alloc); got != c.want {
				t.Errorf("%s of index %d: got %q, want %q", c.alloc.ID, c.alloc.CreateIndex, got, c.want)
			}
		}
	})
}

// A node offers a host volume whose directory is there, and one whose directory comes later after SIGHUP.
func TestNode_OffersItsHostVolumes(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "data")
	later := filepath.Join(root, "later")
	file := filepath.Join(root, "file")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inVirtualTime(t, func(t *testing.T) {
		r := newFixture(t)
		r.edit = func(c *Config) {
			c.HostVolumes = []*config.HostVolume{
				{Name: "data", Path: dir, ReadOnly: true},
				{Name: "later", Path: later},
				{Name: "file", Path: file},
			}
		}
		r.start(false)
		defer r.stop()
		r.pass(time.Second)
		offered := r.known().HostVolumes
		if len(offered) != 1 || *offered["data"] != (structs.HostVolume{Path: dir, ReadOnly: true}) {
			t.Errorf("the node offers %+v", offered)
		}
		if err := os.Mkdir(later, 0o700); err != nil {
			t.Error(err)
		}
		r.reload(func(*Config) {})
		if offered := r.known().HostVolumes; len(offered) != 2 || offered["later"] == nil {
			t.Errorf("the node offers %+v", offered)
		}
	})
}
