package interop

import (
	"reflect"
	"slices"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/defaults"
)

// deviceJob returns a job whose task demands devices in each form that the public client can write.
func deviceJob() *public.Job {
	two := uint64(2)
	job := fullJob()
	job.TaskGroups[0].Tasks[0].Resources.Devices = []*public.RequestedDevice{
		{Name: "gpu"},
		{
			Name:        "acme/gpu/x1",
			Count:       &two,
			Constraints: []*public.Constraint{public.NewConstraint("${device.attr.memory}", ">=", "10 GiB")},
			Affinities: []*public.Affinity{
				public.NewAffinity("${device.model}", "=", "x1", -20),
				{LTarget: "${device.vendor}", Operand: "=", RTarget: "acme"},
			},
		},
	}
	return job
}

func TestClient_SendsAndReadsDemandsForDevices(t *testing.T) {
	want := []*structs.RequestedDevice{
		{Name: "gpu", Count: 1},
		{
			Name:        "acme/gpu/x1",
			Count:       2,
			Constraints: []*structs.Constraint{{LTarget: "${device.attr.memory}", Operand: ">=", RTarget: "10 GiB"}},
			Affinities: []*structs.Affinity{
				{LTarget: "${device.model}", Operand: "=", RTarget: "x1", Weight: -20},
				{LTarget: "${device.vendor}", Operand: "=", RTarget: "acme", Weight: 50},
			},
		},
	}
	for name, canonicalize := range map[string]bool{
		"as built":                         false,
		"with the defaults of the dialect": true,
	} {
		t.Run(name, func(t *testing.T) {
			c, caller := clientOfFakeServers(t)
			var got *structs.Job
			apitest.On(caller, structs.JobRegister, recordJob(&got))
			job := deviceJob()
			if canonicalize {
				job.Canonicalize()
			}
			for range 2 { // what the client has read, it can write back
				if _, _, err := c.Jobs().Register(job, nil); err != nil {
					t.Fatal(err)
				}
				if has := got.TaskGroups[0].Tasks[0].Resources.Devices; !reflect.DeepEqual(has, want) {
					t.Errorf("the demands arrive as %+v", has)
				}
				defaults.Canonicalize(got)
				apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
				var err error
				job, _, err = c.Jobs().Info("web/one", nil)
				if err != nil {
					t.Fatal(err)
				}
			}
			devices := job.TaskGroups[0].Tasks[0].Resources.Devices
			if len(devices) != 2 || *devices[0].Count != 1 || *devices[1].Affinities[0].Weight != -20 {
				t.Errorf("the client reads %+v", devices)
			}
		})
	}
}

func TestClient_ReadsDevices(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	memory := int64(11)
	node := &structs.NodeDetail{Node: structs.Node{ID: "n1", NodeResources: &structs.NodeResources{
		Devices: []*structs.NodeDeviceResource{{
			Vendor: "acme",
			Type:   "gpu",
			Name:   "x1",
			Instances: []*structs.NodeDevice{{
				ID:                "gpu0",
				HealthDescription: "too hot",
				Locality:          &structs.NodeDeviceLocality{PciBusID: "0:1:0.0"},
			}},
			Attributes: map[string]*structs.DeviceAttribute{"memory": {Int: &memory, Unit: "GiB"}},
		}},
	}}}
	apitest.Answer(caller, structs.NodeGet, structs.NodeGetResponse{Node: node})
	read, _, err := c.Nodes().Info("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	group := read.NodeResources.Devices[0]
	if group.ID() != "acme/gpu/x1" || group.Attributes["memory"].String() != "11 GiB" {
		t.Errorf("the client reads %+v", group)
	}
	if d := group.Instances[0]; d.ID != "gpu0" || d.Healthy || d.HealthDescription != "too hot" ||
		d.Locality.PciBusID != "0:1:0.0" {
		t.Errorf("the client reads %+v", d)
	}
	alloc := &structs.Allocation{
		ID:        "a1",
		TaskGroup: "g",
		Resources: &structs.Resources{DiskMB: 300},
		Job: &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{
			Name:  "g",
			Tasks: []*structs.Task{{Name: "app", Resources: &structs.Resources{CPU: 100, MemoryMB: 64}}},
		}}},
		Devices: map[string][]*structs.AllocatedDeviceResource{
			"app": {{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"gpu0"}}},
		},
	}
	apitest.Answer(caller, structs.AllocGet, structs.AllocGetResponse{Alloc: alloc})
	placed, _, err := c.Allocations().Info("a1", nil)
	if err != nil {
		t.Fatal(err)
	}
	apitest.Answer(caller, structs.NodeAllocs, structs.AllocsResponse{Allocs: []*structs.Allocation{alloc}})
	onNode, _, err := c.Nodes().Allocations("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &public.AllocatedDeviceResource{Vendor: "acme", Type: "gpu", Name: "x1", DeviceIDs: []string{"gpu0"}}
	for _, read := range append(onNode, placed) {
		task := read.AllocatedResources.Tasks["app"]
		if !reflect.DeepEqual(task.Devices, []*public.AllocatedDeviceResource{want}) ||
			task.Cpu.CpuShares != 100 || task.Memory.MemoryMB != 64 ||
			read.AllocatedResources.Shared.DiskMB != 300 {
			t.Errorf("the client reads %+v", read.AllocatedResources)
		}
	}
}

// testDevices gives the device of a real agent to a job, and asks for it once more.
func testDevices(t *testing.T, c *public.Client, node string) {
	const name = "berth/test/null"
	hasDevice := func(r *public.NodeResources) bool {
		return r != nil && slices.ContainsFunc(r.Devices, func(g *public.NodeDeviceResource) bool {
			return g.ID() == name && g.Attributes["size"].String() == "3 GiB" &&
				len(g.Instances) == 1 && g.Instances[0].ID == "/dev/null" && g.Instances[0].Healthy
		})
	}
	info, _, err := c.Nodes().Info(node, nil)
	if err != nil || !hasDevice(info.NodeResources) {
		t.Fatalf("the node has the resources %+v, without %s: %v", info.NodeResources, name, err)
	}
	list, _, err := c.Nodes().List(&public.QueryOptions{Params: map[string]string{"resources": "true"}})
	if checkNoError(t, "nodes", err) && (len(list) != 1 || !hasDevice(list[0].NodeResources)) {
		t.Errorf("the list of nodes is %+v", list)
	}
	job := shellJob("interop-device", `echo "$BERTH_DEVICES_BERTH_TEST_NULL"; sleep 600`)
	job.TaskGroups[0].Tasks[0].Resources.Devices = []*public.RequestedDevice{{
		Name:        name,
		Constraints: []*public.Constraint{public.NewConstraint("${device.attr.size}", ">=", "2 GiB")},
	}}
	alloc := runJob(t, c, job)
	want := []*public.AllocatedDeviceResource{{
		Vendor:    "berth",
		Type:      "test",
		Name:      "null",
		DeviceIDs: []string{"/dev/null"},
	}}
	if got := alloc.AllocatedResources.Tasks["app"].Devices; !reflect.DeepEqual(got, want) {
		t.Errorf("the task has the devices %+v", got)
	}
	if got := alloc.TaskResources["app"]; got == nil || *got.CPU != 50 || got.Devices[0].Name != name {
		t.Errorf("the task demands %+v", got)
	}
	_, err = awaitStats(t, c, alloc)
	checkNoError(t, "statistics", err)
	other := shellJob("interop-device-2", "sleep 600")
	other.TaskGroups[0].Tasks[0].Resources.Devices = []*public.RequestedDevice{{Name: "test"}}
	if _, _, err := c.Jobs().Register(other, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopJob(t, c, "interop-device-2") })
	awaitAnswer(t, "a second job that waits", func(q *public.QueryOptions) (bool, *public.QueryMeta, error) {
		evals, meta, err := c.Jobs().Evaluations("interop-device-2", q)
		return slices.ContainsFunc(evals, func(e *public.Evaluation) bool {
			m := e.FailedTGAllocs["g"]
			return m != nil && m.DimensionExhausted["devices"] == 1
		}), meta, err
	})
}
