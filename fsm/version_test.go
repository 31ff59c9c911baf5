package fsm

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

// TestCommands_KeepTheirVersions lists the commands of the existing versions, with the versions that each one
// and its later field need, and whether it may share a batch. A later command has a later version.
func TestCommands_KeepTheirVersions(t *testing.T) {
	const latest = 7
	later := func(versions ...int) (fields []laterField) {
		for _, v := range versions {
			fields = append(fields, laterField{since: v})
		}
		return fields
	}
	held := map[string]CommandInfo{
		"NodeRegister":       {Batched: true, later: later(4, 5, 7, 10)},
		"NodeDeregister":     {},
		"NodeStatus":         {Batched: true},
		"NodeEligibility":    {},
		"NodeUpdateCSI":      {Batched: true},
		"NodeEvents":         {},
		"JobRegister":        {Batched: true, later: later(4, 5, 7, 8, 9, 10, 11, 16, 19)},
		"JobDeregister":      {later: later(8)},
		"EvalUpdate":         {Batched: true},
		"PlanApply":          {Batched: true, later: later(4, 5, 8, 14, 18)},
		"AllocsClientUpdate": {Batched: true, later: later(8, 9, 10, 12)},
		"AllocStop":          {later: later(8)},
		"NodeDrain":          {Since: PlacementSince},
		"NodeDrained":        {Since: PlacementSince, later: later(17)},
		"AllocsMigrate":      {Since: PlacementSince},
		"Reap":               {},
		"VolumePut":          {Batched: true},
		"VolumeDeregister":   {later: later(3)},
		"VolumeDelete":       {},
		"VolumeOutcome":      {Batched: true},
		"VolumeClaim":        {Batched: true},
		"VolumeUnpublish":    {Batched: true},
		"AttachmentOutcome":  {Batched: true},
		"PluginDelete":       {},
		"NodeExpanded":       {Since: 2},
		"VolumeRetry":        {Since: 2},
		"AttachmentsFound":   {Since: 2},
		"VolumeForce":        {Since: 2, later: later(3)},
		"CallNote":           {Since: 2},
		"Batch":              {},
	}
	for _, c := range commands {
		entry := []byte{c.ID}
		want, known := held[c.Name]
		delete(held, c.Name)
		if got := CommandOf(entry); known &&
			(got.Since != want.Since || got.Batched != want.Batched || !sameVersions(got.later, want.later)) {
			t.Errorf("%s: got version %d, batched %v, later fields %+v, want %+v",
				c.Name, got.Since, got.Batched, got.later, want)
		}
		if !known && c.Since <= latest {
			t.Errorf("%s is new and has version %d, but servers of that version do not know it", c.Name, c.Since)
		}
		if c.Since > Version() {
			t.Errorf("%s needs version %d of %d", c.Name, c.Since, Version())
		}
	}
	for name := range held {
		t.Errorf("there is no command %s", name)
	}
	if Version() < latest {
		t.Errorf("the version is %d, and was %d", Version(), latest)
	}
	for _, entry := range [][]byte{nil, {250}} {
		if got := CommandOf(entry); got.ID != 0 || got.Since != 0 || got.Batched {
			t.Errorf("entry %v: got command %+v, want none", entry, got)
		}
	}
}

func sameVersions(a, b []laterField) bool {
	return slices.EqualFunc(a, b, func(x, y laterField) bool { return x.since == y.since })
}

// An older server would apply an entry without a field that it does not know.
func TestNeeds_CountsAFieldWhereItIsSet(t *testing.T) {
	for _, settle := range []time.Duration{0, time.Minute} {
		force, err := VolumeForce.Encode(&structs.CSIVolumeForceRequest{VolumeID: "v", Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		deregister, err := VolumeDeregister.Encode(&structs.CSIVolumeDeregisterRequest{ID: "v", Settle: settle})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range [][]byte{force, deregister} {
			c := CommandOf(entry)
			want := c.Since
			if settle != 0 {
				want = 3
			}
			if got := c.Needs(entry); got != want {
				t.Errorf("%s with Settle %s needs version %d, want %d", c.Name, settle, got, want)
			}
		}
	}
}

// cluster has the parts of the entries that change placements.
type cluster struct {
	node  *structs.Node
	job   *structs.Job
	alloc *structs.Allocation
}

func newCluster() cluster {
	task := &structs.Task{Name: "t", Resources: &structs.Resources{}}
	return cluster{
		node:  &structs.Node{ID: "n", NodeResources: &structs.NodeResources{}},
		job:   &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{task}}}},
		alloc: &structs.Allocation{ID: "a"},
	}
}

// entries are the registrations of the node and the job, and the plan.
func (c cluster) entries(t *testing.T) [][]byte {
	t.Helper()
	var all [][]byte
	for _, encode := range []func() ([]byte, error){
		func() ([]byte, error) { return NodeRegister.Encode(&structs.NodeRegisterRequest{Node: c.node}) },
		func() ([]byte, error) { return JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job}) },
		func() ([]byte, error) { return PlanApply.Encode(&structs.Plan{Place: []*structs.Allocation{c.alloc}}) },
	} {
		entry, err := encode()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, entry)
	}
	return all
}

// wantNeeds checks the version that each entry needs.
func (c cluster) wantNeeds(t *testing.T, version int) {
	t.Helper()
	for _, entry := range c.entries(t) {
		command := CommandOf(entry)
		if command.AppliedBy(version-1, entry) && version > 0 || !command.AppliedBy(version, entry) {
			t.Errorf("%s needs version %d, want %d", command.Name, command.Needs(entry), version)
		}
	}
}

func (c cluster) addDevices() {
	given := &structs.AllocatedDeviceResource{Vendor: "v", Type: "t", Name: "n", DeviceIDs: []string{"0"}}
	c.node.NodeResources.Devices = []*structs.NodeDeviceResource{{Vendor: "v", Type: "t", Name: "n"}}
	c.job.TaskGroups[0].Tasks[0].Resources.Devices = []*structs.RequestedDevice{{Name: "t", Count: 1}}
	c.alloc.Devices = map[string][]*structs.AllocatedDeviceResource{"t": {given}}
}

func (c cluster) addPorts() {
	c.node.NodeResources.NodeNetworks = []*structs.NodeNetworkResource{{Device: "eth0"}}
	c.job.TaskGroups[0].Networks = []*structs.NetworkResource{{}}
	c.alloc.Ports = []structs.AllocatedPort{{Label: "x", Value: 80}}
}

// An older server would drop the devices and ports of a node, a job or an allocation.
func TestNeeds_CountsDevicesAndPorts(t *testing.T) {
	newCluster().wantNeeds(t, 0)
	c := newCluster()
	c.addDevices()
	c.wantNeeds(t, 4)
	c.addPorts()
	c.wantNeeds(t, 5)
	c = newCluster()
	c.addPorts()
	c.wantNeeds(t, 5)
	for name, edit := range map[string]func(*structs.Node){
		"dynamic ports": func(n *structs.Node) { n.NodeResources.MaxDynamicPort = 1 },
		"reserved ports": func(n *structs.Node) {
			n.ReservedResources = &structs.NodeReservedResources{Networks: &structs.NodeReservedNetworks{}}
		},
	} {
		c := newCluster()
		edit(c.node)
		entry := c.entries(t)[0]
		if got := NodeRegister.Needs(entry); got != 5 {
			t.Errorf("a node with %s needs version %d, want 5", name, got)
		}
	}
}

// An older server would drop the services of a job, and those that an allocation offers.
func TestNeeds_CountsServices(t *testing.T) {
	for name, edit := range map[string]func(*structs.TaskGroup){
		"none":        func(*structs.TaskGroup) {},
		"of a group":  func(g *structs.TaskGroup) { g.Services = []*structs.Service{{}} },
		"of a task":   func(g *structs.TaskGroup) { g.Tasks[0].Services = []*structs.Service{{}} },
		"only a null": func(g *structs.TaskGroup) { g.Services = []*structs.Service{nil} },
	} {
		c := newCluster()
		edit(c.job.TaskGroups[0])
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		want := 0
		if strings.HasPrefix(name, "of") {
			want = ServicesSince
		}
		if got := CommandOf(entry).Needs(entry); got != want {
			t.Errorf("a job with services %s needs version %d, want %d", name, got, want)
		}
	}
	for n, services := range [][]*structs.ServiceInstance{{}, {{ID: "i"}}} {
		entry, err := AllocsClientUpdate.Encode(&structs.AllocsClientUpdateRequest{
			Allocs: []*structs.AllocClientUpdate{nil, {ID: "a", Services: services}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := CommandOf(entry).Needs(entry); got != n*ServicesSince {
			t.Errorf("a report of %d services needs version %d", n, got)
		}
	}
}

// An older server would ignore the health of an allocation that is in no deployment.
func TestNeeds_CountsTheHealthWithoutADeployment(t *testing.T) {
	for deployment, want := range map[string]int{"": OwnHealthSince, "d": PlacementSince} {
		entry, err := AllocsClientUpdate.Encode(&structs.AllocsClientUpdateRequest{
			Allocs: []*structs.AllocClientUpdate{nil, {
				ID:               "a",
				DeploymentID:     deployment,
				DeploymentStatus: &structs.AllocDeploymentStatus{Healthy: new(true)},
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := AllocsClientUpdate.Needs(entry); got != want {
			t.Errorf("a health in deployment %q needs version %d, want %d", deployment, got, want)
		}
	}
}

// An older server would drop the wait of a template.
func TestNeeds_CountsWaitsOfTemplates(t *testing.T) {
	for wait, want := range map[*structs.TemplateWait]int{nil: TasksSince, {}: ConnectSince} {
		c := newCluster()
		task := c.job.TaskGroups[0].Tasks[0]
		task.Templates = []*structs.Template{nil, {EmbeddedTmpl: "x", Wait: wait}}
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		if got := CommandOf(entry).Needs(entry); got != want {
			t.Errorf("a job with the wait %v needs version %d, want %d", wait, got, want)
		}
	}
}

// An older server would not store the source of a job.
func TestNeeds_CountsTheSourceOfAJob(t *testing.T) {
	for source, want := range map[*structs.JobSubmission]int{nil: 0, {Source: "text"}: TasksSince} {
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{
			Job:        newCluster().job,
			Submission: source,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != want {
			t.Errorf("a job with the source %+v needs version %d, want %d", source, got, want)
		}
	}
}

// An older server would store a job without its tasks' new fields.
func TestNeeds_CountsNewFieldsOfTasks(t *testing.T) {
	for name, edit := range map[string]func(*structs.Task){
		"lifecycle": func(x *structs.Task) { x.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePoststop} },
		"artifacts": func(x *structs.Task) { x.Artifacts = []*structs.TaskArtifact{{}} },
		"templates": func(x *structs.Task) { x.Templates = []*structs.Template{{}} },
	} {
		c := newCluster()
		edit(c.job.TaskGroups[0].Tasks[0])
		entry := c.entries(t)[1]
		if got := JobRegister.Needs(entry); got != TasksSince {
			t.Errorf("a task with %s needs version %d, want %d", name, got, TasksSince)
		}
	}
}

// An older server would place two writers of a host volume on one node, and would not store those of a node.
func TestNeeds_CountsHostVolumes(t *testing.T) {
	w := newCluster()
	w.node.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/srv"}}
	w.job.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {Type: structs.VolumeTypeHost}}
	entries := w.entries(t)
	if node, job := NodeRegister.Needs(entries[0]), JobRegister.Needs(entries[1]); node != TasksSince ||
		job != TasksSince {
		t.Errorf("a node and a job with host volumes need the versions %d and %d, want %d", node, job, TasksSince)
	}
}

// An older server would store a job whose allocations keep data, and could not move it.
func TestNeeds_CountsDataThatMoves(t *testing.T) {
	for _, c := range []struct {
		disk  structs.EphemeralDisk
		later bool
	}{
		{structs.EphemeralDisk{SizeMB: 10}, false},
		{structs.EphemeralDisk{Sticky: true}, true},
		{structs.EphemeralDisk{Migrate: true}, true},
	} {
		w := newCluster()
		w.job.TaskGroups[0].EphemeralDisk = &c.disk
		if got := JobRegister.Needs(w.entries(t)[1]) == TasksSince; got != c.later {
			t.Errorf("%+v needs version %d: %v", c.disk, TasksSince, got)
		}
	}
}

// An older server would run the tasks of such a job in the network of the node.
func TestNeeds_CountsNetworksOfAllocations(t *testing.T) {
	for _, n := range []*structs.NetworkResource{
		{Mode: structs.NetworkModeBridge},
		{Mode: structs.NetworkModeHost, DNS: &structs.DNSConfig{}},
	} {
		c := newCluster()
		c.job.TaskGroups[0].Networks = []*structs.NetworkResource{n}
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != NetworksSince {
			t.Errorf("%+v needs version %d", n, got)
		}
	}
	c := newCluster()
	c.node.NodeResources.NodeNetworks = []*structs.NodeNetworkResource{{Mode: structs.NetworkModeBridge}}
	entry, err := NodeRegister.Encode(&structs.NodeRegisterRequest{Node: c.node})
	if err != nil || NodeRegister.Needs(entry) != NetworksSince {
		t.Errorf("a node needs version %d, %v", NodeRegister.Needs(entry), err)
	}
	entry, err = AllocsClientUpdate.Encode(&structs.AllocsClientUpdateRequest{
		Allocs: []*structs.AllocClientUpdate{{ID: "a", NetworkStatus: &structs.AllocNetworkStatus{}}},
	})
	if err != nil || AllocsClientUpdate.Needs(entry) != NetworksSince {
		t.Errorf("a report needs version %d, %v", AllocsClientUpdate.Needs(entry), err)
	}
}

// An older server would drop such a field of a service.
func TestNeeds_CountsAddressesOfServices(t *testing.T) {
	for _, s := range []*structs.Service{
		{Weights: &structs.ServiceWeights{}},
		{TaggedAddresses: map[string]string{"lan": "192.0.2.1"}},
		{AddressMode: structs.AddressModeAlloc},
		{AddressMode: structs.AddressModeDriver},
		{Checks: []*structs.ServiceCheck{{AddressMode: structs.AddressModeAlloc}}},
	} {
		c := newCluster()
		c.job.TaskGroups[0].Services = []*structs.Service{s}
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != ConnectSince {
			t.Errorf("%+v needs version %d", s, got)
		}
	}
}

// An older server would store a job without its part in the service mesh.
func TestNeeds_CountsTheServiceMesh(t *testing.T) {
	for name, edit := range map[string]func(*structs.TaskGroup){
		"a service": func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{{Connect: &structs.Connect{Native: true}}}
		},
		"a task": func(g *structs.TaskGroup) { g.Tasks[0].Kind = "connect-native:web" },
	} {
		c := newCluster()
		edit(c.job.TaskGroups[0])
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: c.job})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != ConnectSince {
			t.Errorf("%s needs version %d", name, got)
		}
	}
}

// An older server would apply a stop with the shutdown_delay of the tasks.
func TestNeeds_CountsASkippedDelay(t *testing.T) {
	for skip, want := range map[bool]int{false: 0, true: PlacementSince} {
		job, err := JobDeregister.Encode(&structs.JobDeregisterRequest{JobID: "j", NoShutdownDelay: skip})
		if err != nil {
			t.Fatal(err)
		}
		alloc, err := AllocStop.Encode(&structs.AllocStopRequest{AllocID: "a", NoShutdownDelay: skip})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range [][]byte{job, alloc} {
			c := CommandOf(entry)
			if got := c.Needs(entry); got != want {
				t.Errorf("%s that skips the delay (%v) needs version %d, want %d", c.Name, skip, got, want)
			}
		}
	}
}

// An older server would store an allocation whose memory_max counts.
func TestNeeds_CountsABoundOfMemory(t *testing.T) {
	for bounded, want := range map[bool]int{false: 0, true: PlacementSince} {
		entry, err := PlanApply.Encode(&structs.Plan{Place: []*structs.Allocation{{NoMemoryMax: bounded}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := PlanApply.Needs(entry); got != want {
			t.Errorf("bounded %v: needs version %d, want %d", bounded, got, want)
		}
	}
}
