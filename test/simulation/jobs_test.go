package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/internal/level"
	"berth/structs"
)

// pluginJob runs the plugin that attaches volumes, on each node.
const pluginJob = "plugin"

// jobIDs has the jobs of each type. The name tells what starts a job: per-* are periodic, disp-* dispatched.
var jobIDs = map[string][]string{
	structs.JobService:  {"web", "api", "db", "cache"},
	structs.JobBatch:    {"sum", "per-sum", "disp-sum"},
	structs.JobSystem:   {"log", "mon"},
	structs.JobSysBatch: {"scan"},
}

// The namespaces beside the default one. That of the plugin has no quota: without it nothing unmounts.
const (
	teamNamespace   = "team"
	pluginNamespace = "plugins"
)

// teamJobs are the jobs of the team. They use no CSI volumes.
var teamJobs = []string{"cache", "sum", "mon"}

// namespaceOf returns the namespace of a job.
func namespaceOf(job string) string {
	switch {
	case job == pluginJob:
		return pluginNamespace
	case slices.Contains(teamJobs, job):
		return teamNamespace
	}
	return structs.DefaultNamespace
}

// csiVolumes are the volumes of the plugin disk, and those of the plugin share.
var csiVolumes = []string{"a", "b", "data[0]", "data[1]", "data[2]", "share-1", "share-2"}

// usesPlugin reports whether a volume needs the plugin that attaches.
func usesPlugin(volume string) bool { return !strings.HasPrefix(volume, sharePlugin) }

// chance reports true in one of n cases.
func (w *world) chance(n int) bool { return w.IntN(n) == 0 }

// oneOf returns a random element.
func oneOf[T any](w *world, all ...T) T { return all[w.IntN(len(all))] }

// randomNode returns the row of a node.
func (w *world) randomNode(index int) *structs.Node {
	id := fmt.Sprintf("n%d", index)
	n := &structs.Node{
		ID:         id,
		Name:       id,
		SecretID:   "secret of " + id,
		Datacenter: oneOf(w, "dc1", "dc1", "dc2"),
		NodePool:   oneOf(w, structs.DefaultNodePool, structs.DefaultNodePool, structs.DefaultNodePool, "special"),
		Status:     structs.NodeReady,
		Attributes: map[string]string{
			"kernel.name":         "linux",
			structs.AttrNodeLevel: strconv.Itoa(level.Now),
		},
		Meta:        map[string]string{"rack": oneOf(w, "r1", "r2")},
		Drivers:     map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}},
		HostVolumes: map[string]*structs.HostVolume{"certs": {Path: "/certs", ReadOnly: true}},
		NodeResources: &structs.NodeResources{
			CPU:            structs.NodeCPUResources{CpuShares: int64(oneOf(w, 600, 1000, 1500))},
			Memory:         structs.NodeMemoryResources{MemoryMB: int64(oneOf(w, 800, 1000, 2000))},
			Disk:           structs.NodeDiskResources{DiskMB: 3000},
			MinDynamicPort: 20000,
			MaxDynamicPort: 20003,
			NodeNetworks: []*structs.NodeNetworkResource{{
				Mode:   structs.NetworkModeHost,
				Device: "eth0",
				Addresses: []*structs.NodeNetworkAddress{{
					Family:  structs.FamilyIPv4,
					Alias:   structs.DefaultHostNetwork,
					Address: fmt.Sprintf("10.0.0.%d", index+1),
				}},
			}},
		},
	}
	if w.chance(2) {
		n.HostVolumes["data"] = &structs.HostVolume{Path: "/data"}
	}
	if w.chance(2) {
		n.NodeResources.Devices = []*structs.NodeDeviceResource{{
			Vendor:    "acme",
			Type:      "gpu",
			Name:      "x",
			Instances: []*structs.NodeDevice{{ID: "g0", Healthy: true}, {ID: "g1", Healthy: true}},
		}}
	}
	return n
}

// largeNode returns the row of a node that has capacity for everything.
func (w *world) largeNode(index int, datacenter, pool, rack string) *structs.Node {
	n := w.randomNode(index)
	n.Datacenter = datacenter
	n.NodePool = pool
	n.Meta["rack"] = rack
	n.HostVolumes["data"] = &structs.HostVolume{Path: "/data"}
	n.NodeResources.CPU.CpuShares = 100_000
	n.NodeResources.Memory.MemoryMB = 100_000
	n.NodeResources.Disk.DiskMB = 100_000
	n.NodeResources.MaxDynamicPort = 20_100
	return n
}

// randomJob returns a job with the ID, or one more version of it.
func (w *world) randomJob(kind, id string) *structs.Job {
	j := &structs.Job{
		ID:        id,
		Namespace: namespaceOf(id),
		Type:      kind,
		Priority:  oneOf(w, 20, 30, 50, 50, 70, 90),
		NodePool:  oneOf(w, structs.DefaultNodePool, structs.DefaultNodePool, structs.AllNodePools, "special"),
	}
	if w.chance(4) {
		j.Datacenters = []string{oneOf(w, "dc1", "dc*")}
	}
	groups := 1
	if w.chance(4) {
		groups = 2
	}
	for i := range groups {
		j.TaskGroups = append(j.TaskGroups, w.randomGroup(j, fmt.Sprintf("g%d", i)))
	}
	w.addPreferences(j)
	if strings.HasPrefix(id, "per-") {
		j.Periodic = &structs.PeriodicConfig{
			Enabled:         true,
			SpecType:        structs.PeriodicCron,
			Specs:           []string{"*/5 * * * *"},
			ProhibitOverlap: w.chance(2),
		}
	}
	if strings.HasPrefix(id, "disp-") {
		j.ParameterizedJob = &structs.ParameterizedJobConfig{}
	}
	return j
}

// addPreferences adds constraints, affinities and spreads.
func (w *world) addPreferences(j *structs.Job) {
	rack := oneOf(w, "r1", "r2")
	if w.chance(5) {
		only := &structs.Constraint{LTarget: "${meta.rack}", RTarget: rack, Operand: "="}
		j.Constraints = append(j.Constraints, only)
	}
	switch {
	case w.chance(6) && !j.PerNode():
		j.Constraints = append(j.Constraints, &structs.Constraint{Operand: structs.ConstraintDistinctHosts})
	case w.chance(6):
		j.Constraints = append(j.Constraints, &structs.Constraint{
			LTarget: "${meta.rack}",
			RTarget: oneOf(w, "1", "2"),
			Operand: structs.ConstraintDistinctProperty,
		})
	}
	if j.PerNode() {
		return
	}
	if w.chance(4) {
		j.Affinities = []*structs.Affinity{{LTarget: "${meta.rack}", RTarget: rack, Operand: "=", Weight: 50}}
	}
	if w.chance(4) {
		spread := &structs.Spread{Attribute: "${meta.rack}", Weight: 50}
		if w.chance(2) {
			spread.SpreadTarget = []*structs.SpreadTarget{{Value: rack, Percent: uint8(oneOf(w, 30, 60, 100))}}
		}
		j.Spreads = []*structs.Spread{spread}
	}
}

func (w *world) randomGroup(j *structs.Job, name string) *structs.TaskGroup {
	task := &structs.Task{
		Name:        "t",
		Driver:      "exec",
		Config:      map[string]any{"command": "/bin/sleep"},
		Env:         map[string]string{"VERSION": strconv.Itoa(w.IntN(3))},
		KillTimeout: oneOf(w, time.Second, 5*time.Second, 30*time.Second),
		Resources:   &structs.Resources{CPU: oneOf(w, 50, 100, 200, 400), MemoryMB: oneOf(w, 50, 100, 300)},
	}
	g := &structs.TaskGroup{
		Name:          name,
		Count:         w.IntN(4),
		Tasks:         []*structs.Task{task},
		EphemeralDisk: &structs.EphemeralDisk{SizeMB: 100, Sticky: w.chance(5)},
	}
	if j.PerNode() {
		g.Count = 1
	}
	if w.chance(6) {
		task.Resources.Devices = []*structs.RequestedDevice{{Name: "gpu", Count: uint64(1 + w.IntN(2))}}
	}
	w.addPorts(g)
	w.addVolumes(j, g)
	switch j.Type {
	case structs.JobService:
		w.addStrategies(g)
		switch w.IntN(8) {
		case 0:
			task.Env[behaves] = sick
		case 1:
			task.Env[behaves] = crashes
		}
		g.ReschedulePolicy = &structs.ReschedulePolicy{
			Delay:         5 * time.Second,
			DelayFunction: structs.RescheduleExponential,
			MaxDelay:      30 * time.Second,
			Unlimited:     true,
		}
		if w.chance(2) {
			g.ReschedulePolicy.Unlimited = false
			g.ReschedulePolicy.Attempts = w.IntN(3)
			g.ReschedulePolicy.Interval = time.Hour
		}
	case structs.JobSystem:
		w.addWaves(g)
	case structs.JobBatch:
		g.ReschedulePolicy = &structs.ReschedulePolicy{
			Attempts:      w.IntN(3),
			Interval:      time.Hour,
			Delay:         5 * time.Second,
			DelayFunction: structs.RescheduleConstant,
		}
	}
	return g
}

func (w *world) addPorts(g *structs.TaskGroup) {
	network := &structs.NetworkResource{}
	if w.chance(5) {
		network.DynamicPorts = []structs.Port{{Label: "dynamic"}}
	}
	if w.chance(5) {
		network.ReservedPorts = []structs.Port{{Label: "static", Value: oneOf(w, 8080, 8081)}}
	}
	if len(network.DynamicPorts)+len(network.ReservedPorts) > 0 {
		g.Networks = []*structs.NetworkResource{network}
	}
}

// addVolumes adds up to two volumes.
func (w *world) addVolumes(j *structs.Job, g *structs.TaskGroup) {
	first := w.randomVolume(j, g)
	if first == nil {
		return
	}
	g.Volumes = map[string]*structs.VolumeRequest{"v": first}
	if !w.chance(3) {
		return
	}
	if second := w.randomVolume(j, g); second != nil && second.Source != first.Source {
		g.Volumes["w"] = second
	}
}

// randomVolume draws a volume that a group uses, nil for none. It lowers the count of the group to that of
// the volumes.
func (w *world) randomVolume(j *structs.Job, g *structs.TaskGroup) *structs.VolumeRequest {
	r := &structs.VolumeRequest{Type: structs.VolumeTypeCSI, AttachmentMode: structs.CSIFileSystem}
	kind := w.IntN(8)
	if j.Namespace == teamNamespace && kind < 4 {
		return nil
	}
	switch kind {
	case 0, 1:
		if j.PerNode() {
			return nil
		}
		r.Source = oneOf(w, "a", "b")
		r.AccessMode = structs.CSISingleNodeWriter
		g.Count = min(g.Count, 1)
	case 2:
		if j.PerNode() {
			return nil
		}
		r.Source = "data"
		r.AccessMode = structs.CSISingleNodeWriter
		r.PerAlloc = true
		g.Count = min(g.Count, 3)
	case 3:
		r.Source = oneOf(w, "share-1", "share-2")
		r.AccessMode = structs.CSIMultiNodeMultipleWriter
		if j.Type == structs.JobService && w.chance(3) {
			r.AccessMode = structs.CSIMultiNodeReader
			r.ReadOnly = true
		}
	case 4:
		return &structs.VolumeRequest{
			Type:       structs.VolumeTypeHost,
			Source:     "data",
			AccessMode: oneOf(w, structs.CSISingleNodeSingleWriter, structs.CSISingleNodeMultiWriter),
		}
	default:
		return nil
	}
	return r
}

// addStrategies draws how a service is updated and migrated.
func (w *world) addStrategies(g *structs.TaskGroup) {
	u := structs.DefaultUpdateStrategy()
	u.MaxParallel = w.IntN(4)
	u.MinHealthyTime = oneOf(w, time.Second, 10*time.Second)
	u.HealthyDeadline = 30 * time.Second
	u.ProgressDeadline = oneOf(w, 0, time.Minute, 2*time.Minute, 15*time.Minute)
	u.AutoRevert = w.chance(2)
	if u.MaxParallel > 0 && w.chance(3) {
		u.Canary = 1 + w.IntN(2)
		u.AutoPromote = w.chance(2)
	}
	g.Update = &u
	m := structs.DefaultMigrateStrategy()
	m.MaxParallel = 1 + w.IntN(2)
	m.MinHealthyTime = oneOf(w, time.Second, 10*time.Second)
	m.HealthyDeadline = time.Minute
	g.Migrate = &m
}

// addWaves draws how a job on each node is updated: at once, or some nodes after others.
func (w *world) addWaves(g *structs.TaskGroup) {
	if w.chance(2) {
		return
	}
	u := structs.DefaultUpdateStrategy()
	u.MaxParallel = 1 + w.IntN(2)
	u.Stagger = oneOf(w, 5*time.Second, 30*time.Second, time.Minute)
	g.Update = &u
}

// thePlugin returns the job that runs the plugin on each node.
func thePlugin(priority int) *structs.Job {
	return &structs.Job{
		ID:        pluginJob,
		Namespace: pluginNamespace,
		Type:      structs.JobSystem,
		Priority:  priority,
		NodePool:  structs.AllNodePools,
		TaskGroups: []*structs.TaskGroup{{
			Name:          "plugin",
			Count:         1,
			EphemeralDisk: &structs.EphemeralDisk{},
			Tasks: []*structs.Task{{
				Name:            "plugin",
				Driver:          "exec",
				Config:          map[string]any{"command": "/bin/plugin"},
				KillTimeout:     time.Second,
				Resources:       &structs.Resources{CPU: 10, MemoryMB: 10},
				CSIPluginConfig: &structs.CSIPluginConfig{ID: diskPlugin, Type: structs.CSIPluginMonolith},
			}},
		}},
	}
}
