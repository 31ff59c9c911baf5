package namespace_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/cluster"
)

// jobIn returns a job in a namespace.
func jobIn(ns, id string) *structs.Job {
	j := statetest.Job(id, structs.JobService)
	j.Namespace = ns
	return j
}

// registerChecked registers a job whose namespace must exist and allow it.
func (w *fixture) registerChecked(j *structs.Job) error {
	w.T.Helper()
	return try(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          j,
		WriteOptions: w.Now(),
	})
}

// putVolumeIn registers a volume. Its namespace must exist.
func (w *fixture) putVolumeIn(ns, id string) error {
	w.T.Helper()
	v := statetest.Volume(id, "p")
	v.Namespace = ns
	v.ExternalID = "" // else the volumes of two namespaces would be one
	return try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.Now(),
	})
}

func (w *fixture) deleteNamespace(name string) error {
	w.T.Helper()
	return try(w, namespace.Delete, &cluster.NamespaceDeleteRequest{Name: name})
}

func (w *fixture) wantNamespaces(want string) {
	w.T.Helper()
	var names []string
	for _, n := range namespace.All(w.Store.Read()) {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, " "); got != want {
		w.T.Errorf("got namespaces %q, want %q", got, want)
	}
}

func TestNamespace_MustExistForANewJobOrVolume(t *testing.T) {
	w := newFixture(t)
	const remedy = "berth namespace apply prod"
	statetest.WantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition, remedy)
	statetest.WantRejected(t, w.putVolumeIn("prod", "v"), structs.KindPrecondition, remedy, `volume "v"`)
	w.wantNamespaces("default")
	w.ApplyNamespace(&cluster.Namespace{Name: "prod"})
	w.wantNamespaces("default prod")
	if err := w.registerChecked(jobIn("prod", "j")); err != nil {
		t.Error(err)
	}
	if err := w.putVolumeIn("prod", "v"); err != nil {
		t.Error(err)
	}
	if err := w.registerChecked(jobIn("default", "j")); err != nil {
		t.Error(err)
	}
}

func TestNamespace_ExistsWhileItIsUsed(t *testing.T) {
	w := newFixture(t)
	w.ApplyNamespace(&cluster.Namespace{Name: "jobs"})
	w.ApplyNamespace(&cluster.Namespace{Name: "volumes"})
	w.Job(jobIn("jobs", "j"))
	if err := w.putVolumeIn("volumes", "v"); err != nil {
		t.Fatal(err)
	}
	do(w, func(tx *state.WriteTx, names *[]string) error {
		for _, name := range *names {
			schema.Namespaces.Delete(tx, schema.Namespaces.Get(tx, name))
		}
		return nil
	}, &[]string{"jobs", "volumes"})
	w.wantNamespaces("default jobs volumes")
	if n := namespace.Get(w.Store.Read(), "jobs"); n == nil || n.CreateIndex != 1 {
		t.Errorf("the namespace of the job is %+v", n)
	}
	for _, ns := range []string{"jobs", "volumes"} {
		if err := w.registerChecked(jobIn(ns, "k")); err != nil {
			t.Error(err)
		}
	}
	w.Purge("jobs", "k")
	w.Purge("jobs", "j")
	w.wantNamespaces("default volumes")
	w.Purge("volumes", "k")
	w.wantNamespaces("default volumes")
}

// A dead job does not keep its namespace.
func TestNamespace_DoesNotExistForDeadJobs(t *testing.T) {
	w := newFixture(t)
	w.ApplyNamespace(&cluster.Namespace{Name: "jobs"})
	w.Job(jobIn("jobs", "j"))
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		WriteOptions: structs.WriteOptions{Namespace: "jobs"},
	})
	if j := state.Job(w.Store.Read(), "jobs", "j"); j == nil || j.Status != structs.JobDead {
		t.Fatalf("the job is %+v", j)
	}
	if err := w.deleteNamespace("jobs"); err != nil {
		t.Error(err)
	}
	w.wantNamespaces("default")
	statetest.WantRejected(t, w.registerChecked(jobIn("jobs", "j")), structs.KindPrecondition,
		"berth namespace apply jobs")
}

func TestNamespaceDelete_RejectsAUsedOne(t *testing.T) {
	w := newFixture(t)
	w.ApplyNamespace(&cluster.Namespace{Name: "prod"})
	w.ApplyNamespace(&cluster.Namespace{Name: "default", Description: "ours"})
	w.Job(jobIn("prod", "a"))
	w.Job(jobIn("prod", "b"))
	if err := w.putVolumeIn("prod", "v"); err != nil {
		t.Fatal(err)
	}
	statetest.WantRejected(t, w.deleteNamespace("prod"), structs.KindPrecondition, "2 jobs", `"a"`)
	w.Purge("prod", "a")
	w.Purge("prod", "b")
	statetest.WantRejected(t, w.deleteNamespace("prod"), structs.KindPrecondition, "1 volumes", `"v"`)
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           "v",
		WriteOptions: structs.WriteOptions{Namespace: "prod"},
	})
	if err := w.deleteNamespace("prod"); err != nil {
		t.Error(err)
	}
	w.wantNamespaces("default")
	statetest.WantRejected(t, w.deleteNamespace("prod"), structs.KindNotFound, "prod")
	statetest.WantRejected(t, w.deleteNamespace("default"), structs.KindInvalid, "cannot be deleted")
}

func TestNamespace_BoundsTheDriversOfJobs(t *testing.T) {
	w := newFixture(t)
	w.ApplyNamespace(&cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{"exec"}},
	})
	statetest.WantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition,
		`group "g": task "t"`, `does not allow the driver "exec"`)
	w.ApplyNamespace(&cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker"}},
	})
	statetest.WantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition, `"exec"`)
	w.ApplyNamespace(&cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker", "exec"}},
	})
	if err := w.registerChecked(jobIn("prod", "j")); err != nil {
		t.Error(err)
	}
}

func TestNamespaceApply_WritesOnlyChanges(t *testing.T) {
	w := newFixture(t)
	n := &cluster.Namespace{Name: "default", Description: "ours", Meta: map[string]string{"a": "b"}}
	w.ApplyNamespace(n)
	first := namespace.Get(w.Store.Read(), "default")
	w.ApplyNamespace(n)
	if namespace.Get(w.Store.Read(), "default") != first {
		t.Error("an equal definition was put again")
	}
	w.ApplyNamespace(&cluster.Namespace{Name: "default"})
	got := namespace.Get(w.Store.Read(), "default")
	if got.Description != "" || got.CreateIndex != first.CreateIndex || got.ModifyIndex <= first.ModifyIndex {
		t.Errorf("got %+v after %+v", got, first)
	}
}

// TestNamespaces_FollowTheirRule makes random changes. The list has exactly the namespaces that exist, and a
// checked registration succeeds exactly in those.
func TestNamespaces_FollowTheirRule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newFixture(rt)
		names := []string{"default", "a", "a-b", "b"}
		rows := map[string]bool{}
		held := map[string]map[string]bool{} // jobs and volumes by namespace
		for _, ns := range names {
			held[ns] = map[string]bool{}
		}
		exists := func(ns string) bool {
			return ns == "default" || rows[ns] || len(held[ns]) > 0
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			ns := rapid.SampledFrom(names).Draw(rt, "namespace")
			switch rapid.IntRange(0, 4).Draw(rt, "step") {
			case 0:
				w.ApplyNamespace(&cluster.Namespace{Name: ns})
				rows[ns] = true
			case 1:
				may := ns != "default" && rows[ns] && len(held[ns]) == 0
				if err := w.deleteNamespace(ns); (err == nil) != may {
					rt.Fatalf("deleting %s: %v, want success %v", ns, err, may)
				}
				if may {
					rows[ns] = false
				}
			case 2:
				if err := w.registerChecked(jobIn(ns, "j")); (err == nil) != exists(ns) {
					rt.Fatalf("registering in %s: %v", ns, err)
				} else if err == nil {
					held[ns]["j"] = true
				}
			case 3:
				if err := w.putVolumeIn(ns, "v"); (err == nil) != exists(ns) {
					rt.Fatalf("a volume in %s: %v", ns, err)
				} else if err == nil {
					held[ns]["v"] = true
				}
			case 4:
				if held[ns]["j"] {
					w.Purge(ns, "j")
					delete(held[ns], "j")
				}
			}
			var want []string
			for _, ns := range []string{"a", "a-b", "b", "default"} {
				if exists(ns) {
					want = append(want, ns)
				}
			}
			w.wantNamespaces(strings.Join(want, " "))
		}
	})
}
