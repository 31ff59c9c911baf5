package events_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/fsm"
	"berth/internal/fastjson"
	"berth/internal/mvcc"
	"berth/server/events"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/event"
	"berth/structs/storage"
)

// made returns the events of a change.
func made(table mvcc.AnyTable, command string, before, now any) []events.Made {
	return events.RowMaker{}.Make(fsm.Change{
		Command: command,
		Edit:    mvcc.Edit{Table: table.Name(), Before: before, Now: now},
	})
}

// payload returns the JSON of the row of an event.
func payload(t *testing.T, m events.Made) string {
	t.Helper()
	var e fastjson.Encoder
	b, err := e.Append(nil, m.Row())
	if err != nil || !json.Valid(b) {
		t.Fatalf("the row of %s %q: %v", m.Topic, m.Key, err)
	}
	return string(b)
}

// typesOf lists the topics and types of events.
func typesOf(all []events.Made) (list []string) {
	for _, m := range all {
		list = append(list, string(m.Topic)+" "+m.Type)
	}
	return list
}

// canary is the text of each secret.
const canary = "CANARY"

// secrets are the fields of rows that no answer of the API has.
var secrets = []string{
	"SecretID", "SecretHash", "Secrets", "SealedSecrets", "PublishContext", "MountFlags", "ConsulToken",
	"Deletion", "CloneSource",
}

// fill sets each field of a row: those of secrets to the canary, others to another text.
func fill(v reflect.Value, text string, depth int) {
	if depth > 12 || !v.CanSet() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uint:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, depth+1)
	case reflect.Map:
		key := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		fill(key, text, depth+1)
		fill(value, text, depth+1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for n := range v.NumField() {
			inner := text
			if slices.Contains(secrets, v.Type().Field(n).Name) {
				inner = canary
			}
			fill(v.Field(n), inner, depth+1)
		}
	}
}

// filled returns a row with a value in each field.
func filled[R any]() *R {
	r := new(R)
	fill(reflect.ValueOf(r).Elem(), "plain", 0)
	return r
}

func TestMake_HasNoSecretInAPayload(t *testing.T) {
	host := filled[structs.CSIVolume]()
	volume := filled[structs.CSIVolume]()
	volume.Host = nil
	job := filled[structs.Job]()
	job.TaskGroups[0].Volumes = nil // the API shows the mount flags of a job
	seen := map[event.Topic]bool{}
	for _, c := range []struct {
		table mvcc.AnyTable
		row   any
	}{
		{schema.Jobs, job},
		{schema.Evals, filled[structs.Evaluation]()},
		{schema.Allocs, filled[structs.Allocation]()},
		{schema.Deployments, filled[structs.Deployment]()},
		{schema.Nodes, filled[structs.Node]()},
		{schema.NodePools, filled[cluster.NodePool]()},
		{schema.Volumes, volume},
		{schema.Volumes, host},
		{schema.Plugins, filled[structs.CSIPluginRow]()},
		{schema.ACLTokens, filled[access.Token]()},
		{schema.ACLPolicies, filled[access.Policy]()},
		{schema.ACLRoles, filled[access.Role]()},
		{schema.Claims, filled[structs.CSIClaim]()},
		{schema.Attachments, filled[structs.CSIAttachment]()},
		{schema.Instances, filled[structs.CSIPluginInstance]()},
		{schema.Snapshots, filled[storage.VolumeSnapshot]()},
		{schema.FenceRuns, filled[cluster.FenceRun]()},
		{schema.FenceOrders, filled[cluster.FenceOrder]()},
		{schema.WrongClocks, filled[cluster.WrongClock]()},
	} {
		alloc, ok := c.row.(*structs.Allocation)
		if ok {
			alloc.ClientStatus = structs.AllocRunning
			alloc.DesiredStatus = structs.AllocDesiredRun
		}
		for _, m := range slices.Concat(
			made(c.table, "C", nil, c.row), made(c.table, "C", c.row, c.row), made(c.table, "C", c.row, nil),
		) {
			seen[m.Topic] = true
			text := payload(t, m)
			if strings.Contains(text, canary) || strings.Contains(text, "Q0FOQVJZ") { // in base64
				t.Errorf("the payload of topic %s has a secret", m.Topic)
			}
			if !slices.Contains(event.Types[m.Topic], m.Type) {
				t.Errorf("topic %s has no type %s", m.Topic, m.Type)
			}
		}
	}
	for _, topic := range event.Topics {
		if !seen[topic] {
			t.Errorf("no row has shown an event of topic %s", topic)
		}
	}
}

func TestMake_AllocationAndItsServices(t *testing.T) {
	offer := func(port int) []*structs.ServiceInstance {
		return []*structs.ServiceInstance{{ID: "s", ServiceName: "web", Port: port}}
	}
	before := &structs.Allocation{
		ID: "a", Namespace: "n", JobID: "j", DesiredStatus: structs.AllocDesiredRun, ClientStatus: structs.AllocRunning,
		Services: offer(1), Job: &structs.Job{ID: "j"},
	}
	now := *before
	now.Services = offer(2)
	ended := now
	ended.ClientStatus = structs.AllocComplete
	for _, c := range []struct {
		command     string
		before, now any
		want        []string
	}{
		{fsm.PlanApply.Name, nil, before, []string{"Allocation PlanResult", "Service ServiceRegistration"}},
		{fsm.AllocsClientUpdate.Name, before, &now,
			[]string{"Allocation AllocationUpdated", "Service ServiceRegistration"}},
		{fsm.AllocStop.Name, before, before, []string{"Allocation AllocationUpdateDesiredStatus"}},
		{fsm.AllocsClientUpdate.Name, &now, &ended,
			[]string{"Allocation AllocationUpdated", "Service ServiceDeregistration"}},
		{fsm.Reap.Name, &ended, nil, []string{"Allocation AllocationUpdated"}},
	} {
		got := made(schema.Allocs, c.command, c.before, c.now)
		if !slices.Equal(typesOf(got), c.want) {
			t.Errorf("%s: got %q, want %q", c.command, typesOf(got), c.want)
		}
		if strings.Contains(payload(t, got[0]), `"Job":`) {
			t.Errorf("%s: the allocation has its job", c.command)
		}
		if !slices.Equal(got[0].FilterKeys, []string{"j"}) || got[0].Namespace != "n" {
			t.Errorf("%s: got the event %+v", c.command, got[0].Event)
		}
	}
}

func TestMake_ClaimTellsItsReason(t *testing.T) {
	waiting := &structs.CSIClaim{
		Namespace: "n", VolumeID: "v", AllocID: "a", State: structs.ClaimWaiting, Reason: "held by b",
	}
	granted := *waiting
	granted.State = structs.ClaimGranted
	granted.Reason = ""
	for want, got := range map[string][]events.Made{
		"ClaimRequested held by b":                      made(schema.Claims, "VolumeClaim", nil, waiting),
		"ClaimGranted no claim excludes it":             made(schema.Claims, "VolumeClaim", nil, &granted),
		"ClaimGranted no claim excludes it any more":    made(schema.Claims, "VolumeUnpublish", waiting, &granted),
		"ClaimReleased the node has released":           made(schema.Claims, "VolumeUnpublish", &granted, nil),
		"ClaimReleased an operator has forced":          made(schema.Claims, "VolumeForce", &granted, nil),
		"ClaimReleased a fence device has proved":       made(schema.Claims, "FenceEnd", &granted, nil),
		"ClaimReleased the allocation no longer needs ": made(schema.Claims, "JobDeregister", &granted, nil),
	} {
		text := got[0].Type + " " + got[0].Reason
		if !strings.HasPrefix(text, want) || got[0].Key != "v/a" || got[0].FilterKeys[0] != "v" {
			t.Errorf("got %q and the event %+v, want %q", text, got[0].Event, want)
		}
	}
}

func TestMake_OperationsBeginFailAndEnd(t *testing.T) {
	idle := &structs.CSIVolume{ID: "v", Namespace: "n"}
	called := *idle
	called.Call = &structs.CSICall{Op: "create"}
	failed := called
	failed.LastError = &structs.OperationError{Message: "no space"}
	for _, c := range []struct {
		before, now any
		want        string
	}{
		{idle, &called, "Operation OperationBegun"},
		{&called, &failed, "Operation OperationFailed"},
		{&called, idle, "Operation OperationEnded"},
	} {
		got := typesOf(made(schema.Volumes, "VolumeOutcome", c.before, c.now))
		if !slices.Equal(got, []string{"CSIVolume CSIVolumeUpdated", c.want}) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := made(schema.Volumes, "VolumeOutcome", &called, &failed); got[1].Reason != "no space" {
		t.Errorf("the reason is %q", got[1].Reason)
	}
}

// TestMake_AGrownVolumeTellsItsSizes: a creation and a smaller size are no growth.
func TestMake_AGrownVolumeTellsItsSizes(t *testing.T) {
	size := func(bytes int64) *structs.CSIVolume {
		return &structs.CSIVolume{
			ID:              "v",
			CSIVolumeOrigin: structs.CSIVolumeOrigin{Capacity: bytes},
		}
	}
	for _, c := range []struct {
		before, now *structs.CSIVolume
		kind        string
	}{
		{nil, size(5), "CSIVolumeRegistered"},
		{size(0), size(5), "CSIVolumeUpdated"},
		{size(5), size(5), "CSIVolumeUpdated"},
		{size(5), size(4), "CSIVolumeUpdated"},
		{size(5), size(7), "CSIVolumeGrown"},
		{size(5), nil, "CSIVolumeDeregistered"},
	} {
		got := made(schema.Volumes, "VolumeOutcome", c.before, c.now)[0]
		if got.Type != c.kind {
			t.Errorf("from %+v to %+v: got %s, want %s", c.before, c.now, got.Type, c.kind)
		}
		if c.kind == "CSIVolumeGrown" && got.Reason != "from 5 to 7 bytes" {
			t.Errorf("the reason is %q", got.Reason)
		}
	}
}

func TestMake_NodesAndJobs(t *testing.T) {
	node := &structs.Node{ID: "n", SchedulingEligibility: structs.NodeEligible}
	drains := *node
	drains.DrainStrategy = &structs.DrainStrategy{}
	ineligible := *node
	ineligible.SchedulingEligibility = structs.NodeIneligible
	job := &structs.Job{ID: "j"}
	for _, c := range []struct {
		table       mvcc.AnyTable
		command     string
		before, now any
		want        string
	}{
		{schema.Nodes, "NodeRegister", nil, node, "Node NodeRegistration"},
		{schema.Nodes, "NodeDrain", node, &drains, "Node NodeDrain"},
		{schema.Nodes, "NodeEligibility", node, &ineligible, "Node NodeEligibility"},
		{schema.Nodes, "NodeStatus", node, node, "Node NodeStreamEvent"},
		{schema.Nodes, "NodeDeregister", node, nil, "Node NodeDeregistration"},
		{schema.Jobs, "JobRegister", nil, job, "Job JobRegistered"},
		{schema.Jobs, "PlanApply", job, job, "Job PlanResult"},
		{schema.Jobs, "JobDeregister", job, job, "Job JobDeregistered"},
		{schema.Jobs, "JobDeregister", job, nil, "Job JobDeregistered"},
		{schema.Jobs, "Reap", job, nil, "Job JobBatchDeregistered"},
		{schema.JobVersions, "JobTag", job, job, "Job JobVersionTagged"},
		{schema.JobVersions, "JobUntag", job, job, "Job JobVersionUntagged"},
	} {
		got := made(c.table, c.command, c.before, c.now)
		if len(got) != 1 || typesOf(got)[0] != c.want || got[0].Deleted != (c.now == nil) {
			t.Errorf("%s: got %q, want %q", c.command, typesOf(got), c.want)
		}
	}
}

// A tag is one event, also that of the current version, of which both tables have a row. All else in the
// table of versions is no event.
func TestMake_VersionsHaveTheEventsOfTheirTags(t *testing.T) {
	job := &structs.Job{ID: "j"}
	for _, got := range [][]events.Made{
		made(schema.JobVersions, "JobRegister", nil, job),
		made(schema.JobVersions, "JobStable", job, job),
		made(schema.JobVersions, "Reap", job, nil),
		made(schema.Jobs, "JobTag", job, job),
		made(schema.Jobs, "JobUntag", job, job),
	} {
		if len(got) != 0 {
			t.Errorf("got the events %q", typesOf(got))
		}
	}
}

func TestMaker_HasTheTablesWithEventsAlone(t *testing.T) {
	for _, table := range schema.Tables() {
		made := events.RowMaker{}.Makes(table.Name())
		if strings.Contains(table.Name(), "key") && made || table.Name() == schema.Variables.Name() && made {
			t.Errorf("table %s, which has secrets, has events", table.Name())
		}
	}
}
