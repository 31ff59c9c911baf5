package endpoints_test

import (
	"berth/endpoints/endpointstest"
	"slices"
	"strings"
	"testing"
)

// TestOverload_ListsTheSheddableMethods checks the list. It contains no method that nodes, volumes or the
// cluster need.
func TestOverload_ListsTheSheddableMethods(t *testing.T) {
	var got []string
	for _, e := range endpointstest.New(t).List() {
		if e.Sheddable && (e.Write || e.Slow) {
			t.Errorf("%s writes or waits", e.Name)
		}
		if e.Sheddable {
			got = append(got, e.Name)
		}
	}
	slices.Sort(got)
	const want = "Alloc.GetAlloc Alloc.List Alloc.Services CSIPlugin.Get CSIPlugin.List CSIVolume.Drift CSIVolume.Get " +
		"CSIVolume.List CSIVolume.Why Deployment.Allocations Deployment.GetDeployment Deployment.List " +
		"Eval.Allocations Eval.Count Eval.GetEval Eval.List HostVolume.Get HostVolume.List " +
		"Job.Allocations Job.Deployments Job.Evaluations Job.GetJob " +
		"Job.GetJobSubmission Job.GetJobVersions Job.GetServiceRegistrations Job.LatestDeployment Job.List Job.Plan Job.ScaleStatus Job.Statuses Job.Summary Job.Why " +
		"Namespace.GetNamespace Namespace.ListNamespaces " +
		"Node.DrainStatus Node.FencePins Node.FenceStatus Node.Get Node.GetAllocs Node.List Node.ListForeign " +
		"NodePool.GetNodePool NodePool.List NodePool.ListJobs NodePool.ListNodes " +
		"Quota.List Quota.ListUsages " +
		"Scaling.GetPolicy Scaling.ListPolicies Search.FuzzySearch Search.PrefixSearch " +
		"ServiceRegistration.GetService ServiceRegistration.List SnapshotGroup.Get SnapshotGroup.List SnapshotSchedule.Get SnapshotSchedule.List " +
		"TaskGroupHostVolumeClaim.List Variables.List VolumeClaim.List " +
		"VolumeSnapshot.Get VolumeSnapshot.List"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}
