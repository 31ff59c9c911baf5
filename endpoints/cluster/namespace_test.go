package cluster_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/structs"
	"berth/structs/cluster"
)

// namespaceNames lists the namespaces.
func namespaceNames(s *endpointstest.Server, q structs.QueryOptions) string {
	s.T.Helper()
	var names []string
	for _, n := range endpointstest.Must(s, cluster.NamespaceList,
		&structs.QueryRequest{QueryOptions: q}).Namespaces {
		names = append(names, n.Name)
	}
	return strings.Join(names, " ")
}

func TestNamespaces_AreListedAndRead(t *testing.T) {
	s := endpointstest.New(t)
	s.AddNamespace("prod")
	s.AddNamespace("stage")
	for want, q := range map[string]structs.QueryOptions{
		"default prod stage": {},
		"stage prod default": {Reverse: true},
		"prod":               {Prefix: "pr"},
		"stage":              {Filter: `Name != "prod" and Name != "default"`},
	} {
		if got := namespaceNames(s, q); got != want {
			t.Errorf("got namespaces %q, want %q", got, want)
		}
	}
	get := &cluster.NamespaceGetRequest{Name: "prod"}
	if n := endpointstest.Must(s, cluster.NamespaceGet, get).Namespace; n.Name != "prod" || n.CreateIndex == 0 {
		t.Errorf("got namespace %+v", n)
	}
	endpointstest.Must(s, cluster.NamespaceDelete, &cluster.NamespaceDeleteRequest{Name: "prod"})
	endpointstest.Rejected(s, structs.KindNotFound, cluster.NamespaceGet, get)
}

func TestNamespaceApply_RejectsFaults(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Rejected(s, structs.KindInvalid, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{})
	for _, n := range []cluster.Namespace{
		{},
		{Name: "a b"},
		{Name: structs.AllNamespaces},
		{Name: strings.Repeat("a", 129)},
		{Name: "a", Description: strings.Repeat("d", structs.MaxDescription+1)},
		{Name: "a", Meta: map[string]string{"": "x"}},
		{Name: "a", Capabilities: &cluster.NamespaceCapabilities{EnabledTaskDrivers: []string{"a/b"}}},
		{Name: "a", Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{""}}},
	} {
		endpointstest.Rejected(s, structs.KindInvalid, cluster.NamespaceApply,
			&cluster.NamespaceApplyRequest{Definition: &n})
	}
}

func TestNodePoolApply_RejectsFaults(t *testing.T) {
	s := endpointstest.New(t)
	endpointstest.Rejected(s, structs.KindInvalid, cluster.NodePoolApply, &cluster.NodePoolApplyRequest{})
	settings := func(algorithm string, more *bool) *cluster.NodePoolSchedulerConfiguration {
		return &cluster.NodePoolSchedulerConfiguration{
			SchedulerAlgorithm:            algorithm,
			MemoryOversubscriptionEnabled: more,
		}
	}
	for _, p := range []cluster.NodePool{
		{},
		{Name: "all"},
		{Name: "default"},
		{Name: "a b"},
		{Name: "a", Description: strings.Repeat("d", structs.MaxDescription+1)},
		{Name: "a", SchedulerConfiguration: settings("random", nil)},
	} {
		endpointstest.Rejected(s, structs.KindInvalid, cluster.NodePoolApply,
			&cluster.NodePoolApplyRequest{Pool: &p})
	}
	endpointstest.Must(s, cluster.NodePoolApply, &cluster.NodePoolApplyRequest{
		Pool: &cluster.NodePool{Name: "a_b", SchedulerConfiguration: settings("binpack", new(true))},
	})
	endpointstest.Must(s, cluster.NodePoolDelete, &cluster.NodePoolDeleteRequest{Name: "a_b"})
}

func TestJobs_NeedANamespaceThatExists(t *testing.T) {
	s := endpointstest.New(t)
	job := endpointstest.Job("j")
	job.Namespace = "prod"
	err := endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRegister,
		&structs.JobRegisterRequest{Job: job})
	if !strings.Contains(err.Error(), "berth namespace apply prod") {
		t.Errorf("the error names no remedy: %v", err)
	}
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobPlan, &structs.JobPlanRequest{Job: job})
	checked := endpointstest.Must(s, structs.JobValidate, &structs.JobValidateRequest{Job: job})
	if !strings.Contains(fmt.Sprint(checked.ValidationErrors), "berth namespace apply prod") {
		t.Errorf("the check finds %v", checked.ValidationErrors)
	}
	v := endpointstest.Volume("v")
	v.Namespace = "prod"
	endpointstest.Rejected(s, structs.KindPrecondition, structs.CSIVolumeCreate,
		&structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{v}})
	endpointstest.Must(s, cluster.NamespaceApply, &cluster.NamespaceApplyRequest{Definition: &cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{"raw_exec"}},
	}})
	endpointstest.Must(s, structs.JobRegister, &structs.JobRegisterRequest{Job: job})
	job.TaskGroups[0].Tasks[0].Driver = "raw_exec"
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobRegister,
		&structs.JobRegisterRequest{Job: job})
	endpointstest.Rejected(s, structs.KindPrecondition, structs.JobPlan, &structs.JobPlanRequest{Job: job})
}
