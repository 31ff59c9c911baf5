package access_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/opsocket"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/admission"
	"berth/structs/storage"
)

// rule returns a request to store a rule in mode deny.
func rule(name, on, expression string) *admission.RulePutRequest {
	return &admission.RulePutRequest{Rule: &admission.Rule{
		Name:       name,
		On:         on,
		Mode:       admission.ModeDeny,
		Expression: expression,
		Message:    "the limit is 3",
	}}
}

const fewInstances = `job.TaskGroups.all(g, g.Count <= 3)`

// jobWithCount returns a job without volumes.
func jobWithCount(id string, count int) *structs.Job {
	job := endpointstest.Job(id)
	job.TaskGroups[0].Volumes = nil
	job.TaskGroups[0].Count = count
	return job
}

// storeJobs stores a job with five instances, then with two, and a parameterized job with five.
func storeJobs(s *endpointstest.Server) {
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: jobWithCount("web", 5)})
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: jobWithCount("web", 2)})
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: jobWithCount("kept", 5)})
	parent := jobWithCount("parent", 5)
	parent.Type = structs.JobBatch
	parent.ParameterizedJob = &structs.ParameterizedJobConfig{Payload: "optional"}
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: parent})
}

// jobWays are the requests that store, or would store, more instances than fewInstances admits. Each returns
// its warnings.
var jobWays = map[string]func(s *endpointstest.Server) (string, error){
	"register": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobRegisterRequest{Job: jobWithCount("new", 5)}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobRegister, req)
		return textOf(resp, err, func() string { return resp.Warnings })
	},
	"register with the counts of before": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobRegisterRequest{Job: jobWithCount("kept", 1), PreserveCounts: true}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobRegister, req)
		return textOf(resp, err, func() string { return resp.Warnings })
	},
	"plan": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobPlanRequest{Job: jobWithCount("new", 5)}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobPlan, req)
		return textOf(resp, err, func() string { return resp.Warnings })
	},
	"validate": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobValidateRequest{Job: jobWithCount("new", 5)}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobValidate, req)
		if err == nil && resp.Error != "" {
			err = structs.Deniedf("%s", strings.Join(resp.ValidationErrors, "\n"))
		}
		return textOf(resp, err, func() string { return resp.Warnings })
	},
	"scale": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobScaleRequest{JobID: "web", Group: "g", Count: new(int64(5))}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobScale, req)
		return textOf(resp, err, func() string { return resp.Warnings })
	},
	"revert": func(s *endpointstest.Server) (string, error) {
		req := &structs.JobRevertRequest{JobID: "web", JobVersion: 0}
		resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobRevert, req)
		return textOf(resp, err, func() string { return resp.Warnings })
	},
}

func textOf(_ any, err error, text func() string) (string, error) {
	if err != nil {
		return "", err
	}
	return text(), nil
}

func TestAdmission_IsAskedOnEachWayToStoreAJob(t *testing.T) {
	for way, send := range jobWays {
		t.Run(way, func(t *testing.T) {
			s := endpointstest.New(t)
			storeJobs(s)
			put := rule("few", admission.OnJob, fewInstances)
			endpointstest.Must(s, admission.RulePut, put)
			index := s.Store.Index()
			_, err := send(s)
			want := `admission rule "few" denies job`
			if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "the limit is 3") || s.Store.Index() != index {
				t.Errorf("mode deny: got %v at index %d, want a denial at %d", err, s.Store.Index(), index)
			}

			put.Rule.Mode = admission.ModeWarn
			endpointstest.Must(s, admission.RulePut, put)
			warnings, err := send(s)
			if err != nil || !strings.Contains(warnings, `admission rule "few" warns about job`) {
				t.Errorf("mode warn: got %v and the warnings %q", err, warnings)
			}
		})
	}
}

// The volumes that a job asks for are stored by the servers, and nobody is asked about them later.
func TestAdmission_IsAskedAboutTheVolumesOfAJob(t *testing.T) {
	for way, send := range map[string]func(s *endpointstest.Server, job *structs.Job) (string, error){
		"register": func(s *endpointstest.Server, job *structs.Job) (string, error) {
			resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
			return textOf(resp, err, func() string { return resp.Warnings })
		},
		"plan": func(s *endpointstest.Server, job *structs.Job) (string, error) {
			resp, err := rpc.Call(s.T.Context(), s.RPC, structs.JobPlan, &structs.JobPlanRequest{Job: job})
			return textOf(resp, err, func() string { return resp.Warnings })
		},
	} {
		s := endpointstest.New(t)
		endpointstest.Must(s, storage.ClassPut,
			&storage.ClassPutRequest{Class: &storage.VolumeClass{Name: "fast", PluginID: "p"}})
		put := rule("no-fast", admission.OnVolume, `volume.Class != "fast" || volume.RequestedCapacityMin <= 3`)
		endpointstest.Must(s, admission.RulePut, put)
		job := jobWithCount("new", 1)
		job.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"data": {
			Name: "data", Type: "csi", Class: "fast", Size: 1 << 30,
			AccessMode: structs.CSISingleNodeWriter, AttachmentMode: structs.CSIFileSystem,
		}}
		_, err := send(s, job)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), `"no-fast" denies volume`) {
			t.Errorf("%s: mode deny: got %v", way, err)
		}
		put.Rule.Mode = admission.ModeWarn
		endpointstest.Must(s, admission.RulePut, put)
		warnings, err := send(s, job)
		if err != nil || !strings.Contains(warnings, `"no-fast" warns about volume`) {
			t.Errorf("%s: mode warn: got %v and the warnings %q", way, err, warnings)
		}
	}
}

// The parent was admitted, and may have been so before the rule.
func TestAdmission_IsNotAskedAboutChildren(t *testing.T) {
	s := endpointstest.New(t)
	storeJobs(s)
	endpointstest.Must(s, admission.RulePut, rule("few", admission.OnJob, fewInstances))
	child := endpointstest.Must(s, structs.JobDispatch,
		&structs.JobDispatchRequest{JobID: "parent"}).DispatchedJobID
	if state.Job(s.Store.Read(), "default", child) == nil {
		t.Error("the child is not stored")
	}
}

func TestAdmission_IsAskedOnEachWayToStoreAVolume(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	lossless := s.AddVolume("lossless").Copy()
	stored := registeredVolume("fenced")
	stored.OnNodeLoss = structs.LossFence
	stored.RequestedCapacityMin = 1 << 30
	endpointstest.Must(s, structs.CSIVolumeRegister, volumeRequest(stored))
	endpointstest.Must(s, admission.RulePut, rule("loss", admission.OnVolume, `volume.OnNodeLoss != ""`))
	endpointstest.Must(s, admission.RulePut, rule("size", admission.OnVolume,
		`volume.RequestedCapacityMin <= 2147483648 && (old == null || old.RequestedCapacityMin > 0)`))

	grown := registeredVolume("fenced") // it leaves on_node_loss out, so the stored value stays
	grown.RequestedCapacityMin = 4 << 30
	for name, c := range map[string]struct {
		method structs.Method[structs.CSIVolumeRegisterRequest, structs.CSIVolumeRegisterResponse]
		volume *structs.CSIVolume
		rule   string
	}{
		"register":         {structs.CSIVolumeRegister, registeredVolume("new"), "loss"},
		"register changed": {structs.CSIVolumeRegister, lossless, "loss"},
		"create":           {structs.CSIVolumeCreate, endpointstest.Volume("new"), "loss"},
		"expand":           {structs.CSIVolumeCreate, grown, "size"},
	} {
		index := s.Store.Index()
		err := endpointstest.Rejected(s, structs.KindDenied, c.method, volumeRequest(c.volume))
		want := `admission rule "` + c.rule + `" denies volume "` + c.volume.ID + `": the limit is 3`
		if !strings.Contains(err.Error(), want) || s.Store.Index() != index {
			t.Errorf("%s: got %v at index %d, want %q at %d", name, err, s.Store.Index(), want, index)
		}
	}

	endpointstest.Must(s, admission.RulePut, rule("team", admission.OnVolume,
		`!has(volume.Labels) || !("team" in volume.Labels) || volume.Labels.team != "none"`))
	label := &structs.CSIVolumeLabelRequest{ID: "fenced", Set: map[string]string{"team": "none"}}
	index := s.Store.Index()
	err := endpointstest.Rejected(s, structs.KindDenied, structs.CSIVolumeLabel, label)
	if !strings.Contains(err.Error(), `admission rule "team" denies volume "fenced"`) || s.Store.Index() != index {
		t.Errorf("label: got %v at index %d, want a denial at %d", err, s.Store.Index(), index)
	}

	kept := registeredVolume("fenced")
	endpointstest.Must(s, structs.CSIVolumeRegister, volumeRequest(kept))
	warn := rule("loss", admission.OnVolume, `volume.OnNodeLoss == "hold"`)
	warn.Rule.Mode = admission.ModeWarn
	endpointstest.Must(s, admission.RulePut, warn)
	resp := endpointstest.Must(s, structs.CSIVolumeRegister, volumeRequest(kept))
	if !strings.Contains(resp.Warnings, `admission rule "loss" warns about volume "fenced"`) {
		t.Errorf("mode warn: got the warnings %q", resp.Warnings)
	}
	label.Set = map[string]string{"team": "billing"}
	labelled := endpointstest.Must(s, structs.CSIVolumeLabel, label)
	if !strings.Contains(labelled.Warnings, `admission rule "loss" warns about volume "fenced"`) {
		t.Errorf("mode warn: a label got the warnings %q", labelled.Warnings)
	}
	if csi.Volume(s.Store.Read(), "default", "fenced").OnNodeLoss != structs.LossFence {
		t.Error("the stored rule for a lost node has changed")
	}
}

func registeredVolume(id string) *structs.CSIVolume {
	v := endpointstest.Volume(id)
	v.ExternalID = "ext-" + id
	return v
}

func volumeRequest(v *structs.CSIVolume) *structs.CSIVolumeRegisterRequest {
	return &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}}
}

func TestAdmission_SeesItsCaller(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	token := s.Token
	endpointstest.Must(s, access.PolicyPut, &access.PolicyPutRequest{
		Policy: &access.Policy{Name: "infra", Rules: `namespace "*" { policy = "write" }`},
	})
	named := func(policy string) string {
		return endpointstest.Must(s, access.TokenPut, &access.TokenPutRequest{
			Token: &access.Token{Name: "ci", Type: access.TypeClient, Policies: []string{policy}},
		}).SecretID
	}
	endpointstest.Must(s, admission.RulePut, rule("infra-alone", admission.OnJob,
		`caller.Management || (caller.Name == "ci" && caller.Accessor != "" && "infra" in caller.Policies)`))

	ofInfra := named("infra")
	ofOthers := token(`namespace "*" { policy = "write" }`)
	for name, c := range map[string]struct {
		secret string
		socket bool
		want   structs.Kind
	}{
		"with the policy":           {secret: ofInfra},
		"without the policy":        {secret: ofOthers, want: structs.KindDenied},
		"with a management token":   {secret: s.ManagementToken()},
		"at the operator socket":    {secret: access.Anonymous, socket: true},
		"of this process, no token": {want: structs.KindDenied},
	} {
		ctx := t.Context()
		if c.socket {
			ctx = opsocket.Mark(ctx)
		}
		plan := &structs.JobPlanRequest{Job: jobWithCount("web", 1)}
		plan.AuthToken = c.secret
		register := &structs.JobRegisterRequest{Job: jobWithCount("web", 1)}
		register.WriteOptions.AuthToken = c.secret
		_, planned := rpc.Call(ctx, s.RPC, structs.JobPlan, plan)
		_, registered := rpc.Call(ctx, s.RPC, structs.JobRegister, register)
		if structs.KindOf(planned) != c.want || structs.KindOf(registered) != c.want {
			t.Errorf("%s: got %v for the plan and %v for the registration, want %q", name, planned, registered, c.want)
		}
	}
}

// An archive may bring a rule that this version cannot compile.
func TestAdmission_DeniesByARuleThatItCannotRead(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.MustPropose(s, fsm.AdmissionRulePut,
		rule("newer", admission.OnJob, `job.FieldOfANewerVersion == 1`))
	req := &structs.JobRegisterRequest{Job: jobWithCount("web", 1)}
	err := endpointstest.Rejected(s, structs.KindDenied, structs.JobRegister, req)
	if !strings.Contains(err.Error(), `admission rule "newer" denies job "web": it cannot be evaluated`) {
		t.Errorf("got %v", err)
	}
	endpointstest.Must(s, admission.RuleDelete, &admission.RuleDeleteRequest{Name: "newer"})
	endpointstest.Must(s, structs.JobRegister, req)
}

// TestAdmission_EndsWithItsCaller has a caller that has gone: nothing was decided, so nothing is admitted.
func TestAdmission_EndsWithItsCaller(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	endpointstest.Must(s, admission.RulePut, rule("j", admission.OnJob, "true"))
	endpointstest.Must(s, admission.RulePut, rule("v", admission.OnVolume, "true"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for method, req := range map[string]any{
		structs.JobPlan.Name:           &structs.JobPlanRequest{Job: jobWithCount("new", 1)},
		structs.JobValidate.Name:       &structs.JobValidateRequest{Job: jobWithCount("new", 1)},
		structs.CSIVolumeRegister.Name: volumeRequest(registeredVolume("new")),
	} {
		for _, e := range s.List() {
			if e.Name != method {
				continue
			}
			_, err := e.Serve(ctx, req)
			if !structs.IsKind(err, structs.KindTimeout) || !strings.Contains(err.Error(), "the admission rules") {
				t.Errorf("%s: got %v", method, err)
			}
		}
	}
}

// TestAdmission_IsNotAskedAboutAFaultyJob has a rule that would deny the job besides.
func TestAdmission_IsNotAskedAboutAFaultyJob(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Must(s, admission.RulePut, rule("few", admission.OnJob, fewInstances))
	job := jobWithCount("new", 5)
	job.Priority = -1
	got := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job})
	text := strings.Join(got.ValidationErrors, "\n")
	if !strings.Contains(text, "riority") || strings.Contains(text, "admission rule") {
		t.Errorf("got %q", text)
	}
}

func TestAdmissionRules_AreStoredListedAndDeleted(t *testing.T) {
	s := endpointstest.New(t)
	if endpointstest.Must(s, admission.RuleList, &structs.QueryRequest{}).Rules == nil {
		t.Error("no rules are no list")
	}
	for want, bad := range map[string]*admission.RulePutRequest{
		"no valid name": {},
		`rule "x": Expression: line 1, column 1: undeclared`: rule("x", admission.OnJob, "jib.ID == ''"),
		"of type int; expected bool":                         rule("x", admission.OnJob, "1"),
		`On is "node"`:                                       rule("x", "node", "true"),
		"undefined field 'Secrets'":                          rule("x", admission.OnVolume, "volume.Secrets == {}"),
	} {
		err := endpointstest.Rejected(s, structs.KindInvalid, admission.RulePut, bad)
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}

	endpointstest.Must(s, admission.RulePut, rule("b", admission.OnJob, "true"))
	endpointstest.Must(s, admission.RulePut, rule("a", admission.OnVolume, "true"))
	var names []string
	for _, r := range endpointstest.Must(s, admission.RuleList, &structs.QueryRequest{}).Rules {
		names = append(names, r.Name)
	}
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("got the rules %v, want a and b", names)
	}
	got := endpointstest.Must(s, admission.RuleGet, &admission.RuleGetRequest{Name: "a"}).Rule
	if got.On != admission.OnVolume || got.ModifyIndex == 0 {
		t.Errorf("got %+v", got)
	}
	endpointstest.Must(s, admission.RuleDelete, &admission.RuleDeleteRequest{Name: "a"})
	endpointstest.Rejected(s, structs.KindNotFound, admission.RuleGet, &admission.RuleGetRequest{Name: "a"})
	endpointstest.Rejected(s, structs.KindNotFound, admission.RuleDelete,
		&admission.RuleDeleteRequest{Name: "a"})
}

func TestAdmissionTest_StoresNothing(t *testing.T) {
	s := endpointstest.New(t)
	storeJobs(s)
	few := rule("few", admission.OnJob, fewInstances).Rule
	endpointstest.Must(s, admission.RulePut, &admission.RulePutRequest{Rule: few})
	index := s.Store.Index()
	team := *few
	inTeams(&team)
	warns := *few
	warns.Mode = admission.ModeWarn
	for name, c := range map[string]struct {
		req               admission.RuleTestRequest
		applies, admitted bool
		message           string
	}{
		"a stored rule":      {admission.RuleTestRequest{Name: "few", Job: jobWithCount("x", 5)}, true, false, "denies job"},
		"that holds":         {admission.RuleTestRequest{Name: "few", Job: jobWithCount("x", 1)}, true, true, ""},
		"a new rule":         {admission.RuleTestRequest{Rule: few, Job: jobWithCount("x", 5)}, true, false, "denies job"},
		"of other namespace": {admission.RuleTestRequest{Rule: &team, Job: jobWithCount("x", 5)}, false, true, ""},
		"that warns":         {admission.RuleTestRequest{Rule: &warns, Job: jobWithCount("x", 5)}, true, true, "warns about"},
		"of the stored job": {admission.RuleTestRequest{
			Rule: rule("o", admission.OnJob, `old.TaskGroups[0].Count == 2`).Rule,
			Job:  jobWithCount("web", 5),
		}, true, true, ""},
		"of the namespace of a volume": {admission.RuleTestRequest{
			Rule:         inTeams(rule("v", admission.OnVolume, `volume.ID == ""`).Rule),
			Volume:       endpointstest.Volume("v"),
			QueryOptions: structs.QueryOptions{Namespace: "team-a"},
		}, true, false, "denies volume"},
		"on a volume": {admission.RuleTestRequest{
			Rule:   rule("v", admission.OnVolume, `volume.PluginID == "none"`).Rule,
			Volume: endpointstest.Volume("v"),
		}, true, false, "denies volume"},
	} {
		got := endpointstest.Must(s, admission.RuleTest, &c.req)
		if got.Rule == "" || got.Applies != c.applies || got.Admitted != c.admitted || !strings.Contains(got.Message, c.message) ||
			(c.message == "") != (got.Message == "") || (got.Cost > 0) != c.applies {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	for want, req := range map[string]*admission.RuleTestRequest{
		"no admission rule": {Name: "none", Job: jobWithCount("x", 5)},
		"either a Job or":   {Name: "few"},
		"the request has a": {Name: "few", Volume: endpointstest.Volume("v")},
		"undeclared":        {Rule: rule("x", admission.OnJob, "y").Rule, Job: jobWithCount("x", 5)},
		`On is "node"`:      {Rule: rule("x", "node", "true").Rule, Job: jobWithCount("x", 5)},
		"plugin_id is required": {
			Rule: rule("v", admission.OnVolume, "true").Rule, Volume: &structs.CSIVolume{ID: "v"},
		},
		"Job.Region is \"x\"": {Name: "few", Job: &structs.Job{ID: "x", Region: "x"}},
	} {
		_, err := rpc.Call(t.Context(), s.RPC, admission.RuleTest, req)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if s.Store.Index() != index {
		t.Error("a test was written")
	}
}

// inTeams makes a rule be about the namespaces of teams.
func inTeams(r *admission.Rule) *admission.Rule {
	r.Namespaces = []string{"team-*"}
	return r
}

func TestAdmissionTest_SeesItsCaller(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	req := &admission.RuleTestRequest{
		Rule: rule("c", admission.OnJob, "caller.Management").Rule,
		Job:  jobWithCount("x", 1),
	}
	req.AuthToken = s.ManagementToken()
	if got := endpointstest.Must(s, admission.RuleTest, req); !got.Admitted {
		t.Errorf("got %+v", got)
	}
}

// The outcome of a test tells of the stored job, so the rights of an operator are not enough.
func TestAdmissionTest_NeedsTheRightToReadTheObject(t *testing.T) {
	s := endpointstest.New(t)
	s.Guard()
	token := s.Token
	endpointstest.Must(s, admission.RulePut, rule("few", admission.OnJob, fewInstances))
	endpointstest.Must(s, admission.RulePut, rule("v", admission.OnVolume, "true"))
	operator := token(`operator { policy = "read" }`)
	reader := token("operator { policy = \"read\" }\nnamespace \"default\" { policy = \"read\" }")
	elsewhere := jobWithCount("x", 1)
	elsewhere.Namespace = "other"
	for name, c := range map[string]struct {
		secret string
		req    admission.RuleTestRequest
		denied bool
	}{
		"operator, job":         {operator, admission.RuleTestRequest{Name: "few", Job: jobWithCount("x", 1)}, true},
		"operator, volume":      {operator, admission.RuleTestRequest{Name: "v", Volume: endpointstest.Volume("v")}, true},
		"reader, job":           {reader, admission.RuleTestRequest{Name: "few", Job: jobWithCount("x", 1)}, false},
		"reader, volume":        {reader, admission.RuleTestRequest{Name: "v", Volume: endpointstest.Volume("v")}, false},
		"reader, job elsewhere": {reader, admission.RuleTestRequest{Name: "few", Job: elsewhere}, true},
	} {
		c.req.AuthToken = c.secret
		_, err := rpc.Call(t.Context(), s.RPC, admission.RuleTest, &c.req)
		if errors.Is(err, nil) == c.denied || c.denied != structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
