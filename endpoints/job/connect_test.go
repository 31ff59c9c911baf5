package job_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/internal/codec"
	"berth/internal/level"
	"berth/state"
	"berth/structs"
)

// meshJob returns a job with a service that has a sidecar.
func meshJob(id string) *structs.Job {
	job := endpointstest.Job(id)
	g := job.TaskGroups[0]
	g.Volumes = nil
	g.Networks = []*structs.NetworkResource{{Mode: structs.NetworkModeBridge}}
	g.Services = []*structs.Service{{
		Name:      "web",
		PortLabel: "8080",
		Connect:   &structs.Connect{SidecarService: &structs.SidecarService{}},
	}}
	return job
}

func storedJob(s *endpointstest.Server, id string) *structs.Job {
	s.T.Helper()
	job := state.Job(s.Store.Read(), "default", id)
	if job == nil {
		s.T.Fatalf("there is no job %s", id)
	}
	return job
}

// TestJobRegister_AddsTheProxies registers a job, and then what "job inspect" shows of it.
func TestJobRegister_AddsTheProxies(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	register := func(job *structs.Job) *structs.Job {
		endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
		return storedJob(s, "j")
	}
	job := meshJob("j")
	first := register(job)
	p := first.TaskGroups[0].Task("connect-proxy-web")
	if p == nil || p.Kind != "connect-proxy:web" {
		t.Fatalf("the tasks are %+v", first.TaskGroups[0].Tasks)
	}
	if len(job.TaskGroups[0].Tasks) != 1 {
		t.Error("the registration changes the job of its caller")
	}
	inspected := endpointstest.Must(s, structs.JobGet, &structs.JobGetRequest{JobID: "j"}).Job
	again := register(inspected)
	if again.Version != first.Version || !codec.SameBytes(again.TaskGroups, first.TaskGroups) {
		t.Errorf("version %d becomes %d: %+v", first.Version, again.Version, again.TaskGroups[0].Tasks)
	}
	if fromFile := register(meshJob("j")); fromFile.Version != first.Version {
		t.Errorf("the same file makes version %d", fromFile.Version)
	}
}

// TestJobRegister_NamesFaultsOfTheFileOnce has a fault that the task of the proxy would have, too.
func TestJobRegister_NamesFaultsOfTheFileOnce(t *testing.T) {
	s := endpointstest.New(t)
	job := meshJob("j")
	job.TaskGroups[0].Services[0].Connect.SidecarTask = &structs.SidecarTask{KillSignal: "X"}
	err := endpointstest.Rejected(s, structs.KindInvalid, structs.JobRegister,
		&structs.JobRegisterRequest{Job: job})
	if strings.Count(err.Error(), "kill_signal") != 1 || !strings.Contains(err.Error(), "sidecar_task: kill_signal") {
		t.Errorf("got %v", err)
	}
}

func TestJobPlan_ShowsTheProxies(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "")
	node := state.Node(s.Store.Read(), "n1").Copy()
	node.Attributes = map[string]string{
		structs.AttrNodeLevel: strconv.Itoa(level.Now),
		"consul.version":      "1.15.4",
		"consul.connect":      "true",
	}
	node.Drivers = map[string]*structs.DriverInfo{"exec": {Detected: true, Healthy: true}}
	endpointstest.Must(s, structs.NodeRegister, &structs.NodeRegisterRequest{Node: node})
	planned := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: meshJob("j"), Diff: true})
	var names []string
	for _, d := range planned.Diff.TaskGroups[0].Tasks {
		names = append(names, d.Name)
	}
	if !slices.Contains(names, "connect-proxy-web") {
		t.Errorf("the difference has the tasks %q", names)
	}
	failed := planned.FailedTGAllocs["g"]
	if failed == nil || failed.ConstraintFiltered["driver connect is not on this node"] != 1 {
		t.Errorf("the rejection is %+v", failed)
	}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: meshJob("j")})
	same := endpointstest.Must(s, structs.JobPlan, &structs.JobPlanRequest{Job: meshJob("j"), Diff: true})
	if same.Diff.Type != structs.DiffNone {
		t.Errorf("the same file has a difference of type %s", same.Diff.Type)
	}
}

func TestJobValidate_KnowsTheProxies(t *testing.T) {
	s := endpointstest.New(t)
	good := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: meshJob("j")})
	if len(good.ValidationErrors) > 0 {
		t.Errorf("got %q", good.ValidationErrors)
	}
	job := meshJob("j")
	g := job.TaskGroups[0]
	g.Tasks = append(g.Tasks, &structs.Task{Name: "connect-proxy-web", Driver: "exec"})
	bad := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job})
	if len(bad.ValidationErrors) != 1 || !strings.Contains(bad.Error, `task "connect-proxy-web" is there twice`) {
		t.Errorf("got %q", bad.ValidationErrors)
	}
}

// TestJobDispatch_GivesChildrenTheProxies dispatches a job in the service mesh.
func TestJobDispatch_GivesChildrenTheProxies(t *testing.T) {
	s := endpointstest.New(t)
	job := meshJob("j")
	job.Type = structs.JobBatch
	job.ParameterizedJob = &structs.ParameterizedJobConfig{}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	dispatched := endpointstest.Must(s, structs.JobDispatch, &structs.JobDispatchRequest{JobID: "j"})
	child := storedJob(s, dispatched.DispatchedJobID)
	if child.TaskGroups[0].Task("connect-proxy-web") == nil {
		t.Errorf("the child has the tasks %+v", child.TaskGroups[0].Tasks)
	}
}
