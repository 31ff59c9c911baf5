package endpoints

import (
	"testing"

	"berth/fsm"
	"berth/structs"
)

// TestJobRegister_IsNotForwardedWithPartsThatTheLeaderDrops has a follower of this version and a leader of an
// earlier one, which drops what it does not know, and answers all the same.
func TestJobRegister_IsNotForwardedWithPartsThatTheLeaderDrops(t *testing.T) {
	for name, c := range map[string]struct {
		since int
		edit  func(*structs.TaskGroup)
	}{
		"services": {fsm.ServicesSince, func(g *structs.TaskGroup) {
			g.Services = []*structs.Service{{Name: "web", Provider: structs.ServiceProviderBerth}}
		}},
		"networks": {fsm.PortsSince, func(g *structs.TaskGroup) {
			g.Networks = []*structs.NetworkResource{{DynamicPorts: []structs.Port{{Label: "http"}}}}
		}},
		"artifacts": {fsm.TasksSince, func(g *structs.TaskGroup) {
			g.Tasks[0].Artifacts = []*structs.TaskArtifact{{GetterSource: "https://host/x"}}
		}},
		"templates": {fsm.TasksSince, func(g *structs.TaskGroup) {
			g.Tasks[0].Templates = []*structs.Template{{EmbeddedTmpl: "x", DestPath: "local/x"}}
		}},
		"lifecycle": {fsm.TasksSince, func(g *structs.TaskGroup) {
			before := *g.Tasks[0]
			before.Name = "before"
			before.Lifecycle = &structs.TaskLifecycle{Hook: structs.LifecyclePrestart}
			g.Tasks = append(g.Tasks, &before)
		}},
		"nothing new": {0, func(*structs.TaskGroup) {}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, version := range []int{0, max(c.since-1, 0), c.since, fsm.Version()} {
				s := newServer(t)
				s.raft.isMe = false
				s.raft.leader = "leader:1"
				s.raft.forward = func(string, any, any) error { return nil }
				s.Endpoints.gossip = func() int { return version }
				job := jobWithTasks(&structs.Task{Name: "t", Driver: "exec"})
				c.edit(job.TaskGroups[0])
				req := &structs.JobRegisterRequest{Job: job, Submission: &structs.JobSubmission{Source: "x"}}
				if version < c.since {
					refused(s, structs.KindPrecondition, structs.JobRegister, req)
				} else {
					must(s, structs.JobRegister, req)
				}
				if forwarded := len(s.raft.forwards) == 1; forwarded == (version < c.since) {
					t.Errorf("version %d: forwarded: %t", version, forwarded)
				}
			}
		})
	}
}
