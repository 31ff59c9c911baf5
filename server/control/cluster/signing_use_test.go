package cluster

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/state"
	"berth/state/trust"
	"berth/structs"
	"berth/structs/access"
)

// place places an allocation whose task has the default identity.
func (c *testCluster) place(id string, edit func(*structs.WorkloadIdentity)) {
	c.t.Helper()
	i := &structs.WorkloadIdentity{Name: structs.DefaultIdentity, Audience: []string{structs.DefaultAudience}}
	edit(i)
	job := &structs.Job{ID: "job-" + id, Namespace: "default", Type: structs.JobService,
		TaskGroups: []*structs.TaskGroup{{
			Name: "g", Count: 1, Tasks: []*structs.Task{{Name: "t", Driver: "exec", Identity: i}},
		}},
	}
	propose(c, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	c.plan(job.ID, &structs.Plan{Place: []*structs.Allocation{{
		ID: id, Namespace: "default", JobID: job.ID, TaskGroup: "g",
		Name: structs.AllocName(job.ID, "g", 0), NodeID: "n1",
	}}})
}

func (c *testCluster) end(id string) {
	c.plan("job-"+id, &structs.Plan{Stop: []*structs.PlanStop{{AllocID: id, ClientStatus: structs.AllocLost}}})
}

func (c *testCluster) plan(jobID string, p *structs.Plan) {
	c.t.Helper()
	job := state.Job(c.Store.Read(), "default", jobID)
	p.Eval = endpointstest.EvalOf(job, structs.TriggerJobRegister, 1)
	p.Eval.Status = structs.EvalComplete
	p.JobModifyIndex = job.JobModifyIndex
	propose(c, fsm.PlanApply, p)
}

// A key is kept while a task may use a token without an end that it has signed, and no longer.
func TestLoop_KeepsAKeyForTokensWithoutAnEnd(t *testing.T) {
	shown := func(i *structs.WorkloadIdentity) { i.Env = true }
	for name, c := range map[string]struct {
		edit func(*structs.WorkloadIdentity)
		kept bool
	}{
		"in a variable":     {shown, true},
		"in a file":         {func(i *structs.WorkloadIdentity) { i.File = true }, true},
		"not shown":         {func(*structs.WorkloadIdentity) {}, false},
		"with a ttl":        {func(i *structs.WorkloadIdentity) { i.Env, i.TTL = true, time.Hour }, false},
		"of a later time":   {nil, false},
		"of a stopped task": {shown, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			cl := newCluster(t)
			cl.rotateRoot()
			propose(cl, fsm.NodeRegister, &structs.NodeRegisterRequest{
				Node: &structs.Node{ID: "n1", Name: "n1", Status: structs.NodeReady},
			})
			cl.run()
			first := trust.ActiveSigningKey(cl.Store.Read(), access.KeyEdDSA).KeyID
			other := trust.ActiveSigningKey(cl.Store.Read(), access.KeyRS256).KeyID
			if c.edit != nil {
				cl.place("a", c.edit)
			}
			if name == "of a stopped task" {
				cl.end("a")
			}
			cl.rotateRoot()
			time.Sleep(2 * access.KeyPublishTime)
			synctest.Wait()
			if c.edit == nil {
				cl.place("a", shown)
			}

			time.Sleep(access.KeyKeepTime + time.Hour)
			synctest.Wait()
			has := func(id string) bool { return trust.SigningKey(cl.Store.Read(), id) != nil }
			if has(first) != c.kept || has(other) {
				t.Errorf("%s: the keys are kept: %t, %t; want %t, false", name, has(first), has(other), c.kept)
			}
			if c.kept {
				cl.end("a")
				time.Sleep(signingLookEvery + 2*longestSigningPause)
				synctest.Wait()
				if has(first) {
					t.Errorf("%s: the key is kept after the end of the allocation", name)
				}
			}
		})
	}
}

// Tasks that run for ever do not fill the table of keys: the oldest key goes.
func TestNext_BoundsTheKeysThatAreKept(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := signingRules{now: now, rotateAfter: time.Hour, needed: func(*access.SigningKey) bool { return true }}
	keys := []*access.SigningKey{{
		KeyID: "active", Algorithm: access.KeyEdDSA, State: access.KeyActive, CreateTime: now.UnixNano(),
	}, {
		KeyID: "other", Algorithm: access.KeyRS256, State: access.KeyActive, CreateTime: now.UnixNano(),
	}}
	for i := range keptRetired {
		keys = append(keys, &access.SigningKey{
			KeyID: fmt.Sprint(keptRetired - i), Algorithm: access.KeyEdDSA, State: access.KeyRetired,
			RetireTime: now.Add(time.Duration(i-1000) * time.Hour).UnixNano(),
		})
	}
	got, _ := r.next(keys)
	if got != (signingStep{}) {
		t.Errorf("%d keys: got %+v", keptRetired, got)
	}

	oldest := *keys[2]
	oldest.KeyID = "oldest"
	oldest.RetireTime--
	got, _ = r.next(slices.Insert(slices.Clone(keys), 5, &oldest))
	if got != (signingStep{remove: "oldest"}) {
		t.Errorf("one more: got %+v", got)
	}
}
