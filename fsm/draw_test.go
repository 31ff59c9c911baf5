package fsm

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"berth/internal/codec"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// pools has the names of rows by their noun.
var pools = map[string][]string{
	"Node":   {"n1", "n2"},
	"Job":    {"j1", "j2", "plugin-job"},
	"Alloc":  {"a1", "a2", "a3", "a4"},
	"Volume": {"v1", "v2"},
	"Eval":   {"e1", "e2", "e3"},
	"Plugin": {"p", "q"},
}

// dice draws payloads from small pools of names, so that commands find each other's rows.
type dice struct{ t *rapid.T }

func (d dice) of(from ...string) string { return rapid.SampledFrom(from).Draw(d.t, "of") }

func (d dice) flip() bool { return rapid.Bool().Draw(d.t, "flip") }

func (d dice) upTo(n int) int { return rapid.IntRange(0, n).Draw(d.t, "up to") }

func (d dice) node() string { return d.of(pools["Node"]...) }

// fenced draws a node, with the number of its last run of a fence device.
func (d dice) fenced(tx *state.ReadTx) (node string, last uint64) {
	node = d.node()
	for _, r := range state.FenceRuns(tx, node) {
		last = r.Number
	}
	return node, last
}

func (d dice) job() string { return d.of(pools["Job"]...) }

func (d dice) alloc() string { return d.of(pools["Alloc"]...) }

func (d dice) vol() string { return d.of(pools["Volume"]...) }

func (d dice) evalID() string { return d.of(pools["Eval"]...) }

func (d dice) now() structs.WriteOptions {
	return structs.WriteOptions{Now: int64(d.upTo(1000)), Namespace: d.of("", "default")}
}

func (d dice) failure() *structs.OperationError {
	if d.flip() {
		return nil
	}
	return &structs.OperationError{
		Message: "no",
		Kind:    structs.KindUnavailable,
		Time:    int64(d.upTo(9)),
	}
}

// fill draws each field of a payload. A text comes from the pool whose noun is in the name of its field; for
// a field ID the name of the type counts.
func (d dice) fill(v reflect.Value, name string) {
	switch p := v.Addr().Interface().(type) {
	case *structs.WriteOptions:
		*p = d.now()
		return
	case **structs.Evaluation:
		*p = d.eval()
		return
	case **structs.OperationError:
		*p = d.failure()
		return
	case *time.Time:
		*p = time.Unix(int64(d.upTo(1000)), 0).UTC()
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			field := v.Type().Field(n).Name
			if field == "ID" || field == "IDs" {
				field = v.Type().Name()
			}
			d.fill(v.Field(n), field)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), d.upTo(2), 2))
		for n := range v.Len() {
			d.fill(v.Index(n), name)
		}
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		if d.flip() {
			d.fill(value, name)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf("k").Convert(v.Type().Key()), value)
		}
	case reflect.Pointer:
		if d.flip() {
			v.Set(reflect.New(v.Type().Elem()))
			d.fill(v.Elem(), name)
		}
	case reflect.String:
		v.SetString(d.of(poolOf(name)...))
	case reflect.Bool:
		v.SetBool(d.flip())
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(d.upTo(9)))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(d.upTo(9)))
	default:
		d.t.Fatalf("%s is of type %s: give its command a draw of its own", name, v.Type())
	}
}

// poolOf returns the names of the noun in the name of a field or of a type.
func poolOf(name string) []string {
	for _, noun := range slices.Sorted(maps.Keys(pools)) {
		if strings.Contains(name, noun) {
			return pools[noun]
		}
	}
	return []string{"", "x"}
}

func (d dice) instances() (out []*structs.CSIPluginInstance) {
	for range d.upTo(2) {
		i := &structs.CSIPluginInstance{
			Kind: structs.CSIKind(d.of("node", "controller")),
			CSIInfo: structs.CSIInfo{
				PluginID:                 "p",
				Healthy:                  d.flip(),
				Provider:                 "x",
				RequiresControllerPlugin: d.flip(),
				ExpandsOffline:           d.flip(),
				UpdateTime:               int64(d.upTo(5)),
			},
		}
		if i.Kind == structs.CSIKindNode {
			i.NodeInfo = &structs.CSINodeInfo{
				ID: "ext",
				AccessibleTopology: &structs.CSITopology{
					Segments: map[string]string{"zone": d.of("1", "2"), "rack": "r"},
				},
			}
		} else {
			i.ControllerInfo = &structs.CSIControllerInfo{SupportsAttachDetach: d.flip()}
		}
		out = append(out, i)
	}
	return out
}

func (d dice) eval() *structs.Evaluation {
	e := &structs.Evaluation{
		ID:            d.evalID(),
		JobID:         d.job(),
		Type:          structs.JobService,
		SnapshotIndex: uint64(d.upTo(60)),
		Status:        d.of(structs.EvalPending, structs.EvalBlocked, structs.EvalComplete, structs.EvalFailed),
	}
	if e.Status == structs.EvalBlocked {
		e.BlockedOn = []string{
			structs.WakeCapacity,
			structs.WakePlugin("p"),
			structs.WakeVolume("default", d.vol()),
		}
		e.QueuedAllocations = map[string]int{"g": 1, "h": 2}
		e.Shape, e.Priority = d.of("", "s", "t"), d.upTo(2)
	}
	return e
}

func (d dice) jobSpec() *structs.Job {
	j := &structs.Job{
		ID:   d.job(),
		Type: d.of(structs.JobService, structs.JobSystem, structs.JobBatch),
		Meta: map[string]string{"x": d.of("1", "2"), "y": "z"},
	}
	g := &structs.TaskGroup{
		Name:  "g",
		Count: 1,
		Tasks: []*structs.Task{{
			Name:      "t",
			Config:    map[string]any{"command": "c", "args": []any{"a", int64(1)}},
			Resources: &structs.Resources{CPU: 10},
		}},
	}
	if d.flip() {
		g.Tasks[0].Resources.Devices = []*structs.RequestedDevice{{
			Name:        "gpu",
			Count:       1,
			Constraints: []*structs.Constraint{{LTarget: "${device.model}", Operand: "=", RTarget: "x1"}},
			Affinities:  []*structs.Affinity{{LTarget: "${device.vendor}", Operand: "=", RTarget: "v", Weight: 9}},
		}}
	}
	if d.flip() {
		g.Networks = []*structs.NetworkResource{{
			Mode:         structs.NetworkModeHost,
			DynamicPorts: []structs.Port{{Label: "http", To: 80, HostNetwork: "default"}},
		}}
	}
	if d.flip() {
		g.Networks = []*structs.NetworkResource{{
			Mode:     structs.NetworkModeBridge,
			Hostname: "h",
			DNS:      &structs.DNSConfig{Servers: []string{"10.0.0.1"}},
		}}
	}
	if d.flip() {
		j.Affinities = []*structs.Affinity{{LTarget: "${node.class}", Operand: "=", RTarget: "x", Weight: 9}}
		g.Spreads = []*structs.Spread{{
			Attribute:    "${meta.rack}",
			Weight:       50,
			SpreadTarget: []*structs.SpreadTarget{{Value: "r1", Percent: 60}},
		}}
	}
	if j.Type == structs.JobBatch && d.flip() {
		j.Periodic = &structs.PeriodicConfig{Enabled: d.flip(), Spec: d.of("@daily", "@hourly")}
	}
	if j.ID == "plugin-job" {
		g.Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{ID: "p", Type: structs.CSIPluginNode}
	}
	j.TaskGroups = []*structs.TaskGroup{g}
	return j
}

// child returns a job that another one starts.
func (d dice) child(parent string) *structs.Job {
	j := d.jobSpec()
	j.ID = parent + "/" + d.of("1", "2", "3")
	j.Periodic = nil
	j.DispatchIdempotencyToken = d.of("", "t")
	return j
}

func (d dice) modifyIndex(tx *state.ReadTx, id string) uint64 {
	j := state.Job(tx, structs.DefaultNamespace, id)
	if j == nil {
		return 0
	}
	return j.JobModifyIndex
}

func (d dice) submission() *structs.JobSubmission {
	if d.flip() {
		return nil
	}
	return &structs.JobSubmission{
		Source:        d.of("one", "two"),
		Format:        structs.FormatHCL2,
		VariableFlags: map[string]string{"a": d.of("1", "2"), "b": "c"},
	}
}

func (d dice) plan(tx *state.ReadTx) *structs.Plan {
	p := &structs.Plan{Eval: d.eval(), WriteOptions: d.now()}
	j := state.Job(tx, "default", p.Eval.JobID)
	if j == nil {
		return p
	}
	p.JobModifyIndex = j.JobModifyIndex
	for range d.upTo(2) {
		p.Place = append(p.Place, &structs.Allocation{
			ID:                 d.alloc(),
			JobID:              j.ID,
			JobVersion:         j.Version,
			TaskGroup:          "g",
			NodeID:             d.node(),
			PreviousAllocation: d.of("", d.alloc()),
			Metrics:            &structs.AllocMetric{NodesAvailable: map[string]int{"dc1": 2, "dc2": 3}},
			Devices:            d.devicesFor(j),
			Ports:              d.portsFor(j),
		})
	}
	if d.flip() {
		p.Stop = append(p.Stop, &structs.PlanStop{
			AllocID:      d.alloc(),
			ClientStatus: d.of("", "lost"),
			Cause:        structs.StopCause(d.of("", "replaced", "node-down")),
		})
		p.Update = append(p.Update, &structs.PlanUpdate{
			AllocID:        d.alloc(),
			FollowupEvalID: d.of("", "e9"),
		})
	}
	return p
}

// deviceGroups are the devices of a node: some have none.
func (d dice) deviceGroups() []*structs.NodeDeviceResource {
	if d.flip() {
		return nil
	}
	memory := int64(11)
	return []*structs.NodeDeviceResource{{
		Vendor: "v",
		Type:   "gpu",
		Name:   "x1",
		Instances: []*structs.NodeDevice{
			{ID: "0", Healthy: true},
			{ID: "1", Healthy: d.flip(), Locality: &structs.NodeDeviceLocality{PciBusID: "0:1"}},
		},
		Attributes: map[string]*structs.DeviceAttribute{
			"memory": {Int: &memory, Unit: "GiB"},
			"driver": structs.TextAttribute(d.of("1", "2")),
		},
	}}
}

// devicesFor are the devices of an allocation of a job. Two allocations may want one device.
func (d dice) devicesFor(j *structs.Job) map[string][]*structs.AllocatedDeviceResource {
	if len(j.TaskGroups[0].Tasks[0].Resources.Devices) == 0 {
		return nil
	}
	return map[string][]*structs.AllocatedDeviceResource{
		"t": {{Vendor: "v", Type: "gpu", Name: "x1", DeviceIDs: []string{d.of("0", "1")}}},
	}
}

// networks are the networks of a node: some have none.
func (d dice) networks() []*structs.NodeNetworkResource {
	if d.flip() {
		return nil
	}
	return []*structs.NodeNetworkResource{{Mode: structs.NetworkModeBridge, Device: "berth"}, {
		Mode:   structs.NetworkModeHost,
		Device: "eth0",
		Addresses: []*structs.NodeNetworkAddress{{
			Family:        structs.FamilyIPv4,
			Alias:         "default",
			Address:       "10.0.0.1",
			ReservedPorts: d.of("", "22"),
		}},
	}}
}

// portsFor are the ports of an allocation of a job. Two allocations may want one port.
func (d dice) portsFor(j *structs.Job) []structs.AllocatedPort {
	if len(j.TaskGroups[0].Networks) == 0 {
		return nil
	}
	return []structs.AllocatedPort{{
		Label:  "http",
		Value:  20_000 + d.upTo(2),
		To:     80,
		HostIP: "10.0.0.1",
	}}
}

func (d dice) claims() (out []*structs.CSIClaim) {
	for range d.upTo(3) {
		out = append(out, &structs.CSIClaim{
			VolumeID:       d.vol(),
			AllocID:        d.alloc(),
			Mode:           d.of("read", "write"),
			AttachmentMode: structs.CSIFileSystem,
			AccessMode: structs.CSIAccessMode(d.of("single-node-writer", "multi-node-single-writer",
				"multi-node-multi-writer")),
		})
	}
	return out
}

// volume returns a volume whose fields are nil, empty or set. All must survive a snapshot.
func (d dice) volume() *structs.CSIVolume {
	v := &structs.CSIVolume{
		ID: d.vol(),
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:             d.of("p", "q"),
			RequestedCapacityMin: int64(d.upTo(3)),
			Class:                d.of("", "fast", "slow"),
			Reclaim:              d.of("", storage.ReclaimRetain, storage.ReclaimDelete),
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{State: d.of("", "creating")},
	}
	if v.Reclaim == storage.ReclaimDelete {
		v.DeleteAfter = new(time.Duration(d.upTo(9)))
	}
	if d.flip() {
		v.Parameters = map[string]string{"type": d.of("image", "directory")}
	}
	if d.flip() {
		v.Parameters = map[string]string{}
		v.Context = map[string]string{"a": "b", "c": "d"}
		v.Secrets = structs.Secrets{"k": "v"}
		v.MountOptions = &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{}}
		v.Topologies = []*structs.CSITopology{{Segments: map[string]string{
			"zone": "1",
			"rack": "2",
		}}, nil}
		v.RequestedTopologies = &structs.CSITopologyRequest{Required: []*structs.CSITopology{{}}}
	}
	return v
}

// entry returns a random entry that is not a batch.
func (d dice) entry(tx *state.ReadTx) []byte {
	return d.entryOf(tx, d.command())
}

// command names a command that is not Batch.
func (d dice) command() string {
	var names []string
	for _, c := range commands {
		if c.Payload != nil {
			names = append(names, c.Name)
		}
	}
	return d.of(names...)
}

func (d dice) entryOf(tx *state.ReadTx, command string) []byte {
	if draw := draws[command]; draw != nil {
		return must(d.t)(draw(d, tx))
	}
	n := slices.IndexFunc(commands, func(c *CommandInfo) bool { return c.Name == command })
	payload := commands[n].Payload()
	d.fill(reflect.ValueOf(payload).Elem(), "")
	return must(d.t)(codec.EncodeAfter([]byte{commands[n].ID}, payload))
}

func (d dice) batch(tx *state.ReadTx) []byte {
	var entries [][]byte
	for range 1 + d.upTo(4) {
		entries = append(entries, d.entry(tx))
	}
	return Batch.Encode(entries)
}
