package cli

import (
	"strings"
	"testing"

	"berth/api/apitest"
	"berth/cli/clitest"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// emptyNamespace answers like servers with the namespace prod, which has nothing.
func emptyNamespace() *apitest.Caller {
	c := &apitest.Caller{}
	apitest.Answer(c, cluster.NamespaceList, cluster.NamespaceListResponse{
		Namespaces: []*cluster.Namespace{{Name: "prod"}},
	})
	apitest.Answer(c, structs.JobList, structs.JobListResponse{})
	apitest.Answer(c, structs.AllocList, structs.AllocListResponse{})
	apitest.Answer(c, structs.EvalList, structs.EvalListResponse{})
	apitest.Answer(c, structs.EvalDelete, structs.EvalDeleteResponse{})
	apitest.Answer(c, structs.DeploymentList, structs.DeploymentListResponse{})
	apitest.Answer(c, structs.ScalingPolicyList, structs.ScalingPolicyListResponse{})
	apitest.Answer(c, structs.ServiceList, structs.ServiceListResponse{})
	apitest.Answer(c, structs.CSIVolumeList, structs.CSIVolumeListResponse{})
	apitest.Answer(c, structs.VolumeClaimList, structs.VolumeClaimListResponse{})
	apitest.Answer(c, storage.HostVolumeClaimList, storage.ClaimListResponse{})
	apitest.Answer(c, access.VariableList, access.VariableListResponse{})
	apitest.Answer(c, cluster.NodePoolJobs, structs.JobListResponse{})
	return c
}

// An empty list is an error if the namespace does not exist.
func TestLists_RejectANamespaceThatDoesNotExist(t *testing.T) {
	addr := clitest.Serve(t, emptyNamespace(), clitest.NewAgent(t.TempDir()))
	for _, command := range []string{
		"job status", "job status -json", "alloc status", "eval status", "eval list",
		"eval delete -filter a==b",
		"deployment status", "deployment list", "deployment list -json", "scaling policy list",
		"service list", "volume status", "volume status -plugin p", "volume claim list",
		"volume claim list -type host",
		"var list", "node pool jobs p",
	} {
		for name, known := range map[string]bool{"prod": true, "*": true, "prd": false} {
			code, _, errs := runLine(t, command+" -namespace "+name+" -address "+addr)
			if (code == 0) != known || !known && !strings.Contains(errs, `there is no namespace "prd"`) {
				t.Errorf("%s in namespace %s: exit code %d, %s", command, name, code, errs)
			}
		}
	}
}

// A name that no thing has in a namespace that does not exist is the fault of the namespace.
func TestNames_TellThatTheirNamespaceDoesNotExist(t *testing.T) {
	c := emptyNamespace()
	apitest.Fail(c, structs.JobGet, structs.NotFoundf("there is no job"))
	apitest.Fail(c, structs.JobWhy, structs.NotFoundf("there is no job"))
	apitest.Fail(c, structs.JobRevert, structs.NotFoundf("there is no job"))
	apitest.Fail(c, structs.CSIVolumeGet, structs.NotFoundf("there is no volume"))
	apitest.Fail(c, structs.CSIVolumeDeregister, structs.NotFoundf("there is no volume"))
	apitest.Answer(c, structs.ServiceGet, structs.ServiceGetResponse{})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	for _, command := range []string{
		"job history j", "job stop j", "job revert j 1", "job deployments j", "job why j", "alloc status a",
		"eval status e", "deployment status d", "scaling policy info p", "service info s",
		"volume status v", "volume why v", "volume deregister v",
	} {
		for name, known := range map[string]bool{"prod": true, "prd": false} {
			code, _, errs := runLine(t, command+" -namespace "+name+" -address "+addr)
			if code != 4 || strings.Contains(errs, `there is no namespace "prd"`) == known {
				t.Errorf("%s in namespace %s: exit code %d, %s", command, name, code, errs)
			}
		}
	}
}

// The command that lists scaling policies is none of those named status.
func TestScalingPolicyInfo_NamesTheCommandThatLists(t *testing.T) {
	addr := clitest.Serve(t, emptyNamespace(), clitest.NewAgent(t.TempDir()))
	_, _, errs := runLine(t, "scaling policy info p -address "+addr)
	if !strings.Contains(errs, `"berth scaling policy list" lists all`) {
		t.Error(errs)
	}
}

// The namespace does not matter for a list of things that belong to none.
func TestPluginStatus_ListsInANamespaceThatDoesNotExist(t *testing.T) {
	c := emptyNamespace()
	apitest.Answer(c, structs.CSIPluginList, structs.CSIPluginListResponse{})
	addr := clitest.Serve(t, c, clitest.NewAgent(t.TempDir()))
	code, out, errs := runLine(t, "plugin status -namespace prd -address "+addr)
	if code != 0 || out != "No plugins\n" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}
