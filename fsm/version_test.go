package fsm

import (
	"testing"
	"time"

	"berth/structs"
)

// TestCommands_KeepTheirVersions lists the commands of the existing versions, with the versions that each one
// and its later field need, and whether it may share a batch. A later command has a later version.
func TestCommands_KeepTheirVersions(t *testing.T) {
	const latest = 4
	held := map[string]CommandInfo{
		"NodeRegister":       {Batched: true, fieldSince: 4},
		"NodeDeregister":     {},
		"NodeStatus":         {Batched: true},
		"NodeEligibility":    {},
		"NodeUpdateCSI":      {Batched: true},
		"NodeEvents":         {},
		"NodeUpdate":         {Since: 1, Batched: true},
		"JobRegister":        {fieldSince: 4},
		"JobDeregister":      {},
		"EvalUpdate":         {Batched: true},
		"PlanApply":          {Batched: true, fieldSince: 4},
		"AllocsClientUpdate": {Batched: true},
		"AllocStop":          {},
		"Reap":               {},
		"VolumePut":          {Batched: true},
		"VolumeDeregister":   {fieldSince: 3},
		"VolumeDelete":       {},
		"VolumeOutcome":      {Batched: true},
		"VolumeClaim":        {Batched: true},
		"VolumeUnpublish":    {Batched: true},
		"AttachmentOutcome":  {Batched: true},
		"PluginDelete":       {},
		"NodeExpanded":       {Since: 2},
		"VolumeRetry":        {Since: 2},
		"AttachmentsFound":   {Since: 2},
		"VolumeForce":        {Since: 2, fieldSince: 3},
		"CallNote":           {Since: 2},
		"Batch":              {},
	}
	for _, c := range commands {
		entry := []byte{c.ID}
		want, known := held[c.Name]
		delete(held, c.Name)
		if got := CommandOf(entry); known &&
			(got.Since != want.Since || got.Batched != want.Batched || got.fieldSince != want.fieldSince) {
			t.Errorf("%s: got version %d, batched %v, a field of version %d, want %+v",
				c.Name, got.Since, got.Batched, got.fieldSince, want)
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

// An older server would drop the devices of a node, a job or an allocation.
func TestNeeds_CountsDevices(t *testing.T) {
	node := &structs.Node{ID: "n", NodeResources: &structs.NodeResources{}}
	task := &structs.Task{Name: "t", Resources: &structs.Resources{}}
	job := &structs.Job{ID: "j", TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{task}}}}
	alloc := &structs.Allocation{ID: "a"}
	entries := func() [][]byte {
		var all [][]byte
		for _, encode := range []func() ([]byte, error){
			func() ([]byte, error) { return NodeRegister.Encode(&structs.NodeRegisterRequest{Node: node}) },
			func() ([]byte, error) { return JobRegister.Encode(&structs.JobRegisterRequest{Job: job}) },
			func() ([]byte, error) { return PlanApply.Encode(&structs.Plan{Place: []*structs.Allocation{alloc}}) },
		} {
			entry, err := encode()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, entry)
		}
		return all
	}
	for _, entry := range entries() {
		c := CommandOf(entry)
		if !c.AppliedBy(3, entry) {
			t.Errorf("%s without devices: servers of version 3 apply it, too", c.Name)
		}
	}
	given := &structs.AllocatedDeviceResource{Vendor: "v", Type: "t", Name: "n", DeviceIDs: []string{"0"}}
	node.NodeResources.Devices = []*structs.NodeDeviceResource{{Vendor: "v", Type: "t", Name: "n"}}
	task.Resources.Devices = []*structs.RequestedDevice{{Name: "t", Count: 1}}
	alloc.Devices = map[string][]*structs.AllocatedDeviceResource{"t": {given}}
	for _, entry := range entries() {
		c := CommandOf(entry)
		if c.AppliedBy(3, entry) || !c.AppliedBy(4, entry) {
			t.Errorf("%s with devices: it needs version %d, want 4", c.Name, c.Needs(entry))
		}
	}
}
