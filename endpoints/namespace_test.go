package endpoints_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/structs"
)

// namespaceNames lists the namespaces.
func (s *server) namespaceNames(q structs.QueryOptions) string {
	s.T.Helper()
	var names []string
	for _, n := range must(s, structs.NamespaceList, &structs.QueryRequest{QueryOptions: q}).Namespaces {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func TestNamespaces_AreListedAndRead(t *testing.T) {
	s := newServer(t)
	s.AddNamespace("prod")
	s.AddNamespace("stage")
	for want, q := range map[string]structs.QueryOptions{
		"default prod stage": {},
		"stage prod default": {Reverse: true},
		"prod":               {Prefix: "pr"},
		"stage":              {Filter: `Name != "prod" and Name != "default"`},
	} {
		if got := s.namespaceNames(q); got != want {
			t.Errorf("got namespaces %q, want %q", got, want)
		}
	}
	get := &structs.NamespaceGetRequest{Name: "prod"}
	if n := must(s, structs.NamespaceGet, get).Namespace; n.Name != "prod" || n.CreateIndex == 0 {
		t.Errorf("got namespace %+v", n)
	}
	must(s, structs.NamespaceDelete, &structs.NamespaceDeleteRequest{Name: "prod"})
	rejected(s, structs.KindNotFound, structs.NamespaceGet, get)
}

func TestNamespaceApply_RejectsFaults(t *testing.T) {
	s := newServer(t)
	rejected(s, structs.KindInvalid, structs.NamespaceApply, &structs.NamespaceApplyRequest{})
	for _, n := range []structs.Namespace{
		{},
		{Name: "a b"},
		{Name: structs.AllNamespaces},
		{Name: strings.Repeat("a", 129)},
		{Name: "a", Description: strings.Repeat("d", structs.MaxDescription+1)},
		{Name: "a", Meta: map[string]string{"": "x"}},
		{Name: "a", Capabilities: &structs.NamespaceCapabilities{EnabledTaskDrivers: []string{"a/b"}}},
		{Name: "a", Capabilities: &structs.NamespaceCapabilities{DisabledTaskDrivers: []string{""}}},
	} {
		rejected(s, structs.KindInvalid, structs.NamespaceApply, &structs.NamespaceApplyRequest{Definition: &n})
	}
}

func TestNodePoolApply_RejectsFaults(t *testing.T) {
	s := newServer(t)
	rejected(s, structs.KindInvalid, structs.NodePoolApply, &structs.NodePoolApplyRequest{})
	settings := func(algorithm string, more *bool) *structs.NodePoolSchedulerConfiguration {
		return &structs.NodePoolSchedulerConfiguration{
			SchedulerAlgorithm:            algorithm,
			MemoryOversubscriptionEnabled: more,
		}
	}
	for _, p := range []structs.NodePool{
		{},
		{Name: "all"},
		{Name: "default"},
		{Name: "a b"},
		{Name: "a", Description: strings.Repeat("d", structs.MaxDescription+1)},
		{Name: "a", SchedulerConfiguration: settings("random", nil)},
	} {
		rejected(s, structs.KindInvalid, structs.NodePoolApply, &structs.NodePoolApplyRequest{Pool: &p})
	}
	must(s, structs.NodePoolApply, &structs.NodePoolApplyRequest{
		Pool: &structs.NodePool{Name: "a_b", SchedulerConfiguration: settings("binpack", new(true))},
	})
	must(s, structs.NodePoolDelete, &structs.NodePoolDeleteRequest{Name: "a_b"})
}

func TestJobs_NeedANamespaceThatExists(t *testing.T) {
	s := newServer(t)
	job := testJob("j")
	job.Namespace = "prod"
	err := rejected(s, structs.KindPrecondition, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	if !strings.Contains(err.Error(), "berth namespace apply prod") {
		t.Errorf("the error names no remedy: %v", err)
	}
	rejected(s, structs.KindPrecondition, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	checked := must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job})
	if !strings.Contains(fmt.Sprint(checked.ValidationErrors), "berth namespace apply prod") {
		t.Errorf("the check finds %v", checked.ValidationErrors)
	}
	v := testVolume("v")
	v.Namespace = "prod"
	rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	must(s, structs.NamespaceApply, &structs.NamespaceApplyRequest{Definition: &structs.Namespace{
		Name:         "prod",
		Capabilities: &structs.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
	}})
	must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	job.TaskGroups[0].Tasks[0].Driver = "raw_exec"
	rejected(s, structs.KindPrecondition, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	rejected(s, structs.KindPrecondition, structs.JobPlan, &structs.JobPlanRequest{Job: job})
}
