package client

import (
	"context"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"

	"berth/client/csi/mounts"
	"berth/plugins/hostpath"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

// pluginMain is the CSI driver for directories, as a task runs it.
func pluginMain() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := hostpath.Run(ctx, hostpath.Config{
		Endpoint: os.Getenv("CSI_ENDPOINT"),
		NodeID:   "node1",
		DataDir:  os.Getenv("BERTH_PLUGIN_DATA"),
	})
	if err != nil {
		println(err.Error())
		return 1
	}
	return 0
}

func (p *fakeServers) claim(_ context.Context,
	r *structs.CSIVolumeClaimRequest) (*structs.CSIVolumeClaimResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range r.Claims {
		c.State, c.GrantIndex = structs.ClaimGranted, 1
		p.claims[c.Key()] = c
	}
	return &structs.CSIVolumeClaimResponse{Claims: r.Claims}, nil
}

func (p *fakeServers) getClaim(_ context.Context,
	r *structs.CSIClaimGetRequest) (*structs.CSIClaimGetResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := structs.CSIClaimKey{
		Namespace: r.RequestNamespace(),
		VolumeID:  r.VolumeID,
		AllocID:   r.AllocID,
	}
	return &structs.CSIClaimGetResponse{
		Claim:  p.claims[k],
		Volume: p.volume,
		Ready:  true,
	}, nil
}

func (p *fakeServers) listClaims(_ context.Context,
	r *structs.CSIClaimListRequest) (*structs.CSIClaimListResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return &structs.CSIClaimListResponse{Claims: slices.Collect(maps.Values(p.claims))}, nil
}

func (p *fakeServers) unpublish(_ context.Context, r *structs.CSIVolumeUnpublishRequest) (*structs.Empty,
	error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range r.Claims {
		delete(p.claims, k)
	}
	return &structs.Empty{}, nil
}

func (p *fakeServers) pluginsHealthy() (n int) {
	p.do(func() {
		for _, i := range p.csi {
			if i.Healthy {
				n++
			}
		}
	})
	return n
}

// createVolume creates a volume with the node's plugin over the connection that the node opened.
func (m *restarted) createVolume() {
	m.t.Helper()
	var session *rpc.Session
	m.servers.do(func() { session = m.servers.session })
	resp, err := rpc.Call(context.Background(), session, nodecalls.ClientCSIControllerCreate,
		&nodecalls.ClientCSICreateRequest{
			PluginID: "hostpath",
			Name:     "vol",
			Capacity: nodecalls.CSICapacityRange{RequiredBytes: 1 << 20},
			Capabilities: []*structs.CSIVolumeCapability{{AttachmentMode: structs.CSIFileSystem,
				AccessMode: structs.CSISingleNodeWriter}},
		})
	if err != nil {
		m.t.Fatal(err)
	}
	m.servers.do(func() {
		m.servers.volume = &structs.CSIVolume{
			ID: "vol", Namespace: "default",
			CSIVolumeSpec: structs.CSIVolumeSpec{
				PluginID:   "hostpath",
				ExternalID: resp.ExternalID,
				Context:    resp.Context,
			},
		}
	})
}

// mounted lists the mount points of volumes, without the shared one that outlives them.
func (m *restarted) mounted() []string {
	m.t.Helper()
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(filepath.Join(m.dir, "csi")))
	if err != nil {
		m.t.Fatal(err)
	}
	var points []string
	for _, i := range infos {
		if i.Mountpoint != filepath.Join(m.dir, "csi", "v") {
			points = append(points, i.Mountpoint)
		}
	}
	slices.Sort(points)
	return points
}

func hostpathAlloc() *structs.Allocation {
	a := execAlloc("plug", "")
	t := a.Job.TaskGroups[0].Tasks[0]
	t.Config = map[string]any{
		"command": "berth",
		"args":    []any{"plugin-under-test"},
	}
	t.CSIPluginConfig = &structs.CSIPluginConfig{ID: "hostpath", Type: structs.CSIPluginMonolith}
	t.Resources.MemoryMB = 64
	a.Job.ID, a.JobID = "plugin", "plugin"
	return a
}

func volumeAlloc() *structs.Allocation {
	a := execAlloc("user",
		`echo start >> /srv/data/starts; while :; do date +%s%N > /srv/data/pulse; cp /srv/data/pulse /local/pulse; sleep 0.05; done`)
	g := a.Job.TaskGroups[0]
	g.Volumes = map[string]*structs.VolumeRequest{"data": {Name: "data", Type: "csi", Source: "vol",
		AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem}}
	g.Tasks[0].VolumeMounts = []*structs.VolumeMount{{Volume: "data", Destination: "/srv/data"}}
	return a
}

// successor starts the next agent and checks that the state of the previous one is unchanged.
func (m *restarted) successor(how string) {
	m.t.Helper()
	reported := m.updates()
	before := 0 // registrations: an agent that loses its lease makes another one
	m.servers.do(func() { before = len(m.servers.firstCSI) })
	m.start()
	m.until("the node registers", func() (done bool) {
		m.servers.do(func() { done = len(m.servers.firstCSI) > before })
		return done
	})
	m.servers.do(func() {
		if healthy := m.servers.firstCSI[before]; healthy != 2 {
			m.t.Errorf("%s: the registration carried %d healthy plugin instances, want 2", how, healthy)
		}
	})
	m.until("the next agent reports its allocations", func() bool { return m.updates() > reported })
	pulse := m.read("alloc/user/web/local/pulse")
	m.until("the task writes on", func() bool { return m.read("alloc/user/web/local/pulse") != pulse })
	m.servers.do(func() {
		for id, a := range m.servers.allocs {
			s := a.TaskStates["web"]
			if s.Restarts != 0 || s.State != structs.TaskRunning {
				m.t.Errorf("%s: %s: %+v", how, id, s)
			}
		}
	})
}

// The users of a volume are counted in the volume store of the node, which outlives the agent.
func TestDuty_K16_APluginAndItsVolumesOutliveAKilledAgent(t *testing.T) {
	m := newMachine(t)
	t.Cleanup(func() { // runs before the rig's own cleanup ends the agent
		m.clear()
		err := mounts.ReleaseShared(filepath.Join(m.dir, "csi", "v"))
		if err != nil {
			t.Error(err)
		}
	})
	m.start()
	m.servers.place(hostpathAlloc())
	m.until("both halves of the plugin are healthy", func() bool {
		return m.servers.pluginsHealthy() == 2
	})
	m.createVolume()
	m.servers.place(volumeAlloc())
	m.until("the allocation runs", m.runsAlloc("user"))
	m.until("it writes to the volume", func() bool { return m.read("alloc/user/web/local/pulse") != "" })
	before := m.mounted()
	if len(before) == 0 {
		t.Error("nothing is mounted")
	}
	for _, how := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		m.end(how)
		m.successor(how.String())
		if after := m.mounted(); !slices.Equal(before, after) {
			t.Errorf("%s: mounts before:\n %s\nafter:\n %s", how, strings.Join(before, "\n "),
				strings.Join(after, "\n "))
		}
	}
	m.servers.stopAlloc("user")
	m.until("the claim is released", func() (none bool) {
		m.servers.do(func() { none = len(m.servers.claims) == 0 })
		return none
	})
	if left := m.mounted(); len(left) != 0 {
		t.Errorf("mounted after the release: %v", left)
	}
}

// The node is killed, its volume is granted to another node, and the node returns with its task still
// writing. The task is killed and the volume unmounted.
func TestClaimCheck_UnmountsAReleasedVolume(t *testing.T) {
	m := newMachine(t)
	t.Cleanup(func() { // runs before the rig's own cleanup ends the agent
		m.clear()
		err := mounts.ReleaseShared(filepath.Join(m.dir, "csi", "v"))
		if err != nil {
			t.Error(err)
		}
	})
	m.start()
	m.servers.place(hostpathAlloc())
	m.until("both halves of the plugin are healthy", func() bool {
		return m.servers.pluginsHealthy() == 2
	})
	m.createVolume()
	m.servers.place(volumeAlloc())
	m.until("it writes to the volume", func() bool { return m.read("alloc/user/web/local/pulse") != "" })
	m.kill()
	m.servers.do(func() { clear(m.servers.claims) })
	m.start()
	m.until("the allocation has failed", func() bool {
		return m.servers.status("user") == structs.AllocFailed
	})
	m.until("nothing is mounted any more", func() bool {
		return len(m.mounted()) == 0
	})
	pulse := m.read("alloc/user/web/local/pulse")
	m.servers.do(func() {
		if said := m.servers.allocs["user"].ClientDescription; !strings.Contains(said,
			"volume vol was taken from this node") {
			t.Errorf("got the description %q", said)
		}
	})
	if now := m.read("alloc/user/web/local/pulse"); now != pulse {
		t.Error("the task still writes")
	}
}
