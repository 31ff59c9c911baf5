package rights_test

import (
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/agenttest"
	"berth/rpc"
	"berth/state"
	"berth/state/csi"
	"berth/structs"
)

// The secrets of a volume come with its claim, and a claim keeps others from the volume.
func TestClaim_IsOneThatTheAllocationAsksFor(t *testing.T) {
	const writer, reader = structs.CSIMultiNodeMultipleWriter, structs.CSIMultiNodeReader
	s := endpointstest.New(t)
	s.AddNode("n1", "a")
	s.AddVolume("v")
	s.AddVolume("w")
	s.Roles = true
	s.AddAlloc("plain", "n1")
	s.AddAlloc("writes", "n1", asksFor("v"))
	s.AddAlloc("reads", "n1", asksIn(reader, "v"), readsOnly)
	s.AddAlloc("host", "n1", asksFor("v"), func(g *structs.TaskGroup) {
		g.Volumes["v"].Type = structs.VolumeTypeHost
	})
	s.AddAlloc("each", "n1", asksFor("v"), func(g *structs.TaskGroup) { g.Volumes["v"].PerAlloc = true })
	for name, c := range map[string]struct {
		alloc, volume, mode string
		access              structs.CSIAccessMode
		asked               bool
	}{
		"no block":                 {"plain", "v", structs.ClaimWrite, writer, false},
		"the volume":               {"writes", "v", structs.ClaimWrite, writer, true},
		"to read only":             {"writes", "v", structs.ClaimRead, writer, true},
		"another volume":           {"writes", "w", structs.ClaimWrite, writer, false},
		"another access mode":      {"writes", "v", structs.ClaimWrite, structs.CSISingleNodeWriter, false},
		"a block that reads":       {"reads", "v", structs.ClaimRead, reader, true},
		"to write, where it reads": {"reads", "v", structs.ClaimWrite, reader, false},
		"a host volume":            {"host", "v", structs.ClaimWrite, writer, false},
		"the prefix":               {"each", "v", structs.ClaimWrite, writer, false},
		"one of each":              {"each", "v[0]", structs.ClaimWrite, writer, true},
		"the one of another":       {"each", "v[1]", structs.ClaimWrite, writer, false},
	} {
		claim := endpointstest.Claim(c.volume, c.alloc)
		claim.Mode = c.mode
		claim.AccessMode = c.access
		req := &structs.CSIVolumeClaimRequest{
			NodeID:   "n1",
			SecretID: endpointstest.SecretOf("n1"),
			Claims:   []*structs.CSIClaim{claim},
		}
		// A claim that the job asks for may still be one that the volume does not offer.
		_, err := rpc.Call(t.Context(), s.RPC, structs.CSIVolumeClaim, agenttest.Request(req))
		if structs.IsKind(err, structs.KindDenied) == c.asked {
			t.Errorf("%s: %v", name, err)
		}
		made := csi.Claim(s.Store.Read(), "default", c.volume, c.alloc)
		if made != nil && made.Class() == claim.Class() && !c.asked {
			t.Errorf("%s: there is the claim %s", name, made.Class())
		}
	}
}

// asksFor makes a group ask for volumes, to write to them beside others, as endpointstest.Claim does.
func asksFor(volumes ...string) func(*structs.TaskGroup) {
	return asksIn(structs.CSIMultiNodeMultipleWriter, volumes...)
}

// asksIn makes a group ask for volumes in an access mode, to write to them.
func asksIn(mode structs.CSIAccessMode, volumes ...string) func(*structs.TaskGroup) {
	return func(g *structs.TaskGroup) {
		if g.Volumes == nil {
			g.Volumes = map[string]*structs.VolumeRequest{}
		}
		for _, id := range volumes {
			g.Volumes[id] = &structs.VolumeRequest{
				Name:           id,
				Type:           structs.VolumeTypeCSI,
				Source:         id,
				AccessMode:     mode,
				AttachmentMode: structs.CSIFileSystem,
			}
		}
	}
}

// readsOnly makes a group ask to read its volumes.
func readsOnly(g *structs.TaskGroup) {
	for _, v := range g.Volumes {
		v.ReadOnly = true
	}
}

// The servers send the secrets of volumes with their calls to a plugin.
func TestPlugins_AreThoseThatAllocationsOfTheNodeRun(t *testing.T) {
	s := endpointstest.New(t)
	s.Roles = true
	s.AddNode("n1", "a")
	s.AddNode("n2", "a")
	s.AddAlloc("plain", "n1")
	s.AddAlloc("both", "n1", endpointstest.RunsPlugin(structs.CSIPluginMonolith))
	s.AddAlloc("half", "n1", endpointstest.RunsPlugin(structs.CSIPluginNode))
	s.AddAlloc("other", "n2", endpointstest.RunsPlugin(structs.CSIPluginMonolith))
	for name, c := range map[string]struct {
		alloc, plugin string
		kind          structs.CSIKind
		runs          bool
	}{
		"a controller":                    {"both", "pl", structs.CSIKindController, true},
		"a node half":                     {"half", "pl", structs.CSIKindNode, true},
		"a controller of a node half":     {"half", "pl", structs.CSIKindController, false},
		"another plugin":                  {"both", "other", structs.CSIKindController, false},
		"an allocation without a plugin":  {"plain", "pl", structs.CSIKindController, false},
		"an allocation of another node":   {"other", "pl", structs.CSIKindController, false},
		"an allocation that is not there": {"gone", "pl", structs.CSIKindController, false},
		"no allocation":                   {"", "pl", structs.CSIKindController, false},
	} {
		instance := &structs.CSIPluginInstance{
			Kind:    c.kind,
			NodeID:  "n1",
			CSIInfo: structs.CSIInfo{PluginID: c.plugin, AllocID: c.alloc, Healthy: true},
		}
		has := func() bool {
			return csi.Instance(s.Store.Read(), c.plugin, c.kind, "n1") != nil
		}
		report := func(list ...*structs.CSIPluginInstance) {
			endpointstest.Must(s, structs.NodeUpdateCSI, &structs.NodeUpdateCSIRequest{
				NodeID:   "n1",
				SecretID: endpointstest.SecretOf("n1"),
				Upserts:  list,
				Full:     true,
			})
		}
		report(instance)
		if has() != c.runs {
			t.Errorf("%s: reported %t, want %t", name, has(), c.runs)
		}

		report()
		again := endpointstest.Registration("n1")
		again.CSI = []*structs.CSIPluginInstance{instance}
		endpointstest.Must(s, structs.NodeRegister, again)
		if has() != c.runs {
			t.Errorf("%s: registered %t, want %t", name, has(), c.runs)
		}
		report()
	}

	// The servers delete the row of an instance whose allocation has another plugin, or is gone.
	row := &structs.CSIPluginInstance{
		Kind:    structs.CSIKindController,
		NodeID:  "n1",
		CSIInfo: structs.CSIInfo{PluginID: "pl", AllocID: "both", Healthy: true},
	}
	change := &structs.NodeUpdateCSIRequest{
		NodeID:   "n1",
		SecretID: endpointstest.SecretOf("n1"),
	}
	for _, alloc := range []string{"both", "gone"} {
		row = row.Copy()
		row.AllocID = alloc
		change.Upserts = []*structs.CSIPluginInstance{row}
		own := *change
		endpointstest.Must(s, structs.NodeUpdateCSI, &own)
		has := csi.Instance(s.Store.Read(), "pl", row.Kind, "n1") != nil
		if has != (alloc == "both") {
			t.Errorf("of allocation %s: reported %t", alloc, has)
		}
	}
}

// An allocation comes with its job: its environment, its templates, the places of its artifacts.
func TestAllocGet_IsForTheNodeThatNeedsIt(t *testing.T) {
	s := endpointstest.New(t)
	for _, node := range []string{"n1", "n2", "n3"} {
		s.AddNode(node, "a")
	}
	s.AddAlloc("a", "n1")
	s.AddAlloc("x", "n2")
	get := func(alloc, node string) error {
		req := &structs.AllocGetRequest{AllocID: alloc, NodeID: node}
		_, err := rpc.Call(t.Context(), s.RPC, structs.AllocGet, req)
		return err
	}
	for _, node := range []string{"n2", "n3"} {
		err := get("a", node)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("node %s reads an allocation of n1: %v", node, err)
		}
	}
	follow(s, "x", "c", "n3")
	if err := get("x", "n3"); err != nil {
		t.Errorf("the node of c, which waits for the end of x: %v", err)
	}

	s.Replace("a", "b", "n2")
	for caller, allowed := range map[string]bool{"": true, "n1": true, "n2": true, "n3": false} {
		err := get("a", caller)
		if structs.IsKind(err, structs.KindDenied) == allowed || allowed && err != nil {
			t.Errorf("%q reads the allocation before b on n2: %v", caller, err)
		}
	}
}

// follow places an allocation of a job of its own that waits for the end of another job's.
func follow(s *endpointstest.Server, old, id, node string) {
	s.T.Helper()
	job := endpointstest.Job("job-" + id)
	job.Namespace = "default"
	job.TaskGroups[0].Volumes = nil
	endpointstest.MustPropose(s, fsm.JobRegister, &structs.JobRegisterRequest{Job: job})
	stored := state.Job(s.Store.Read(), "default", job.ID)
	e := endpointstest.EvalOf(stored, structs.TriggerJobRegister, 1)
	e.Status = structs.EvalComplete
	endpointstest.MustPropose(s, fsm.PlanApply, &structs.Plan{
		Eval:           e,
		JobModifyIndex: stored.JobModifyIndex,
		Place: []*structs.Allocation{{
			ID:                 id,
			Namespace:          "default",
			JobID:              job.ID,
			TaskGroup:          "g",
			Name:               structs.AllocName(job.ID, "g", 0),
			NodeID:             node,
			AwaitedAllocations: []string{old},
		}},
	})
	if state.Alloc(s.Store.Read(), id) == nil {
		s.T.Fatalf("allocation %s was not placed", id)
	}
}
