package state_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/cluster"
)

// jobIn returns a job in a namespace.
func jobIn(ns, id string) *structs.Job {
	j := aJob(id, structs.JobService)
	j.Namespace = ns
	return j
}

// registerChecked registers a job whose namespace must exist and allow it.
func (w *fixture) registerChecked(j *structs.Job) error {
	w.t.Helper()
	return try(w, state.JobRegister, &structs.JobRegisterRequest{
		Job:          j,
		WriteOptions: w.now(),
	})
}

// putVolumeIn registers a volume. Its namespace must exist.
func (w *fixture) putVolumeIn(ns, id string) error {
	w.t.Helper()
	v := aVolume(id, "p")
	v.Namespace = ns
	v.ExternalID = "" // else the volumes of two namespaces would be one
	return try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{v},
		WriteOptions: w.now(),
	})
}

func (w *fixture) applyNamespace(n *cluster.Namespace) {
	w.t.Helper()
	do(w, namespace.Apply, &cluster.NamespaceApplyRequest{Definition: n})
}

func (w *fixture) deleteNamespace(name string) error {
	w.t.Helper()
	return try(w, namespace.Delete, &cluster.NamespaceDeleteRequest{Name: name})
}

func (w *fixture) purge(ns, job string) {
	w.t.Helper()
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        job,
		Purge:        true,
		WriteOptions: structs.WriteOptions{Namespace: ns},
	})
}

func (w *fixture) wantNamespaces(want string) {
	w.t.Helper()
	var names []string
	for _, n := range namespace.All(w.s.Read()) {
		names = append(names, n.Name)
	}
	if got := strings.Join(names, " "); got != want {
		w.t.Errorf("got namespaces %q, want %q", got, want)
	}
}

// wantRejected expects an error of a kind whose text has all parts.
func wantRejected(t rapid.TB, err error, kind structs.Kind, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !structs.IsKind(err, kind) || !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("got error %v, want %s with %q", err, kind, part)
		}
	}
}

func TestNamespace_MustExistForANewJobOrVolume(t *testing.T) {
	w := newFixture(t)
	const remedy = "berth namespace apply prod"
	wantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition, remedy)
	wantRejected(t, w.putVolumeIn("prod", "v"), structs.KindPrecondition, remedy, `volume "v"`)
	w.wantNamespaces("default")
	w.applyNamespace(&cluster.Namespace{Name: "prod"})
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
	w.applyNamespace(&cluster.Namespace{Name: "jobs"})
	w.applyNamespace(&cluster.Namespace{Name: "volumes"})
	w.job(jobIn("jobs", "j"))
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
	if n := namespace.Get(w.s.Read(), "jobs"); n == nil || n.CreateIndex != 1 {
		t.Errorf("the namespace of the job is %+v", n)
	}
	for _, ns := range []string{"jobs", "volumes"} {
		if err := w.registerChecked(jobIn(ns, "k")); err != nil {
			t.Error(err)
		}
	}
	w.purge("jobs", "k")
	w.purge("jobs", "j")
	w.wantNamespaces("default volumes")
	w.purge("volumes", "k")
	w.wantNamespaces("default volumes")
}

// A dead job does not keep its namespace.
func TestNamespace_DoesNotExistForDeadJobs(t *testing.T) {
	w := newFixture(t)
	w.applyNamespace(&cluster.Namespace{Name: "jobs"})
	w.job(jobIn("jobs", "j"))
	do(w, state.JobDeregister, &structs.JobDeregisterRequest{
		JobID:        "j",
		WriteOptions: structs.WriteOptions{Namespace: "jobs"},
	})
	if j := state.Job(w.s.Read(), "jobs", "j"); j == nil || j.Status != structs.JobDead {
		t.Fatalf("the job is %+v", j)
	}
	if err := w.deleteNamespace("jobs"); err != nil {
		t.Error(err)
	}
	w.wantNamespaces("default")
	wantRejected(t, w.registerChecked(jobIn("jobs", "j")), structs.KindPrecondition,
		"berth namespace apply jobs")
}

func TestNamespaceDelete_RejectsAUsedOne(t *testing.T) {
	w := newFixture(t)
	w.applyNamespace(&cluster.Namespace{Name: "prod"})
	w.applyNamespace(&cluster.Namespace{Name: "default", Description: "ours"})
	w.job(jobIn("prod", "a"))
	w.job(jobIn("prod", "b"))
	if err := w.putVolumeIn("prod", "v"); err != nil {
		t.Fatal(err)
	}
	wantRejected(t, w.deleteNamespace("prod"), structs.KindPrecondition, "2 jobs", `"a"`)
	w.purge("prod", "a")
	w.purge("prod", "b")
	wantRejected(t, w.deleteNamespace("prod"), structs.KindPrecondition, "1 volumes", `"v"`)
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID:           "v",
		WriteOptions: structs.WriteOptions{Namespace: "prod"},
	})
	if err := w.deleteNamespace("prod"); err != nil {
		t.Error(err)
	}
	w.wantNamespaces("default")
	wantRejected(t, w.deleteNamespace("prod"), structs.KindNotFound, "prod")
	wantRejected(t, w.deleteNamespace("default"), structs.KindInvalid, "cannot be deleted")
}

func TestNamespace_BoundsTheDriversOfJobs(t *testing.T) {
	w := newFixture(t)
	w.applyNamespace(&cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{DisabledTaskDrivers: []string{"exec"}},
	})
	wantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition,
		`group "g": task "t"`, `does not allow the driver "exec"`)
	w.applyNamespace(&cluster.Namespace{
		Name:         "prod",
		Capabilities: &cluster.NamespaceCapabilities{EnabledTaskDrivers: []string{"docker"}},
	})
	wantRejected(t, w.registerChecked(jobIn("prod", "j")), structs.KindPrecondition, `"exec"`)
	w.applyNamespace(&cluster.Namespace{
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
	w.applyNamespace(n)
	first := namespace.Get(w.s.Read(), "default")
	w.applyNamespace(n)
	if namespace.Get(w.s.Read(), "default") != first {
		t.Error("an equal definition was put again")
	}
	w.applyNamespace(&cluster.Namespace{Name: "default"})
	got := namespace.Get(w.s.Read(), "default")
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
				w.applyNamespace(&cluster.Namespace{Name: ns})
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
					w.purge(ns, "j")
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
