package shape

import (
	"github.com/hashicorp/nomad/nomad/state"
	"github.com/hashicorp/nomad/nomad/structs"
	"github.com/hashicorp/raft"
)

// FSM is the interface of the result of nomad.NewFSM.
type FSM interface {
	raft.FSM
	State() *state.StateStore
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Fill puts nodes, the plugin and volumes directly into the store, through the restore transaction (no
// whole-plugin copies, so O(n)). claimsPerVol > 0 puts that many read claims into each volume. If allocs is
// set, an allocation exists for each.
type Fill struct {
	Nodes, Volumes, ClaimsPerVol int
	SharedVolClaims              int // -1: no shared volume
	Allocs                       int
	FewAllocs                    bool // all of them claim, again and again; else each claims once
	PluginAllocs                 bool // one alloc for each node's plugin
	PluginJob                    bool // the job runs the plugin
}

func (f Fill) Do(s *state.StateStore) {
	r, err := s.Restore()
	check(err)
	check(r.NamespaceRestore(&structs.Namespace{Name: NS}))
	check(r.NodePoolRestore(&structs.NodePool{Name: "default"}))
	for i := 0; i < f.Nodes; i++ {
		check(r.NodeRestore(cached(i)))
	}
	if f.Nodes > 0 {
		check(r.CSIPluginRestore(Plugin(f.Nodes)))
	}
	a := 0
	for i := 0; i < f.Volumes; i++ {
		v := Volume(i)
		for k := 0; k < f.ClaimsPerVol; k++ {
			if f.FewAllocs && a == f.Allocs {
				a = 0
			}
			AddClaim(v, Claim(a, f.Nodes, structs.CSIVolumeClaimRead))
			a++
		}
		check(r.CSIVolumeRestore(v))
	}
	if f.SharedVolClaims >= 0 {
		v := VolumeNamed(MultiReaderVol, 1<<20)
		for k := 0; k < f.SharedVolClaims; k++ {
			AddClaim(v, Claim(k, f.Nodes, structs.CSIVolumeClaimRead))
		}
		check(r.CSIVolumeRestore(v))
	}
	job := Job(f.Allocs)
	if f.PluginJob {
		job.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.TaskCSIPluginConfig{ID: PluginID,
			Type: structs.CSIPluginTypeNode}
	}
	for i := 0; i < f.Allocs; i++ {
		check(r.AllocRestore(Alloc(i, f.Nodes, job)))
	}
	if f.PluginAllocs {
		for i := 0; i < f.Nodes; i++ {
			al := Alloc(i, f.Nodes, job)
			al.ID = UUID("plugalloc", i)
			check(r.AllocRestore(al))
		}
	}
	for _, t := range []string{"nodes", "csi_plugins", "csi_volumes", "allocs"} {
		check(r.IndexRestore(&state.IndexEntry{Key: t, Value: 10}))
	}
	check(r.Commit())
}

var nodeCache []*structs.Node

func cached(i int) *structs.Node {
	for len(nodeCache) <= i {
		nodeCache = append(nodeCache, Node(len(nodeCache), 0))
	}
	return nodeCache[i]
}
