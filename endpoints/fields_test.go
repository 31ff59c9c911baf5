package endpoints_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/endpoints/core"
	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/codec"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/storage"
)

// hostile is a change of one field of a request.
type hostile struct {
	path string
	do   func(root reflect.Value)
}

// largestEntry bounds the log entry of a request with a hostile field.
const largestEntry = 64 << 10

// place finds a field in a request that has the same fields as another one.
type place func(root reflect.Value) reflect.Value

// hostilesOf returns the changes that make each field hostile, one at a time, of any request that has the
// same fields as the given one: too long, no text, negative, maximal, null, or inverted.
//
// A long text is just above the largest bound of a field: the race detector looks at each byte of each copy.
func hostilesOf(request any) []hostile {
	n := structs.MaxPairsBytes + 1
	if _, ok := request.(*structs.Node); ok {
		n = structs.MaxNodeBytes + 1
	}
	root := func(root reflect.Value) reflect.Value { return root }
	return hostiles("", reflect.ValueOf(request), root, strings.Repeat("x", n))
}

func hostiles(path string, v reflect.Value, at place, long string) (all []hostile) {
	set := func(as string, x any) {
		all = append(all, hostile{path + " = " + as, func(root reflect.Value) {
			at(root).Set(reflect.ValueOf(x).Convert(v.Type()))
		}})
	}
	if (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0 {
		return nil // see requireFilled
	}
	switch v.Kind() {
	case reflect.String:
		set("too long", long)
		set("NUL", "a\x00b")
		set("bad UTF-8", "a\xffb")
	case reflect.Bool:
		set("the other", !v.Bool())
	case reflect.Int, reflect.Int64:
		set("-5", -5)
		set("2^63-1", math.MaxInt64)
	case reflect.Int8:
		set("-2^7", math.MinInt8)
		set("2^7-1", math.MaxInt8)
	case reflect.Uint8:
		set("2^8-1", math.MaxUint8)
	case reflect.Uint16:
		set("2^16-1", math.MaxUint16)
	case reflect.Uint64:
		set("2^64-1", uint64(math.MaxUint64))
	case reflect.Pointer:
		elem := func(root reflect.Value) reflect.Value { return at(root).Elem() }
		all = hostiles(path, v.Elem(), elem, long)
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Type != reflect.TypeFor[time.Time]() {
				field := func(root reflect.Value) reflect.Value { return at(root).Field(i) }
				all = append(all, hostiles(path+"."+f.Name, v.Field(i), field, long)...)
			}
		}
	case reflect.Slice:
		first := func(root reflect.Value) reflect.Value { return at(root).Index(0) }
		all = hostiles(path+"[0]", v.Index(0), first, long)
		all = append(all, hostile{path + " = 5000", func(root reflect.Value) {
			at(root).Set(reflect.MakeSlice(v.Type(), 5000, 5000))
		}})
		if v.Index(0).Kind() == reflect.Pointer {
			all = append(all, hostile{path + "[0] = null", func(root reflect.Value) { first(root).SetZero() }})
		}
	case reflect.Map:
		all = hostilesInMap(path, v, at, long)
	}
	return all
}

func hostilesInMap(path string, v reflect.Value, at place, long string) (all []hostile) {
	key := v.MapKeys()[0]
	elem := v.MapIndex(key)
	put := func(as string, key, value reflect.Value) {
		all = append(all, hostile{path + as, func(root reflect.Value) { at(root).SetMapIndex(key, value) }})
	}
	put(" with a key that is too long", reflect.ValueOf(long).Convert(v.Type().Key()), elem)
	switch elem.Kind() {
	case reflect.String:
		put(" with a text that is too long", key, reflect.ValueOf(long).Convert(elem.Type()))
	case reflect.Pointer:
		value := func(root reflect.Value) reflect.Value { return at(root).MapIndex(key) }
		all = append(all, hostiles(path+"[]", elem, value, long)...)
		put(" with null", key, reflect.Zero(elem.Type()))
	}
	return all
}

// requireFilled fails the test if a field is empty, so that the test covers new fields.
func requireFilled(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	if ofSomeTypes[path] {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			t.Fatalf("the fixture leaves out %s", path)
		}
		requireFilled(t, path, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				requireFilled(t, path+"."+f.Name, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Map:
		if v.Len() == 0 {
			t.Fatalf("the fixture leaves out %s", path)
		}
		if v.Kind() == reflect.Slice {
			requireFilled(t, path+"[0]", v.Index(0))
			return
		}
		requireFilled(t, path+"[]", v.MapIndex(v.MapKeys()[0]))
	}
}

// storedHostileFields checks each hostile field that was not tried: put either rejects the request, or stores
// the same row as without the field, by a small log entry. It returns the fields for which put does neither.
func storedHostileFields[T any](t *testing.T, given *T, tried map[string]bool,
	put func(*endpointstest.Server, *T) (row any, err error),
) (taken []string) {
	t.Helper()
	requireFilled(t, "", reflect.ValueOf(given))
	bytes, err := codec.Encode(given)
	if err != nil {
		t.Fatal(err)
	}
	fresh := func() *T {
		c := new(T)
		if err := codec.Decode(bytes, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	good, err := put(endpointstest.New(t), fresh())
	if err != nil {
		t.Fatalf("the fixture itself is rejected: %v", err)
	}
	s := endpointstest.New(t)
	for _, h := range hostilesOf(fresh()) {
		if tried[h.path] {
			continue
		}
		bad := fresh()
		h.do(reflect.ValueOf(bad))
		row, err := put(s, bad)
		if err != nil {
			continue // the server has no row of it
		}
		tooLarge := func(entry []byte) bool { return len(entry) > largestEntry }
		if !codec.SameBytes(good, row) || slices.ContainsFunc(s.Raft.Entries(), tooLarge) {
			taken = append(taken, h.path)
		}
		s = endpointstest.New(t)
	}
	return taken
}

func filledVolume() *structs.CSIVolume {
	topologies := func() []*structs.CSITopology {
		return []*structs.CSITopology{{Segments: map[string]string{"zone": "a"}}}
	}
	v := endpointstest.Volume("v")
	v.Name = "n"
	v.ExternalID = "ext"
	v.ExternalName = "at-plugin"
	v.Namespace = "default"
	v.State = structs.VolumeReady
	v.LastError = &structs.OperationError{}
	v.Reclaim = storage.ReclaimDelete
	v.DeleteAfter = new(time.Hour)
	v.Grow = &structs.CSIGrow{At: 80, By: 20, Max: 1 << 30}
	v.Trim = new(24 * time.Hour)
	v.Topologies = topologies()
	v.RequestedTopologies = &structs.CSITopologyRequest{Required: topologies(), Preferred: topologies()}
	v.Labels = map[string]string{"k": "v"}
	v.Parameters = map[string]string{"k": "v"}
	v.MutableParameters = map[string]string{"k": "v"}
	v.AppliedParameters = map[string]string{"other": "v"}
	v.Context = map[string]string{"k": "v"}
	sealed := &structs.Sealed{KeyID: "k", Data: []byte("v")}
	v.SealedSecrets = sealed
	v.Deletion = &structs.CSIDeletion{Secrets: structs.Secrets{"k": "v"}, SealedSecrets: sealed}
	v.CloneSource = &structs.CSICloneSource{}
	v.Host = &structs.CSIHost{Name: "x", Constraints: []*structs.Constraint{{}}}
	v.Call = &structs.CSICall{}
	v.Forced = &structs.CSIForced{}
	v.TurnedReadOnly = &structs.CSITurnedReadOnly{}
	v.Grown = &structs.CSIGrowth{Fault: "x"}
	return v
}

func TestRegisterVolume_RejectsOrDropsHostileFields(t *testing.T) {
	t.Parallel()
	put := func(s *endpointstest.Server, v *structs.CSIVolume) (any, error) {
		s.AddNode("n1", "a")
		_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeRegister, endpointstest.RegisterRequest(v))
		return csi.Volume(s.Store.Read(), "default", "v"), err
	}
	for _, path := range storedHostileFields(t, filledVolume(), nil, put) {
		t.Errorf("CSIVolume%s is stored", path)
	}
}

func TestCreateVolume_RejectsOrDropsHostileFields(t *testing.T) {
	t.Parallel()
	config := core.DefaultSettings()
	config.VolumeTimeout = time.Nanosecond
	given := filledVolume()
	given.ExternalID = ""
	put := func(s *endpointstest.Server, v *structs.CSIVolume) (any, error) {
		s.Settings = config
		s.AddNode("n1", "a")
		_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeCreate, endpointstest.RegisterRequest(v))
		row := csi.Volume(s.Store.Read(), "default", "v")
		if row != nil && len(row.Topologies)+int(row.Capacity) > 0 {
			t.Error("a volume that is not created yet has a topology or a capacity")
		}
		if structs.IsKind(err, structs.KindTimeout) {
			err = nil
		}
		return row, err
	}
	for _, path := range storedHostileFields(t, given, nil, put) {
		t.Errorf("CSIVolume%s is stored", path)
	}
}

func TestRegisterVolume_NamesTheFaultOfATopology(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	for want, edit := range map[string]func(*structs.CSIVolume){
		`volume "v": capacity -5 must be from 0 to 1152921504606846976 bytes`: func(v *structs.CSIVolume) {
			v.Capacity = -5
		},
		`volume "v": topology 2 is null`: func(v *structs.CSIVolume) {
			v.Topologies = append(v.Topologies, nil)
		},
		"257 topologies; at most 256 are allowed": func(v *structs.CSIVolume) {
			v.Topologies = make([]*structs.CSITopology, structs.MaxCSITopologies+1)
		},
		"topology has 1048577 bytes; CSI allows 4096": func(v *structs.CSIVolume) {
			v.Topologies[0].Segments = map[string]string{"k": strings.Repeat("x", 1<<20)}
		},
	} {
		v := filledVolume()
		edit(v)
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeRegister,
			endpointstest.RegisterRequest(v))
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %.300v", want, err)
		}
	}
}

// A row may have values that an older version accepted. They stay and do not prevent a change of the volume.
func TestRegisterVolume_KeepsTheTopologiesOfAnExistingVolume(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	for _, method := range []structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse]{
		structs.CSIVolumeRegister, structs.CSIVolumeCreate} {
		got := s.GetVolume("v").CSIVolume
		got.Topologies = []*structs.CSITopology{nil}
		got.Capacity = -5
		got.Context = map[string]string{"by": method.Name}
		endpointstest.Must(s, method, endpointstest.RegisterRequest(&got))
		row := csi.Volume(s.Store.Read(), "default", "v")
		if len(row.Topologies) > 0 || row.Capacity != 0 || row.Context["by"] != method.Name {
			t.Errorf("%s: %+v", method.Name, row)
		}
	}
}

func TestDeleteVolume_SecretsAreBounded(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	written := s.Raft.Len()
	for want, secrets := range map[string]structs.Secrets{
		`volume "v": secrets has 1048577 bytes; CSI allows 4096`: {"k": strings.Repeat("x", 1<<20)},
		"secrets: 1 keys hold other characters":                  {"a b": "x"},
	} {
		err := endpointstest.Rejected(s, structs.KindInvalid, structs.CSIVolumeDelete,
			&structs.CSIVolumeDeleteRequest{
				ID:      "v",
				Secrets: secrets,
			})
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\n got %.300v", want, err)
		}
	}
	if s.Raft.Len() != written {
		t.Error("a rejected request was recorded")
	}
}

func TestDeleteVolume_ShowsNoSecretsMeanwhile(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	endpointstest.MustPropose(s, fsm.VolumeDelete, &structs.CSIVolumeDeleteRequest{
		ID:      "v",
		Secrets: structs.Secrets{"password": "other"},
	})
	if csi.Volume(s.Store.Read(), "default", "v").Deletion.Secrets["password"] != "hunter2" {
		t.Error("the secrets of the volume are lost")
	}
	if endpointstest.CarriesSecrets(t, endpointstest.Must(s, structs.CSIVolumeGet,
		&structs.CSIVolumeGetRequest{ID: "v"})) {
		t.Error("an answer has the secrets")
	}
}

func filledJob() *structs.Job {
	constraints := func() []*structs.Constraint {
		return []*structs.Constraint{{
			LTarget: "a",
			RTarget: "b",
			Operand: "=",
		}}
	}
	affinities := func() []*structs.Affinity {
		return []*structs.Affinity{{LTarget: "a", RTarget: "b", Operand: "=", Weight: 50}}
	}
	spreads := func() []*structs.Spread {
		return []*structs.Spread{{
			Attribute:    "${node.datacenter}",
			Weight:       50,
			SpreadTarget: []*structs.SpreadTarget{{Value: "dc1", Percent: 70}},
		}}
	}
	meta := func() map[string]string { return map[string]string{"k": "v"} }
	j := endpointstest.Job("j")
	j.Payload = []byte("x") // the servers drop it
	j.Datacenters = []string{"dc1"}
	j.Constraints = constraints()
	j.Affinities = affinities()
	j.Spreads = spreads()
	j.Meta = meta()
	g := j.TaskGroups[0]
	g.Affinities = affinities()
	g.Spreads = spreads()
	g.Constraints = constraints()
	g.Meta = meta()
	g.ShutdownDelay = new(time.Duration)
	g.Disconnect = &structs.DisconnectStrategy{
		StopOnClientAfter: new(time.Duration),
		Replace:           new(bool),
		Reconcile:         structs.ReconcileKeepOriginal,
	}
	g.Volumes["data"].MountOptions = &structs.CSIMountOptions{MountFlags: []string{"ro"}}
	g.Volumes["data"].OnDeadMount = "restart"
	g.Volumes["data"].Ownership = &structs.VolumeOwnership{Mode: "0770"}
	task := g.Tasks[0]
	task.Constraints = constraints()
	task.Affinities = affinities()
	task.Meta = meta()
	task.Env = meta()
	task.VolumeMounts = []*structs.VolumeMount{{
		Volume:      "data",
		Destination: "/data",
		SubPath:     "pg",
		Snapshot:    &structs.SnapshotCommands{Pre: []string{"p"}, Post: []string{"p"}, Timeout: time.Second},
	}}
	task.CSIPluginConfig = &structs.CSIPluginConfig{
		ID:     "p",
		Type:   structs.CSIPluginNode,
		Tokens: []*structs.CSIToken{{Audience: "a"}},
	}
	task.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePoststart}
	task.Artifacts = []*structs.TaskArtifact{{
		GetterSource:  "http://example.com/x",
		GetterOptions: meta(),
		GetterHeaders: meta(),
		GetterMode:    "any",
		RelativeDest:  "local/x",
	}}
	task.Templates = []*structs.Template{{
		EmbeddedTmpl: "x",
		DestPath:     "local/x",
		Uid:          new(1), Gid: new(1),
		ChangeMode:   structs.TemplateScript,
		Wait:         &structs.TemplateWait{Min: new(time.Second), Max: new(time.Minute)},
		ChangeScript: &structs.ChangeScript{Command: "/bin/reload", Args: []string{"x"}},
	}}
	task.Actions = []*structs.Action{{Name: "dump", Command: "/bin/dump", Args: []string{"x"}}}
	task.DispatchPayload = &structs.DispatchPayloadConfig{File: "x"}
	task.Vault = &structs.Vault{Role: "r", ChangeMode: "signal", ChangeSignal: "SIGHUP"}
	task.Consul = &structs.Consul{Cluster: "default"}
	task.Identity = &structs.WorkloadIdentity{Env: true, File: true, TTL: time.Hour}
	task.Identities = []*structs.WorkloadIdentity{{
		Name:     "vault_default",
		Audience: []string{"example.org"},
		TTL:      time.Hour,
	}}
	task.Resources = &structs.Resources{Devices: []*structs.RequestedDevice{{
		Name:        "gpu",
		Count:       1,
		Constraints: constraints(),
		Affinities:  affinities(),
	}}}
	g.Tasks = append(g.Tasks, &structs.Task{Name: "main", Driver: "exec"}) // not all tasks have a lifecycle
	g.Networks = []*structs.NetworkResource{filledNetwork()}
	g.Services = []*structs.Service{endpointstest.FilledService("s", "main", endpointstest.HTTPCheck())}
	task.Services = []*structs.Service{endpointstest.FilledService("t", task.Name, endpointstest.ScriptCheck(task.Name))}
	task.Services[0].Provider = structs.ServiceProviderConsul
	g.Services[0].Provider = structs.ServiceProviderConsul
	g.Services[0].Identity = &structs.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
	g.Consul = &structs.Consul{Cluster: "default"}
	task.Services[0].Identity = &structs.WorkloadIdentity{Audience: []string{"consul.io"}, TTL: time.Hour}
	task.Services[0].TaggedAddresses = map[string]string{"k": "192.0.2.1"}
	task.Services[0].Weights = &structs.ServiceWeights{Passing: 1, Warning: 1}
	g.Update = &structs.UpdateStrategy{
		Stagger: 1, MaxParallel: 1, HealthCheck: structs.HealthManual, MinHealthyTime: 1, HealthyDeadline: 2,
		ProgressDeadline: 3, AutoRevert: true, AutoPromote: true, Canary: 1,
	}
	g.Scaling = &structs.ScalingPolicy{
		Max:    new(int64(9)),
		Policy: map[string]any{"a": "b"},
	}
	j.VersionTag = &structs.JobVersionTag{Name: "golden", Description: "d", TaggedTime: 1}
	defaults.Canonicalize(j)
	j.Update = new(*g.Update)
	j.Migrate = new(*g.Migrate)
	return j
}

func TestRegisterJob_RejectsOrDropsHostileFields(t *testing.T) {
	t.Parallel()
	put := func(s *endpointstest.Server, j *structs.Job) (any, error) {
		s.Consul = &endpointstest.FakeConsul{}
		_, err := rpc.Call(t.Context(), s.RPC, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
		return state.Job(s.Store.Read(), "default", "j"), err
	}
	tried := map[string]bool{} // all kinds of jobs have the fields of the first
	for _, j := range slices.Concat([]*structs.Job{filledJob()}, filledParents(), filledMesh()) {
		for _, path := range storedHostileFields(t, j, tried, put) {
			driversOwn := strings.Contains(path, ".Config") ||
				strings.Contains(path, ".Scaling.Policy") // bounded with the job
			authorsOwn := strings.Contains(path, ".EmbeddedTmpl") // a file with any bytes
			if !driversOwn && !authorsOwn && !strings.HasSuffix(path, " = the other") {
				t.Errorf("Job%s is stored", path)
			}
		}
		if len(tried) == 0 {
			for _, h := range hostilesOf(j) {
				tried[h.path] = true
			}
		}
	}
	s := endpointstest.New(t)
	j := filledJob()
	j.Stable = true
	j.StatusDescription = "x"
	j.Version = 7
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: j})
	row := state.Job(s.Store.Read(), "default", "j")
	if row.Stable || row.StatusDescription != "" || row.Version != 0 {
		t.Errorf("got the row %+v, want none of the given fields", row)
	}
}
