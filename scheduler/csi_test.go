package scheduler

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/state"
	"berth/state/csi"
	"berth/structs"
	"berth/structs/storage"
)

// storage makes nodes that run both halves of the plugin hostpath.
func (w *fixture) storage(nodes ...string) {
	w.t.Helper()
	for _, id := range nodes {
		w.node(aNode(id), half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController))
	}
}

func TestVolumes_ArePlacedWithTheirPlugin(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.storage("n2")
	sick := half("hostpath", structs.CSIKindNode)
	sick.Healthy, sick.HealthDescription = false, "probe failed"
	w.node(aNode("n3"), sick)
	w.volume("db", "hostpath")
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	p := w.run("db")
	w.wantPlaced("db", "0@n2")
	var got []string
	for _, r := range p.Place[0].Metrics.Rejections {
		got = append(got, r.Filter+": "+r.Reason)
	}
	want := []string{"csi-plugin: CSI plugin hostpath has no healthy node instance here (unhealthy: probe failed)"} // n1 has none and is not tried
	if !slices.Equal(got, want) {
		t.Errorf("rejections: %q", got)
	}
}

func TestVolumes_RejectionsNameTheReason(t *testing.T) {
	r1 := &structs.CSITopology{Segments: map[string]string{"rack": "r1"}}
	for _, c := range []struct {
		name   string
		set    func(w *fixture)
		edit   func(*structs.Job)
		reason string
		keys   []string
	}{
		{"there is none", func(w *fixture) { w.storage("n1") }, volume("db", structs.CSISingleNodeWriter, false),
			"csi-volume: CSI volume db: volume db does not exist in namespace default (0)",
			[]string{"csi-volume:default:db"}},
		{"plugin unknown", func(w *fixture) { w.nodes("n1"); w.volume("db", "hostpath") },
			volume("db", structs.CSISingleNodeWriter, false),
			"csi-volume: CSI volume db: no instance of plugin hostpath has been healthy yet: is its job running? (0)",
			[]string{"csi-plugin:hostpath", "csi-volume:default:db"}},
		{"no controller any more", func(w *fixture) {
			n, k := half("hostpath", structs.CSIKindNode), half("hostpath", structs.CSIKindController)
			n.RequiresControllerPlugin, k.RequiresControllerPlugin = true, true
			w.node(aNode("n1"), n, k)
			k = k.Copy()
			k.Healthy = false
			w.csi("n1", k)
			w.volume("db", "hostpath")
		}, volume("db", structs.CSISingleNodeWriter, false),
			"csi-volume: CSI volume db: no controller of plugin hostpath is healthy (0)",
			[]string{"csi-plugin:hostpath", "csi-volume:default:db"}},
		{"topology", func(w *fixture) { w.storage("n1"); w.volume("db", "hostpath", r1) },
			volume("db", structs.CSISingleNodeWriter, false),
			"csi-volume: CSI volume db: it is reachable only from rack=r1 (1)", []string{"csi-volume:default:db"}},
		{"a driver whose tasks no guard ends", func(w *fixture) {
			w.storage("n1")
			w.unguarded("n1", "exec")
			w.volume("db", "hostpath")
			do(w, csi.PluginConfigSet,
				&storage.PluginSettingsRequest{ID: "hostpath", OnNodeLoss: structs.LossLease})
		}, volume("db", structs.CSISingleNodeWriter, false),
			`csi-guard: CSI volume db with on_node_loss = "lease": no guard can end the tasks of driver exec: cgroup v1 (1)`,
			[]string{"csi-plugin:hostpath", "csi-volume:default:db"}},
		{"mode", func(w *fixture) {
			w.storage("n1")
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				WriteOptions: w.now(),
				Volumes: []*structs.CSIVolume{{
					ID: "db", Namespace: "default",
					CSIVolumeSpec: structs.CSIVolumeSpec{
						PluginID: "hostpath",
						RequestedCapabilities: []*structs.CSIVolumeCapability{{
							AccessMode:     structs.CSISingleNodeWriter,
							AttachmentMode: structs.CSIBlockDevice,
						}},
					},
				}},
			})
		}, volume("db", structs.CSISingleNodeWriter, false),
			`csi-volume: CSI volume db: volume "db" has no capability for single-node-writer with file-system (0)`,
			nil},
		{"one of several volumes", func(w *fixture) { w.storage("n1"); w.volume("a", "hostpath") },
			func(j *structs.Job) {
				volume("a", structs.CSISingleNodeWriter, false)(j)
				volume("b", structs.CSISingleNodeWriter, false)(j)
			}, "csi-volume: CSI volume b: volume b does not exist in namespace default (0)",
			[]string{"csi-volume:default:b"}},
		{"several volumes of one group and a limit", func(w *fixture) {
			n := half("hostpath", structs.CSIKindNode)
			n.NodeInfo.MaxVolumes = 1
			w.node(aNode("n1"), n)
			w.volume("a", "hostpath")
			w.volume("b", "hostpath")
		}, func(j *structs.Job) {
			volume("a", structs.CSISingleNodeWriter, false)(j)
			volume("b", structs.CSISingleNodeWriter, false)(j)
		}, "csi-limit: CSI plugin hostpath has its limit of 1 volumes on this node (1)",
			[]string{"csi-plugin:hostpath", "csi-volume:default:a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.set(w)
			w.job(aJob("web", structs.JobService, c.edit))
			p := w.run("web")
			if got := rejections(p, "g"); got != c.reason {
				t.Errorf("got  %s\nwant %s", got, c.reason)
			}
			for _, k := range append(c.keys, structs.WakeCapacity) {
				if !slices.Contains(blockedOn(p), k) {
					t.Errorf("blocked on %q, not on %q", blockedOn(p), k)
				}
			}
		})
	}
}

// unguarded has a node report that no guard can end the tasks of a driver there.
func (w *fixture) unguarded(node, driver string) {
	n := state.Node(w.s.Read(), node).Copy()
	n.Attributes = maps.Clone(n.Attributes)
	n.Attributes[structs.AttrUnguarded(driver)] = "cgroup v1"
	w.node(n, half("hostpath", structs.CSIKindNode))
}

func TestVolumes_UnderLeaseArePlacedWhereAGuardEndsTheTasks(t *testing.T) {
	for policy, want := range map[string]string{
		structs.LossLease: "0@n2",
		structs.LossHold:  "0@n1",
	} {
		t.Run(policy, func(t *testing.T) {
			w := newFixture(t)
			w.storage("n1", "n2")
			w.unguarded("n1", "exec")
			w.volume("db", "hostpath")
			do(w, csi.PluginConfigSet, &storage.PluginSettingsRequest{ID: "hostpath", OnNodeLoss: policy})
			w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false), func(j *structs.Job) {
				j.TaskGroups[0].Affinities = []*structs.Affinity{{
					LTarget: "${node.unique.name}",
					RTarget: "name-n1",
					Operand: "=",
					Weight:  100,
				}}
			}))
			w.run("db")
			w.wantPlaced("db", want)
		})
	}
}

func TestVolumes_AllowOneWriter(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("a", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.run("a")
	holder := w.allocs("a")[0]
	w.job(aJob("b", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))

	p := w.run("b") // a is placed and has not claimed yet
	if got := rejections(p, "g"); !strings.Contains(got, "allocation "+structs.ShortID(holder.ID)+
		" (job a) is placed to use it as single-node-writer, write (0)") {
		t.Errorf("rejections: %s", got)
	}
	w.claim(holder)
	p = w.run("b")
	if got := rejections(p, "g"); !strings.Contains(got, "allocation "+holder.ID+
		" (job a) on node name-n1 holds volume db as single-node-writer, write (0)") {
		t.Errorf("rejections: %s", got)
	}

	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "a", WriteOptions: w.now()})
	w.run("a")
	w.client(holder, structs.AllocComplete)
	w.release(holder)
	unblocked := w.evals(structs.EvalPending)
	if len(unblocked) != 1 || unblocked[0].JobID != "b" {
		t.Fatalf("released claim unblocks %+v", unblocked)
	}
	w.apply(w.process(unblocked[0]))
	w.wantPlaced("b", "0@n1")
}

func TestVolumes_AReplacementWaitsForItsPredecessor(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.run("db")
	w.claim(w.allocs("db")[0])
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false), cpu(200)))
	p := w.run("db")
	if len(p.Place) != 1 || len(p.Stop) != 1 {
		t.Fatalf("plan: %s", describe(p))
	}
}

func TestVolumes_OfALostNodeStayHeld(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.run("db")
	lost := w.allocs("db")[0]
	w.claim(lost)
	w.status("n1", structs.NodeDown)
	p := w.run("db")
	if len(p.Place) != 0 || p.Stop[0].ClientStatus != structs.AllocLost {
		t.Fatalf("plan: %s", describe(p))
	}
	if got := rejections(p, "g"); !strings.Contains(got, "that node is down") ||
		!strings.Contains(got, `berth volume detach -force -reason "it is off" db n1`) {
		t.Errorf("rejections: %s", got)
	}
	w.release(lost) // an operator did
	w.apply(w.process(w.evals(structs.EvalPending)[0]))
	w.wantPlaced("db", "0@n2")
}

func TestVolumes_ReadersShareWithOneWriter(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2", "n3")
	w.volume("db", "hostpath")
	reader := func(j *structs.Job) {
		volume("db", structs.CSIMultiNodeSingleWriter, false)(j)
		j.TaskGroups[0].Volumes["v0"].ReadOnly = true
	}
	w.job(aJob("writer", structs.JobService, volume("db", structs.CSIMultiNodeSingleWriter, false)))
	w.job(aJob("readers", structs.JobService, count(3), reader))
	w.job(aJob("second", structs.JobService, volume("db", structs.CSIMultiNodeSingleWriter, false)))
	w.run("writer")
	w.run("readers")
	if len(w.allocs("readers")) != 3 {
		t.Errorf("readers: %s", w.placed("readers"))
	}
	w.run("second")
	w.wantPlaced("second", "")
}

func TestVolumes_OneWriterWithinAPlan(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2")
	w.volume("db", "hostpath")
	w.job(aJob("db", structs.JobService, count(2), volume("db", structs.CSISingleNodeWriter, false)))
	p := w.run("db")
	w.wantPlaced("db", "0@n1")
	if p.Eval.QueuedAllocations["g"] != 1 {
		t.Errorf("queued: %v", p.Eval.QueuedAllocations)
	}
}

func TestVolumes_PerAlloc(t *testing.T) {
	w := newFixture(t)
	w.storage("n1", "n2", "n3")
	w.volume("db[0]", "hostpath")
	w.volume("db[2]", "hostpath")
	w.job(aJob("db", structs.JobService, count(3), volume("db", structs.CSISingleNodeWriter, true)))
	p := w.run("db")
	w.wantPlaced("db", "0@n1 2@n2") // the missing db[1] delays no other allocation
	if got := rejections(p,
		"g"); got != "csi-volume: CSI volume db[1]: volume db[1] does not exist in namespace default (0)" {
		t.Errorf("rejections: %s", got)
	}
	w.volume("db[1]", "hostpath")
	w.apply(w.process(w.evals(structs.EvalPending)[0]))
	w.wantPlaced("db", "0@n1 1@n3 2@n2")

	w.job(aJob("db", structs.JobService, count(1), volume("db", structs.CSISingleNodeWriter, true)))
	w.run("db")
	w.wantPlaced("db", "0@n1")
}

func TestDuty_E3_TopologyDecidesThePlace(t *testing.T) {
	w := newFixture(t)
	for _, id := range []string{"n1", "n2", "n3"} {
		n := half("hostpath", structs.CSIKindNode)
		n.NodeInfo.AccessibleTopology = &structs.CSITopology{Segments: map[string]string{"node": id}}
		w.node(aNode(id), n)
	}
	w.volume("db", "hostpath", &structs.CSITopology{Segments: map[string]string{"node": "n3"}})
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.run("db")
	w.wantPlaced("db", "0@n3")
}

func TestVolumeLimit_CountsClaimsAttachmentsAndPlacements(t *testing.T) {
	w := newFixture(t)
	n, k := half("ebs", structs.CSIKindNode), half("ebs", structs.CSIKindController)
	n.NodeInfo.MaxVolumes = 2
	n.RequiresControllerPlugin = true
	k.ControllerInfo.SupportsAttachDetach = true
	w.node(aNode("n1"), n, k)
	for _, v := range []string{"a", "b", "c", "d"} {
		w.volume(v, "ebs")
		w.job(aJob(v, structs.JobService, volume(v, structs.CSISingleNodeWriter, false)))
	}
	w.run("a")
	w.claim(w.allocs("a")[0])
	w.run("b") // placed, not claimed
	p := w.run("c")
	w.wantPlaced("c", "")
	if got := rejections(p, "g"); got != "csi-limit: CSI plugin ebs has its limit of 2 volumes on this node (1)" {
		t.Errorf("rejections: %s", got)
	}

	a := w.allocs("a")[0]
	do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     "a",
		NodeID:       "n1",
		Op:           "attach",
		WriteOptions: w.now(),
	})
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "a", WriteOptions: w.now()})
	w.run("a")
	w.client(a, structs.AllocComplete)
	w.release(a)
	w.apply(w.process(w.evals(structs.EvalPending)[0])) // a is still being detached
	w.wantPlaced("c", "")
	do(w, csi.AttachmentOutcome, &structs.CSIAttachmentOutcome{
		VolumeID:     "a",
		NodeID:       "n1",
		Op:           "detach",
		WriteOptions: w.now(),
	})
	unblocked := w.evals(structs.EvalPending)
	if len(unblocked) != 1 {
		t.Fatalf("end of an attachment unblocks %d evaluations", len(unblocked))
	}
	w.apply(w.process(unblocked[0]))
	w.wantPlaced("c", "0@n1")
}

func TestVolumeLimit_CountsAVolumeOnce(t *testing.T) {
	w := newFixture(t)
	n := half("nfs", structs.CSIKindNode)
	n.NodeInfo.MaxVolumes = 1
	w.node(aNode("n1"), n)
	w.volume("share", "nfs")
	w.job(aJob("web", structs.JobService, count(3), volume("share", structs.CSIMultiNodeMultipleWriter, false)))
	w.run("web")
	w.wantPlaced("web", "0@n1 1@n1 2@n1")
}

func TestPluginTask_NeedsNoPlugin(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1", "n2")
	w.job(aJob("hostpath", structs.JobSystem, func(j *structs.Job) {
		j.TaskGroups[0].Tasks[0].CSIPluginConfig = &structs.CSIPluginConfig{
			ID:   "hostpath",
			Type: structs.CSIPluginMonolith,
		}
	}))
	w.run("hostpath")
	w.wantPlaced("hostpath", "0@n1 0@n2")
}

func TestBlockedEval_IsUnblockedByAHealthyPlugin(t *testing.T) {
	w := newFixture(t)
	w.nodes("n1")
	w.volume("db", "hostpath")
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.run("db")
	w.csi("n1", half("hostpath", structs.CSIKindNode))
	unblocked := w.evals(structs.EvalPending)
	if len(unblocked) != 1 {
		t.Fatalf("%d evaluations are unblocked", len(unblocked))
	}
	w.apply(w.process(unblocked[0]))
	w.wantPlaced("db", "0@n1")
}

// TestBlockedEval_BlockedEverywhereWaits although a node was the last to unblock evaluations, and no node was
// tried.
func TestBlockedEval_BlockedEverywhereWaits(t *testing.T) {
	w := newFixture(t)
	w.job(aJob("db", structs.JobService, volume("db", structs.CSISingleNodeWriter, false)))
	w.nodes("n1")
	w.run("db")
	if blocked := w.evals(structs.EvalBlocked); len(blocked) != 1 {
		t.Errorf("blocked: %+v", blocked)
	}
}
