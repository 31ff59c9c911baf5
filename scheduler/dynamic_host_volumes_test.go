package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/storage"
)

// onNodes makes nodes that run the plugin p of dynamic host volumes, each with its own topology.
func onNodes(t *testing.T, ids ...string) *fixture {
	t.Helper()
	w := newFixture(t)
	for _, id := range ids {
		w.hostNode(aNode(id))
	}
	return w
}

func (w *fixture) hostNode(n *structs.Node) {
	w.t.Helper()
	h := half("p", structs.CSIKindNode)
	h.NodeInfo.AccessibleTopology = ofNode(n.ID)
	w.node(n, h)
}

func ofNode(id string) *structs.CSITopology {
	return &structs.CSITopology{Segments: map[string]string{"node": id}}
}

// hostVolume makes a dynamic host volume with a name on a node, and returns its ID.
func (w *fixture) hostVolume(node, name string, modes ...structs.CSIAccessMode) string {
	w.t.Helper()
	id := structs.HostVolumeID(structs.DefaultNamespace, node, name)
	v := &structs.CSIVolume{
		ID: id, Namespace: structs.DefaultNamespace,
		CSIVolumeSpec: structs.CSIVolumeSpec{Name: id, PluginID: "p", ExternalID: "ext-" + id},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			Topologies: []*structs.CSITopology{ofNode(node)},
			Host:       &structs.CSIHost{Name: name, NodeID: node},
		},
	}
	for _, m := range modes {
		v.RequestedCapabilities = append(v.RequestedCapabilities,
			&structs.CSIVolumeCapability{AccessMode: m, AttachmentMode: structs.CSIFileSystem})
	}
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		WriteOptions: w.now(),
		Volumes:      []*structs.CSIVolume{v},
	})
	return id
}

// stickyHost makes the host volume of a job's group sticky.
func stickyHost(j *structs.Job) { j.TaskGroups[0].Volumes["d"].Sticky = true }

func perAllocHost(j *structs.Job) { j.TaskGroups[0].Volumes["d"].PerAlloc = true }

// claims writes the sticky claims as "name@node: index of its allocation or -", sorted.
func (w *fixture) claims() string {
	tx := w.s.Read()
	var out []string
	for c := range csi.HostClaimsOfGroup(tx, csi.HostClaimUse{
		Namespace: structs.DefaultNamespace, JobID: "a", Group: "g", VolumeName: "data",
	}) {
		for _, node := range []string{"n1", "n2", "n3"} {
			if c.VolumeID != structs.HostVolumeID(c.Namespace, node, c.VolumeName) {
				continue
			}
			holder := "-"
			if a := csi.HostClaimHolder(tx, c, nil); a != nil {
				holder = a.NodeID
			}
			out = append(out, c.VolumeName+"@"+node+": "+holder)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (w *fixture) wantClaims(want string) {
	w.t.Helper()
	if got := w.claims(); got != want {
		w.t.Fatalf("the claims are %q, want %q", got, want)
	}
}

func TestDynamicHostVolume_IsFoundByItsName(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.job(aJob("a", structs.JobService, hostVolume("", false)))
	p := w.run("a")
	if got := rejections(p, "g"); got != `host-volume: the node has no host volume "data" (2)` {
		t.Fatalf("got %q", got)
	}
	key := structs.WakeHostVolume(structs.DefaultNamespace, "data")
	if !slices.Contains(blockedOn(p), key) {
		t.Errorf("the evaluation waits for %v, want %s among them", blockedOn(p), key)
	}

	id := w.hostVolume("n2", "data")
	if e := state.Eval(w.s.Read(), p.Eval.ID); p.Blocked == nil && e.Status != structs.EvalPending {
		t.Errorf("the volume is there, and the evaluation is %s", e.Status)
	}
	w.run("a")
	w.wantPlaced("a", "0@n2")
	want := storage.HostVolumeUse("d", &structs.VolumeRequest{}, id, "")
	if got := w.allocs("a")[0].CSIVolumes; len(got) != 1 || got[0] != want {
		t.Errorf("the allocation uses %+v, want %+v", got, want)
	}
}

func TestDynamicHostVolume_IsClaimedLikeACSIVolume(t *testing.T) {
	w := onNodes(t, "n1")
	id := w.hostVolume("n1", "data")
	for _, job := range []string{"a", "b"} {
		w.job(aJob(job, structs.JobService, hostVolume(structs.CSISingleNodeWriter, false)))
	}
	w.run("a")
	w.wantPlaced("a", "0@n1")
	a := w.allocs("a")[0]
	got := rejections(w.run("b"), "g")
	want := `host-volume: host volume "data" (` + id + `): allocation ` + structs.ShortID(a.ID) +
		` (job a) is placed to use it as single-node-writer, write (1)`
	if got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}

	w.claim(a)
	got = rejections(w.process(w.eval("b")), "g")
	if !strings.Contains(got, structs.ShortID(a.ID)) {
		t.Errorf("with a claim: got %q", got)
	}
	w.run("b")
	tx := w.s.Read()
	if jobs := csi.JobsWaitingFor(tx, csi.Volume(tx, "default", id)); !slices.Equal(jobs, []string{"b"}) {
		t.Errorf("the jobs %v wait for the volume, want b", jobs)
	}
}

func TestDynamicHostVolume_HasToAdmitTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(w *fixture)
		edit    func(*structs.Job)
		want    string
	}{
		"another mode": {
			func(w *fixture) { w.hostVolume("n1", "data", structs.CSISingleNodeWriter) },
			hostVolume(structs.CSISingleNodeMultiWriter, false), "single-node-multi-writer",
		},
		"another namespace": {
			func(w *fixture) {
				do(w, namespace.Apply, &cluster.NamespaceApplyRequest{
					Definition:   &cluster.Namespace{Name: "other"},
					WriteOptions: w.now(),
				})
				o := w.now()
				o.Namespace = "other"
				do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
					WriteOptions: o,
					Volumes: []*structs.CSIVolume{{
						ID: "x", Namespace: "other",
						CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", ExternalID: "x"},
						CSIVolumeOrigin: structs.CSIVolumeOrigin{Host: &structs.CSIHost{Name: "data", NodeID: "n1"}},
					}},
				})
			},
			hostVolume("", false), `the node has no host volume "data"`,
		},
		"one block device": {
			func(w *fixture) { w.hostNode(withHostVolume("n1", false)) },
			func(j *structs.Job) {
				hostVolume("", false)(j)
				j.TaskGroups[0].Volumes["d"].AttachmentMode = structs.CSIBlockDevice
			}, `host volume "data" is one of the configuration of the node`,
		},
		"two blocks": {
			func(w *fixture) { w.hostVolume("n1", "data", structs.CSISingleNodeMultiWriter) },
			func(j *structs.Job) {
				hostVolume(structs.CSISingleNodeMultiWriter, false)(j)
				second := *j.TaskGroups[0].Volumes["d"]
				second.Name = "e"
				j.TaskGroups[0].Volumes["e"] = &second
			}, `two volume blocks name host volume "data"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := onNodes(t, "n1")
			c.prepare(w)
			w.job(aJob("a", structs.JobService, c.edit))
			got := rejections(w.run("a"), "g")
			if !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestHostVolumes_OfBothKindsAreMixed: an allocation uses the directory of one node, and the volume of
// another.
func TestHostVolumes_OfBothKindsAreMixed(t *testing.T) {
	w := onNodes(t, "n1")
	w.hostNode(withHostVolume("n2", false))
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume(structs.CSISingleNodeWriter, false), count(2)))
	w.run("a")
	w.wantPlaced("a", "0@n1 1@n2")
	for _, a := range w.allocs("a") {
		if (len(a.CSIVolumes) == 1) != (a.NodeID == "n1") {
			t.Errorf("on %s: %+v", a.NodeID, a.CSIVolumes)
		}
	}

	// The one with the volume is no writer of the directory, and the other way round.
	w.job(aJob("b", structs.JobService, hostVolume(structs.CSISingleNodeWriter, false)))
	w.client(w.allocs("a")[0], structs.AllocFailed)
	w.run("b")
	w.wantPlaced("b", "0@n1")
}

func TestDynamicHostVolume_PerAlloc(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n1", "data[1]")
	w.hostVolume("n2", "data[0]")
	w.job(aJob("a", structs.JobService, hostVolume("", false), perAllocHost, count(3)))
	p := w.run("a")
	w.wantPlaced("a", "0@n2 1@n1")
	if got := rejections(p, "g"); !strings.Contains(got, `no host volume "data[2]"`) {
		t.Errorf("the third: got %q", got)
	}
}

func TestDynamicHostVolume_IsChosenAnewWithoutSticky(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume("", false)))
	w.run("a")
	w.hostVolume("n2", "data")
	w.wantPlaced("a", "0@n1")
	w.claim(w.allocs("a")[0])
	w.status("n1", structs.NodeDown)
	w.run("a")
	w.wantPlaced("a", "0@n2")
	w.wantClaims("")
}

func TestSticky_WaitsForTheNodeOfItsVolume(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost))
	w.run("a")
	w.wantPlaced("a", "0@n1")
	w.wantClaims("data@n1: n1")
	w.hostVolume("n2", "data")

	w.status("n1", structs.NodeDown)
	want := `host-volume: host volume "data" is sticky: the volume of its claim is on node name-n1, which is down (0)`
	p := w.run("a")
	if got := rejections(p, "g"); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	w.wantClaims("data@n1: -")

	w.status("n1", structs.NodeReady)
	w.run("a")
	w.wantPlaced("a", "0@n1")
	w.wantClaims("data@n1: n1")
}

func TestSticky_KeepsTheVolumeOfEachAllocation(t *testing.T) {
	w := onNodes(t, "n1", "n2", "n3")
	for _, n := range []string{"n1", "n2", "n3"} {
		w.hostVolume(n, "data")
	}
	j := aJob("a", structs.JobService, hostVolume("", false), stickyHost, count(2))
	w.job(j)
	w.run("a")
	w.wantClaims("data@n1: n1, data@n2: n2")

	// A new version on the same nodes.
	j = aJob("a", structs.JobService, hostVolume("", false), stickyHost, count(2), cpu(120), atOnce)
	w.job(j)
	w.run("a")
	w.wantPlaced("a", "0@n1 1@n2")

	// A lower count keeps the claims, and a higher one finds them again before it makes one.
	for _, n := range []int{1, 3} {
		w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost, count(n), cpu(120), atOnce))
		w.run("a")
		for _, a := range w.allocs("a") {
			w.client(a, structs.AllocRunning)
		}
	}
	w.wantClaims("data@n1: n1, data@n2: n2, data@n3: n3")
}

// TestSticky_AFailedAllocationKeepsItsClaim: it is placed again after a delay. Another allocation of the
// group that is placed meanwhile gets another volume.
func TestSticky_AFailedAllocationKeepsItsClaim(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost, count(2), atOnce,
		func(j *structs.Job) {
			j.TaskGroups[0].ReschedulePolicy = &structs.ReschedulePolicy{
				Delay: time.Minute, DelayFunction: "constant", Unlimited: true,
			}
		}))
	w.run("a")
	w.wantPlaced("a", "0@n1")
	w.client(w.allocs("a")[0], structs.AllocFailed)
	w.hostVolume("n2", "data")
	w.apply(w.process(w.eval("a")))
	w.wantPlaced("a", "1@n2")
	w.wantClaims("data@n1: -, data@n2: n2")
}

func TestSticky_StoppedJobFindsItsVolumeAgain(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n2", "data")
	job := aJob("a", structs.JobService, hostVolume("", false), stickyHost)
	w.job(job)
	w.run("a")
	stop := func(purge bool) {
		do(w, state.JobDeregister, &structs.JobDeregisterRequest{JobID: "a", Purge: purge, WriteOptions: w.now()})
		for _, a := range w.allocs("a") {
			defer w.client(a, structs.AllocComplete)
		}
		w.run("a")
	}
	w.hostVolume("n1", "data")
	stop(false)
	w.wantClaims("data@n2: -")
	if !csi.KeepsJob(w.s.Read(), state.Job(w.s.Read(), structs.DefaultNamespace, "a")) {
		t.Error("a stopped job with a claim is deleted as garbage")
	}
	w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost))
	w.run("a")
	w.wantPlaced("a", "0@n2")
	stop(true)
	w.wantClaims("")
}

func TestSticky_ClaimIsDeletedByAnOperator(t *testing.T) {
	w := onNodes(t, "n1", "n2")
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost))
	w.run("a")
	id := w.allocs("a")[0].CSIVolumes[0].Claim
	w.hostVolume("n2", "data")
	w.status("n1", structs.NodeDown)
	p := w.run("a")
	do(w, csi.HostVolumeClaimDelete, &storage.ClaimDeleteRequest{ClaimID: id, WriteOptions: w.now()})
	if e := state.Eval(w.s.Read(), p.Eval.ID); p.Blocked == nil && e.Status != structs.EvalPending {
		t.Errorf("the claim is gone, and the evaluation is %s", e.Status)
	}
	w.run("a")
	w.wantPlaced("a", "0@n2")
}

// A sticky request needs the dynamic volume of a node whose configuration has one of the same name.
func TestSticky_TakesTheDynamicVolumeBesideAConfiguredOne(t *testing.T) {
	w := newFixture(t)
	n := aNode("n1")
	n.HostVolumes = map[string]*structs.HostVolume{"data": {Path: "/srv/data"}}
	w.hostNode(n)
	w.hostVolume("n1", "data")
	w.job(aJob("a", structs.JobService, hostVolume("", false), stickyHost))
	w.run("a")
	w.wantPlaced("a", "0@n1")
	w.wantClaims("data@n1: n1")
}
