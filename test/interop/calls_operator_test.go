package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	public "github.com/hashicorp/nomad/api"
)

// definitionCalls write namespaces and node pools.
var definitionCalls = []callRow{
	{"Namespaces.Register", func(f *callFixture) error {
		return checkIndex(f.c.Namespaces().Register(&public.Namespace{Name: "calls", Description: "Calls"}, nil))
	}},
	{"Namespaces.Info", func(f *callFixture) error {
		n, _, err := f.c.Namespaces().Info("calls", nil)
		return check(err, func() bool { return n.Description == "Calls" }, n)
	}},
	{"Namespaces.List", func(f *callFixture) error {
		all, _, err := f.c.Namespaces().List(nil)
		return check(err, func() bool { return len(all) == 2 }, all)
	}},
	{"Namespaces.PrefixList", func(f *callFixture) error {
		all, _, err := f.c.Namespaces().PrefixList("ca", nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Name == "calls" }, all)
	}},
	{"Namespaces.Delete", func(f *callFixture) error {
		return checkIndex(f.c.Namespaces().Delete("calls", nil))
	}},
	{"NodePools.Register", func(f *callFixture) error {
		return checkIndex(f.c.NodePools().Register(&public.NodePool{Name: "calls", Description: "Calls"}, nil))
	}},
	{"NodePools.Info", func(f *callFixture) error {
		p, _, err := f.c.NodePools().Info("calls", nil)
		return check(err, func() bool { return p.Description == "Calls" }, p)
	}},
	{"NodePools.List", func(f *callFixture) error {
		all, _, err := f.c.NodePools().List(nil)
		return check(err, func() bool { return len(all) == 3 }, all)
	}},
	{"NodePools.PrefixList", func(f *callFixture) error {
		all, _, err := f.c.NodePools().PrefixList("ca", nil)
		return check(err, func() bool { return len(all) == 1 && all[0].Name == "calls" }, all)
	}},
	{"NodePools.ListNodes", func(f *callFixture) error {
		nodes, _, err := f.c.NodePools().ListNodes("default", nil)
		return check(err, func() bool { return len(nodes) == 1 && nodes[0].ID == f.nodeID }, nodes)
	}},
	{"NodePools.ListJobs", func(f *callFixture) error {
		jobs, _, err := f.c.NodePools().ListJobs("default", nil)
		return check(err, func() bool { return len(jobs) >= 2 }, jobs)
	}},
	{"NodePools.Delete", func(f *callFixture) error {
		return checkIndex(f.c.NodePools().Delete("calls", nil))
	}},
}

// inactiveKey returns the ID of a root key that is inactive, or "".
func inactiveKey(keys []*public.RootKeyMeta) string {
	for _, k := range keys {
		if k.State == public.RootKeyStateInactive {
			return k.KeyID
		}
	}
	return ""
}

// operatorCalls read and change the settings of the cluster.
var operatorCalls = []callRow{
	{"Agent.Self", func(f *callFixture) error {
		self, err := f.c.Agent().Self()
		return check(err, func() bool { return self.Member.Name != "" && self.Stats["raft"] != nil }, self)
	}},
	{"Agent.NodeName", func(f *callFixture) error {
		name, err := f.c.Agent().NodeName()
		return check(err, func() bool { return name != "" }, name)
	}},
	{"Agent.Datacenter", func(f *callFixture) error {
		name, err := f.c.Agent().Datacenter()
		return check(err, func() bool { return name == "dc1" }, name)
	}},
	{"Agent.Region", func(f *callFixture) error {
		name, err := f.c.Agent().Region()
		return check(err, func() bool { return name == "global" }, name)
	}},
	{"Agent.Members", func(f *callFixture) error {
		members, err := f.c.Agent().Members()
		return check(err, func() bool { return len(members.Members) == 1 }, members)
	}},
	{"Agent.MembersOpts", func(f *callFixture) error {
		members, err := f.c.Agent().MembersOpts(&public.QueryOptions{AllowStale: true})
		return check(err, func() bool { return len(members.Members) == 1 }, members)
	}},
	{"Agent.Servers", func(f *callFixture) error {
		servers, err := f.c.Agent().Servers()
		return check(err, func() bool { return len(servers) == 1 }, servers)
	}},
	{"Agent.Health", func(f *callFixture) error {
		health, err := f.c.Agent().Health()
		return check(err, func() bool { return health.Server.Ok && health.Client.Ok }, health)
	}},
	{"Agent.Host", func(f *callFixture) error {
		host, err := f.c.Agent().Host("", f.nodeID, nil)
		return check(err, func() bool {
			return host.AgentID == f.nodeID && strings.HasPrefix(host.HostData.OS, "Linux") &&
				len(host.HostData.Network) > 0 && host.HostData.Environment["PATH"] == "[redacted]"
		}, host)
	}},
	{"Agent.Monitor", func(f *callFixture) error {
		stop := make(chan struct{})
		defer close(stop)
		frames, errs := f.c.Agent().Monitor(stop, &public.QueryOptions{
			Params: map[string]string{"log_level": "debug", "server_id": "leader"},
		})
		limit := time.After(patience)
		last := ""
		for {
			// Each request is a line of the level debug. Lines of other levels may come before.
			_, err := f.c.Agent().Self()
			if err != nil {
				return err
			}
			select {
			case frame := <-frames:
				last = string(frame.Data)
				if strings.Contains(last, "[DEBUG]") {
					return nil
				}
			case <-limit:
				return fmt.Errorf("no line of the level debug came; the last frame is %q", last)
			case err := <-errs:
				return err
			case <-time.After(10 * time.Millisecond): // the monitor may begin after the request
			}
		}
	}},
	{"Agent.CPUProfile", func(f *callFixture) error {
		b, err := f.c.Agent().CPUProfile(public.PprofOptions{Seconds: 1}, nil)
		return check(err, func() bool { return len(b) > 0 }, len(b))
	}},
	{"Agent.Trace", func(f *callFixture) error {
		b, err := f.c.Agent().Trace(public.PprofOptions{Seconds: 1, ServerID: "leader"}, nil)
		return check(err, func() bool { return strings.HasPrefix(string(b), "go 1.") }, len(b))
	}},
	{"Agent.Lookup", func(f *callFixture) error {
		b, err := f.c.Agent().Lookup("goroutine", public.PprofOptions{NodeID: f.nodeID, Debug: 1}, nil)
		return check(err, func() bool { return strings.HasPrefix(string(b), "goroutine profile:") }, len(b))
	}},
	{"Agent.GetSchedulerWorkersInfo", func(f *callFixture) error {
		info, err := f.c.Agent().GetSchedulerWorkersInfo(nil)
		return check(err, func() bool {
			return len(info.Schedulers) == 1 && info.Schedulers[0].Status == "Started"
		}, info)
	}},
	{"Agent.GetSchedulerWorkerConfig", func(f *callFixture) error {
		config, err := f.c.Agent().GetSchedulerWorkerConfig(nil)
		return check(err, func() bool {
			return config.NumSchedulers == 1 && len(config.EnabledSchedulers) == 5
		}, config)
	}},
	{"Operator.RaftGetConfiguration", func(f *callFixture) error {
		raft, err := f.c.Operator().RaftGetConfiguration(nil)
		return check(err, func() bool { return len(raft.Servers) == 1 && raft.Servers[0].Leader }, raft)
	}},
	{"Operator.SchedulerGetConfiguration", func(f *callFixture) error {
		resp, _, err := f.c.Operator().SchedulerGetConfiguration(nil)
		return check(err, func() bool { return resp.SchedulerConfig.SchedulerAlgorithm == "binpack" }, resp)
	}},
	{"Operator.SchedulerSetConfiguration", func(f *callFixture) error {
		resp, _, err := f.c.Operator().SchedulerSetConfiguration(
			&public.SchedulerConfiguration{SchedulerAlgorithm: "spread"}, nil)
		return check(err, func() bool { return resp.Updated }, resp)
	}},
	{"Operator.SchedulerCASConfiguration", func(f *callFixture) error {
		now, _, err := f.c.Operator().SchedulerGetConfiguration(nil)
		if err != nil {
			return err
		}
		now.SchedulerConfig.SchedulerAlgorithm = "binpack"
		resp, _, err := f.c.Operator().SchedulerCASConfiguration(now.SchedulerConfig, nil)
		return check(err, func() bool { return resp.Updated }, resp)
	}},
	{"Operator.AutopilotGetConfiguration", func(f *callFixture) error {
		c, _, err := f.c.Operator().AutopilotGetConfiguration(nil)
		return check(err, func() bool {
			return c.CleanupDeadServers && c.LastContactThreshold == 200*time.Millisecond &&
				c.MaxTrailingLogs == 250 && c.ServerStabilizationTime == 10*time.Second
		}, c)
	}},
	{"Operator.AutopilotSetConfiguration", func(f *callFixture) error {
		c := &public.AutopilotConfiguration{
			CleanupDeadServers:      true,
			LastContactThreshold:    time.Second,
			MaxTrailingLogs:         500,
			MinQuorum:               3,
			ServerStabilizationTime: time.Minute,
			EnableRedundancyZones:   true,
		}
		if _, err := f.c.Operator().AutopilotSetConfiguration(c, nil); err != nil {
			return err
		}
		now, _, err := f.c.Operator().AutopilotGetConfiguration(nil)
		return check(err, func() bool {
			c.CreateIndex = now.CreateIndex
			c.ModifyIndex = now.ModifyIndex
			return *now == *c && now.ModifyIndex > 0
		}, now)
	}},
	{"Operator.AutopilotCASConfiguration", func(f *callFixture) error {
		now, _, err := f.c.Operator().AutopilotGetConfiguration(nil)
		if err != nil {
			return err
		}
		now.MinQuorum = 0
		first, _, err := f.c.Operator().AutopilotCASConfiguration(now, nil)
		if err != nil {
			return err
		}
		again, _, err := f.c.Operator().AutopilotCASConfiguration(now, nil)
		return check(err, func() bool { return first && !again }, now)
	}},
	{"Operator.AutopilotServerHealth", func(f *callFixture) error {
		var health *public.OperatorHealthReply
		var err error
		f.await("the health of the server", func() (bool, error) {
			health, _, err = f.c.Operator().AutopilotServerHealth(nil)
			return err == nil, err
		})
		return check(err, func() bool {
			s := health.Servers[0]
			return health.Healthy && len(health.Servers) == 1 && s.Healthy && s.Leader && s.Voter &&
				s.SerfStatus == "alive" && s.LastTerm > 0 && s.LastIndex > 0 && s.Version != "" &&
				!s.StableSince.IsZero()
		}, health)
	}},
	{"Keyring.Rotate", func(f *callFixture) error {
		key, _, err := f.c.Keyring().Rotate(&public.KeyringRotateOptions{Full: true}, nil)
		return check(err, func() bool {
			return key.State == public.RootKeyStateActive && key.Algorithm == public.EncryptionAlgorithmAES256GCM &&
				key.CreateTime > 0 && key.CreateIndex > 0
		}, key)
	}},
	{"Keyring.List", func(f *callFixture) error {
		var keys []*public.RootKeyMeta
		var err error
		f.await("the former root key is inactive", func() (bool, error) {
			keys, _, err = f.c.Keyring().List(nil)
			return len(keys) == 2 && inactiveKey(keys) != "", err
		})
		return err
	}},
	{"Keyring.Delete", func(f *callFixture) error {
		keys, _, err := f.c.Keyring().List(nil)
		if err != nil {
			return err
		}
		_, err = f.c.Keyring().Delete(&public.KeyringDeleteOptions{KeyID: inactiveKey(keys)}, nil)
		return err
	}},
	{"Operator.Metrics", func(f *callFixture) error {
		text, err := f.c.Operator().Metrics(nil)
		return check(err, func() bool { return bytes.Contains(text, []byte("Gauges")) }, string(text))
	}},
	{"Operator.MetricsSummary", func(f *callFixture) error {
		summary, _, err := f.c.Operator().MetricsSummary(nil)
		return check(err, func() bool { return len(summary.Gauges) > 0 }, summary)
	}},
	{"Operator.Snapshot", func(f *callFixture) error {
		archive, err := f.c.Operator().Snapshot(nil)
		if err != nil {
			return err
		}
		f.saved = []byte(readAll(f.t, archive))
		return check(nil, func() bool { return len(f.saved) > 100 }, len(f.saved))
	}},
	{"System.GarbageCollect", func(f *callFixture) error { return f.c.System().GarbageCollect() }},
	{"System.ReconcileSummaries", func(f *callFixture) error {
		if err := f.c.System().ReconcileSummaries(); err != nil {
			return err
		}
		s, _, err := f.c.Jobs().Summary(f.job, nil)
		return check(err, func() bool { return s.Summary["g"].Running == 1 }, s)
	}},
	{"Raw.Query", func(f *callFixture) error {
		var job public.Job
		meta, err := f.c.Raw().Query("/v1/job/"+f.job, &job, nil)
		return check(err, func() bool { return *job.ID == f.job && meta.LastIndex > 0 }, job)
	}},
	{"Raw.Response", func(f *callFixture) error {
		body, err := f.c.Raw().Response("/v1/status/leader", nil)
		if err != nil {
			return err
		}
		text := readAll(f.t, body)
		return check(nil, func() bool { return strings.Contains(text, ":") }, text)
	}},
	{"Raw.Write", func(f *callFixture) error {
		_, err := f.c.Raw().Write("/v1/namespace", &public.Namespace{Name: "raw"}, nil, nil)
		return err
	}},
	{"Raw.Delete", func(f *callFixture) error {
		_, err := f.c.Raw().Delete("/v1/namespace/raw", nil, nil)
		return err
	}},
	{"Raw.Do", func(f *callFixture) error {
		req, err := http.NewRequest("GET", f.c.Address()+"/v1/regions", nil)
		if err != nil {
			return err
		}
		resp, err := f.c.Raw().Do(req)
		if err != nil {
			return err
		}
		text := readAll(f.t, resp.Body)
		return check(nil, func() bool { return strings.Contains(text, "global") }, text)
	}},
}

// holdDrain runs the job held on the node. A drain of the node does not end before the job is stopped
// without its delay.
func (f *callFixture) holdDrain() error {
	_, err := f.c.Nodes().ToggleEligibility(f.nodeID, true, nil)
	if err != nil {
		return err
	}
	job := quickJob("held", "sleep 600")
	job.TaskGroups[0].ShutdownDelay = new(time.Hour)
	_, _, err = f.c.Jobs().Register(job, nil)
	if err != nil {
		return err
	}
	f.await("the job that holds the drain", func() (bool, error) {
		allocs, _, err := f.c.Jobs().Allocations("held", true, nil)
		return len(allocs) == 1 && allocs[0].ClientStatus == "running", err
	})
	return nil
}

// nodeCalls change the node. Its allocations leave it.
var nodeCalls = []callRow{
	{"Nodes.ForceEvaluate", func(f *callFixture) error {
		_, meta, err := f.c.Nodes().ForceEvaluate(f.nodeID, nil) // the dialect's servers name no evaluation, too
		return checkIndex(meta, err)
	}},
	{"Nodes.Meta.Apply", func(f *callFixture) error {
		set := map[string]*string{"calls": new("1"), "other": nil}
		meta, err := f.c.Nodes().Meta().Apply(&public.NodeMetaApplyRequest{NodeID: f.nodeID, Meta: set}, nil)
		if err != nil || meta.Meta["calls"] != "1" {
			return check(err, func() bool { return false }, meta)
		}
		f.await("the servers see the metadata", func() (bool, error) {
			n, _, err := f.c.Nodes().Info(f.nodeID, nil)
			return err == nil && n.Meta["calls"] == "1", err
		})
		return nil
	}},
	{"Nodes.Meta.Read", func(f *callFixture) error {
		meta, err := f.c.Nodes().Meta().Read(f.nodeID, nil)
		return check(err, func() bool { return meta.Meta["calls"] == "1" && *meta.Dynamic["calls"] == "1" }, meta)
	}},
	{"Nodes.ToggleEligibility", func(f *callFixture) error {
		resp, err := f.c.Nodes().ToggleEligibility(f.nodeID, false, nil)
		if err != nil {
			return err
		}
		n, _, err := f.c.Nodes().Info(f.nodeID, nil)
		return check(err, func() bool {
			return resp.NodeModifyIndex > 0 && n.SchedulingEligibility == "ineligible"
		}, n)
	}},
	{"Nodes.UpdateDrain", func(f *callFixture) error {
		if err := f.holdDrain(); err != nil {
			return err
		}
		resp, err := f.c.Nodes().UpdateDrain(f.nodeID, &public.DrainSpec{Deadline: time.Hour}, false, nil)
		if err != nil {
			return err
		}
		n, _, err := f.c.Nodes().Info(f.nodeID, nil)
		if err != nil {
			return err
		}
		_, _, err = f.c.Jobs().DeregisterOpts("held", &public.DeregisterOptions{NoShutdownDelay: true}, nil)
		return check(err, func() bool {
			return resp.NodeModifyIndex > 0 && n.DrainStrategy.Deadline == time.Hour
		}, n)
	}},
	{"Nodes.UpdateDrainOpts", func(f *callFixture) error {
		resp, err := f.c.Nodes().UpdateDrainOpts(f.nodeID, &public.DrainOptions{
			DrainSpec: &public.DrainSpec{Deadline: time.Second},
			Meta:      map[string]string{"reason": "calls"},
		}, nil)
		if err != nil {
			return err
		}
		n, _, err := f.c.Nodes().Info(f.nodeID, nil)
		return check(err, func() bool {
			return resp.NodeModifyIndex > 0 && n.LastDrain.Meta["reason"] == "calls"
		}, n)
	}},
	{"Nodes.MonitorDrain", func(f *callFixture) error {
		n, _, err := f.c.Nodes().Info(f.nodeID, nil)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(f.t.Context(), patience)
		defer cancel()
		var last string
		for m := range f.c.Nodes().MonitorDrain(ctx, f.nodeID, n.ModifyIndex, false) {
			if m.Level == public.MonitorMsgLevelError {
				return errors.New(m.Message)
			}
			last += m.String() + "\n"
		}
		return check(ctx.Err(), func() bool { return strings.Contains(last, "complete") }, last)
	}},
	{"Nodes.Purge", func(f *callFixture) error {
		for _, job := range []string{f.job, "stopped", f.plugin} {
			_, _, err := f.c.Jobs().Deregister(job, false, nil)
			if err != nil && !strings.Contains(err.Error(), "404") {
				return err
			}
		}
		var err error
		var resp *public.NodePurgeResponse
		f.await("the node is empty", func() (bool, error) {
			resp, _, err = f.c.Nodes().Purge(f.nodeID, nil)
			return err == nil, err
		})
		awaitReadyNode(f.t, f.c) // it registers again
		return check(err, func() bool { return resp.NodeModifyIndex > 0 }, resp)
	}},
}

// lastCalls replace the state.
var lastCalls = []callRow{
	{"Operator.SnapshotRestore", func(f *callFixture) error {
		_, err := f.c.Operator().SnapshotRestore(bytes.NewReader(f.saved), nil)
		if err != nil {
			return err
		}
		awaitReadyNode(f.t, f.c)
		job, _, err := f.c.Jobs().Info(f.job, nil)
		if err != nil {
			return err
		}
		if *job.Stop {
			return fmt.Errorf("the job is that of the time after the snapshot")
		}
		return nil
	}},
}
