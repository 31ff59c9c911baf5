package interop

import (
	"context"
	"reflect"
	"testing"

	public "github.com/hashicorp/nomad/api"

	"berth/api/apitest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/defaults"
)

func TestClient_SendsAndReadsPreferences(t *testing.T) {
	affinities := []*structs.Affinity{
		{LTarget: "${node.class}", Operand: "=", RTarget: "fast", Weight: -20},
		{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1", Weight: 50},
	}
	spreads := []*structs.Spread{
		{
			Attribute: "${node.datacenter}",
			Weight:    70,
			SpreadTarget: []*structs.SpreadTarget{
				{Value: "dc1", Percent: 60},
				{Value: "dc2", Percent: 40},
			},
		},
		{Attribute: "${meta.rack}", Weight: 50},
	}
	sent := []*public.Affinity{
		public.NewAffinity("${node.class}", "=", "fast", -20),
		{LTarget: "${meta.rack}", Operand: "=", RTarget: "r1"},
	}
	targets := []*public.SpreadTarget{public.NewSpreadTarget("dc1", 60), public.NewSpreadTarget("dc2", 40)}
	spread := []*public.Spread{
		public.NewSpread("${node.datacenter}", 70, targets),
		{Attribute: "${meta.rack}"},
	}
	job := fullJob()
	job.Affinities = sent
	job.Spreads = spread
	job.Constraints = append(job.Constraints, public.NewConstraint("${meta.rack}", "distinct_property", "3"))
	job.TaskGroups[0].Affinities = sent
	job.TaskGroups[0].Spreads = spread
	job.TaskGroups[0].Tasks[0].Affinities = sent
	c, caller := clientOfFakeServers(t)
	var got *structs.Job
	apitest.On(caller, structs.JobRegister, recordJob(&got))
	for range 2 { // what the client has read, it can write back
		if _, _, err := c.Jobs().Register(job, nil); err != nil {
			t.Fatal(err)
		}
		g := got.TaskGroups[0]
		for _, has := range [][]*structs.Affinity{got.Affinities, g.Affinities, g.Tasks[0].Affinities} {
			if !reflect.DeepEqual(has, affinities) {
				t.Errorf("affinities arrive as %+v", has)
			}
		}
		for _, has := range [][]*structs.Spread{got.Spreads, g.Spreads} {
			if !reflect.DeepEqual(has, spreads) {
				t.Errorf("spreads arrive as %+v", has)
			}
		}
		if last := got.Constraints[len(got.Constraints)-1]; last.Operand != structs.ConstraintDistinctProperty {
			t.Errorf("the constraint arrives as %+v", last)
		}
		defaults.Canonicalize(got)
		apitest.Answer(caller, structs.JobGet, structs.JobGetResponse{Job: got})
		var err error
		job, _, err = c.Jobs().Info("web/one", nil)
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestClient_ChangesTheConfigurationOfTheScheduler(t *testing.T) {
	c, caller := clientOfFakeServers(t)
	stored := cluster.DefaultSchedulerConfiguration()
	stored.ModifyIndex = 8
	apitest.Answer(caller, cluster.SchedulerConfigGet, cluster.SchedulerConfigResponse{SchedulerConfig: &stored})
	var request *cluster.SchedulerConfigRequest
	apitest.On(caller, cluster.SchedulerConfigSet,
		func(_ context.Context, r *cluster.SchedulerConfigRequest) (*cluster.SchedulerConfigSetResponse, error) {
			request = r
			return &cluster.SchedulerConfigSetResponse{Updated: r.Config.ModifyIndex == 8}, nil
		})
	read, _, err := c.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	config := read.SchedulerConfig
	if config.SchedulerAlgorithm != public.SchedulerAlgorithmBinpack || config.ModifyIndex != 8 ||
		!config.PreemptionConfig.SystemSchedulerEnabled {
		t.Errorf("the client reads %+v", config)
	}
	config.SchedulerAlgorithm = public.SchedulerAlgorithmSpread
	set, _, err := c.Operator().SchedulerCASConfiguration(config, nil)
	if err != nil || !set.Updated || !request.CAS ||
		request.Config.SchedulerAlgorithm != cluster.AlgorithmSpread {
		t.Errorf("got %+v, error %v, for the request %+v", set, err, request)
	}
	config.ModifyIndex = 7
	set, _, err = c.Operator().SchedulerCASConfiguration(config, nil)
	if err != nil || set.Updated {
		t.Errorf("a change of another version: got %+v, error %v", set, err)
	}
	_, _, err = c.Operator().SchedulerSetConfiguration(config, nil)
	if err != nil || request.CAS {
		t.Errorf("a change of any version: error %v, for the request %+v", err, request)
	}
}

func TestPeersCommandLine_ChangesTheConfigurationOfTheScheduler(t *testing.T) {
	t.Parallel()
	peer, c := connectPeer(t)
	peer.checkOutput(peer.run("operator", "scheduler", "get-config"), "Preemption System Scheduler", "binpack")
	peer.checkOutput(peer.run("operator", "scheduler", "set-config", "-scheduler-algorithm", "spread",
		"-preempt-batch-scheduler=true"), "Scheduler configuration updated!")
	config, _, err := c.Operator().SchedulerGetConfiguration(nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := config.SchedulerConfig; got.SchedulerAlgorithm != public.SchedulerAlgorithmSpread ||
		!got.PreemptionConfig.BatchSchedulerEnabled || !got.PreemptionConfig.SystemSchedulerEnabled {
		t.Errorf("got %+v", got)
	}
	peer.run("operator", "scheduler", "set-config", "-scheduler-algorithm", "binpack",
		"-preempt-batch-scheduler=false")
}
