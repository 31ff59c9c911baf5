package assembly

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/config"
	"berth/client/csi/csihooks"
	"berth/client/csi/registry"
	"berth/client/csi/volumes"
	"berth/client/guard"
	"berth/client/hooks"
	"berth/client/hooks/identities"
	"berth/client/hooks/secrets"
	"berth/client/mesh/connect"
	"berth/client/store"
	"berth/structs"
)

// hookOrder is one hook in the order of their Ups, which is the reverse of the order of their Downs, and why
// it is not earlier.
type hookOrder struct{ name, why string }

var allocHookOrder = []hookOrder{
	{"secrets", "it depends on nothing"},
	{"predecessors", "nothing is taken from one that has not let go of it"},
	{"capacity", "the capacity of predecessors is free"},
	{"disk", "data is moved into capacity that the allocation has"},
	{"identities", "no token ends while the allocation waits for capacity"},
	{"guard", "its order counts for the whole use of the volumes"},
	{"csi_volumes", "no claim excludes others while the allocation waits for its data"},
	{"inline_volumes", "none is made while the allocation waits for claims"},
	{"ports", "the holder of a port may end meanwhile"},
	{"network", "it maps the ports"},
	{"host_volumes", "no writer is excluded while the allocation waits for anything else"},
	{"consul_socket", "the network has what the socket leads to"},
	{"consul_services", "no login is made for an allocation that does not start"},
}

var taskHookOrder = []hookOrder{
	{"api_socket", "it depends on nothing"},
	{"dispatch_payload", "it depends on nothing"},
	{"artifacts", "they may not overwrite the payload unnoticed"},
	{"identity", "no file of an artifact takes the place of a token"},
	{"consul_si_token", "it does not expire during a download"},
	{"envoy_bootstrap", "it has the token"},
	{"vault", "it does not expire during a download"},
	{"consul_task", "likewise"},
	{"devices", "they do not wait for a download"},
	{"csi_plugin", "the plugin has its devices"},
	{"volume_tokens", "the volumes are published"},
	{"snapshot_commands", "likewise"},
	{"templates", "they read the files and the variables of the others"},
	{"guard", "nothing is between its look at the lease and the start"},
}

// An allocation and a task with everything have all hooks, in the order of the tables.
func TestHooks_AreInOrder(t *testing.T) {
	task := &structs.Task{
		Name:            "proxy",
		Kind:            structs.NewTaskKind(structs.KindConnectProxy, "web"),
		DispatchPayload: &structs.DispatchPayloadConfig{File: "payload"},
		Artifacts:       []*structs.TaskArtifact{{}},
		CSIPluginConfig: &structs.CSIPluginConfig{ID: "pl", Type: structs.CSIPluginNode},
		Templates:       []*structs.Template{{}},
		VolumeMounts: []*structs.VolumeMount{{
			Volume:      "files",
			Destination: "/files",
			Snapshot:    &structs.SnapshotCommands{},
		}},
		Vault:      &structs.Vault{},
		Identities: []*structs.WorkloadIdentity{{Name: "consul_default"}},
		Identity:   &structs.WorkloadIdentity{Name: structs.DefaultIdentity, Env: true},
	}
	group := &structs.TaskGroup{
		Name:          "g",
		Tasks:         []*structs.Task{task},
		EphemeralDisk: &structs.EphemeralDisk{Sticky: true},
		Services: []*structs.Service{{Name: "web", Provider: structs.ServiceProviderConsul,
			Identity: &structs.WorkloadIdentity{Name: "consul-service_web-"}}},
		Networks: []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}},
		Volumes: map[string]*structs.VolumeRequest{
			"data":  {Type: structs.VolumeTypeHost, Source: "disk"},
			"files": {Type: structs.VolumeTypeCSI, Source: "files"},
			"tmp":   {Type: structs.VolumeTypeCSI, Lifecycle: structs.LifecycleInline},
		},
	}
	env := &hooks.AllocEnv{
		Alloc: &structs.Allocation{
			ID:                 "a1",
			PreviousAllocation: "a0",
			Job:                &structs.Job{Payload: []byte("x")},
			Ports:              []structs.AllocatedPort{{}},
			Devices:            map[string][]*structs.AllocatedDeviceResource{"proxy": {{}}},
		},
		Group: group,
		Dir:   t.TempDir(),
	}
	db, err := store.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p := Parts{DB: db, Config: &config.Config{}, Consul: &noConsul{}, Logger: hclog.NewNullLogger()}
	p.TaskAPI = secrets.NewAPISockets(p.Logger)
	plugins := volumes.New(volumes.Config{Registry: &registry.Registry{}, Root: t.TempDir()})
	guarding, err := guard.New(guard.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	using := volumesConfig(p, plugins, guarding, nil)
	signed := identities.New(identitiesConfig(p))
	logs := mustLogins(t, p)
	for _, h := range allocHooks(p, allocParts{
		using, guarding, connect.NewSockets(nil, nil, p.Logger), signed, logs, t.TempDir(),
	})(env) {
		got = append(got, h.Name())
	}
	checkOrder(t, "an allocation", got, allocHookOrder)

	supervisors := csihooks.SupervisorConfig{Logger: p.Logger}
	got = nil
	for _, h := range guardedLast(guarding, taskHooks(p, taskParts{
		supervisors: supervisors,
		logins:      logs,
		signed:      signed,
		using:       using,
		quiescing:   csihooks.NewQuiescedTasks(db, p.Logger),
	}))(env, task) {
		got = append(got, h.Name())
	}
	checkOrder(t, "a task", got, taskHookOrder)
}

// mustLogins makes the parts of a node that log in.
func mustLogins(t *testing.T, p Parts) *logins {
	t.Helper()
	l, err := buildLogins(p)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func checkOrder(t *testing.T, of string, got []string, order []hookOrder) {
	t.Helper()
	var want []string
	for _, h := range order {
		want = append(want, h.name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s has the hooks\n%q, want\n%q", of, got, want)
	}
}
