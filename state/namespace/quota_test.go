package namespace_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"berth/state"
	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/cluster"
	"berth/structs/quota"
)

// quota stores the quota team with bounds.
func (w *fixture) quota(b *quota.Bounds) {
	w.T.Helper()
	do(w, namespace.QuotaPut, aQuota("team", b))
}

func aQuota(name string, b *quota.Bounds) *quota.SpecPutRequest {
	return &quota.SpecPutRequest{Quota: &quota.Spec{
		Name:   name,
		Limits: []*quota.Limit{{Region: "global", RegionLimit: b}},
	}}
}

// name makes namespaces name a quota.
func (w *fixture) name(q string, all ...string) {
	w.T.Helper()
	for _, ns := range all {
		w.ApplyNamespace(&cluster.Namespace{Name: ns, Quota: q})
	}
}

// used returns an amount of the use of the quota team.
func (w *fixture) used(kind, name string) int64 {
	return namespace.QuotaUsed(w.Store.Read(), "team")[quota.Dimension{Kind: kind, Name: name}]
}

func (w *fixture) wantUsed(kind string, want int64) {
	w.T.Helper()
	if got := w.used(kind, ""); got != want {
		w.T.Errorf("%s: %d are used, want %d", kind, got, want)
	}
}

// place applies a plan that places allocations of a job, given as id@node, and returns its evaluation.
func (w *fixture) place(j *structs.Job, place ...string) *structs.Evaluation {
	w.T.Helper()
	p := w.PlanOf(j, place...)
	do(w, state.PlanApply, p)
	return state.Eval(w.Store.Read(), p.Eval.ID)
}

func TestQuota_CountsWhatItsNamespacesHave(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{Allocations: 100})
	w.Node("n1")
	w.name("", "a", "b", "other")
	before := w.Job(jobIn("a", "before"))
	w.place(before, "a1@n1")
	w.name("team", "a", "b")
	w.wantUsed(quota.KindAllocations, 1) // those from before count
	w.place(w.Job(jobIn("b", "j")), "b1@n1", "b2@n1")
	w.place(w.Job(jobIn("other", "j")), "o1@n1")
	w.wantUsed(quota.KindAllocations, 3)
	w.wantUsed(quota.KindCPU, 300)
	w.wantUsed(quota.KindMemory, 300)
	w.Stop("b1", "")
	w.wantUsed(quota.KindAllocations, 2)
	w.Client("n1", "b1", structs.AllocComplete)
	w.Client("n1", "b2", structs.AllocFailed)
	w.wantUsed(quota.KindAllocations, 1)

	w.name("", "a")
	w.wantUsed(quota.KindAllocations, 0)
	w.name("team", "other")
	w.wantUsed(quota.KindAllocations, 1)
	if got := namespace.OfQuota(w.Store.Read(), "team"); strings.Join(got, " ") != "b other" {
		t.Errorf("the quota is named by %v", got)
	}
}

func TestQuota_RejectsAPlanBeyondIt(t *testing.T) {
	for name, c := range map[string]struct {
		bounds quota.Bounds
		want   string // "" if the plan is applied
	}{
		"within":      {quota.Bounds{Allocations: 2, CPU: 200, MemoryMB: 200, MemoryMaxMB: 200}, ""},
		"allocations": {quota.Bounds{Allocations: 1}, "quota team: allocations: 0 used, 2 asked, 1 allowed"},
		"cpu":         {quota.Bounds{CPU: 199}, "cpu: 0 MHz used, 200 MHz asked, 199 MHz allowed"},
		"memory":      {quota.Bounds{MemoryMB: 199}, "memory: 0 MiB used, 200 MiB asked, 199 MiB allowed"},
		"memory_max":  {quota.Bounds{MemoryMaxMB: 199}, "memory_max: 0 MiB used"},
		"nothing":     {quota.Bounds{Allocations: -1}, "2 asked, 0 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.quota(&c.bounds)
			w.name("team", "a")
			w.Node("n1")
			w.Node("n2")
			e := w.place(w.Job(jobIn("a", "j")), "a1@n1", "a2@n2")
			want := "a1 a2"
			if c.want != "" {
				want = "" // it is all or nothing, because its stops count too
			}
			if got := w.Placed("a1", "a2"); got != want || !strings.Contains(e.StatusDescription, c.want) {
				t.Errorf("placed %q: %q; want %q with %q", got, e.StatusDescription, want, c.want)
			}
			if (e.Status == structs.EvalPending) != (c.want != "") {
				t.Errorf("the evaluation is %s", e.Status)
			}
		})
	}
}

// Two plans that were made at once: the second one is rejected, in any namespace of the quota.
func TestQuota_RejectsTheSecondOfTwoPlans(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{Allocations: 1})
	w.name("team", "a", "b")
	w.Node("n1")
	first := w.PlanOf(w.Job(jobIn("a", "j")), "a1@n1")
	second := w.PlanOf(w.Job(jobIn("b", "j")), "b1@n1")
	do(w, state.PlanApply, first)
	do(w, state.PlanApply, second)
	if got := w.Placed("a1", "b1"); got != "a1" {
		t.Errorf("placed %q", got)
	}
}

// A replacement does not count twice, also above a bound that was lowered, and a plan that stops one of
// another namespace has its place.
func TestQuota_CountsTheStopsOfAPlan(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{})
	w.name("team", "a", "b")
	w.name("", "other")
	w.Node("n1")
	j := w.Job(jobIn("a", "j"))
	w.place(j, "a1@n1", "a2@n1")
	w.place(w.Job(jobIn("b", "j")), "b1@n1")
	w.place(w.Job(jobIn("other", "j")), "o1@n1")
	w.quota(&quota.Bounds{Allocations: 1})
	for _, c := range []struct{ stop, place, want string }{
		{"", "x1", ""},
		{"o1", "x2", ""},
		{"a1", "x3", "x3"},
		{"b1", "x4", "x4"},
	} {
		p := w.PlanOf(j, c.place+"@n1")
		if c.stop != "" {
			p.Stop = []*structs.PlanStop{{AllocID: c.stop, PreemptedBy: c.place}}
		}
		do(w, state.PlanApply, p)
		if got := w.Placed(c.place); got != c.want {
			t.Errorf("instead of %q the plan places %q, want %q", c.stop, got, c.want)
		}
	}
	w.wantUsed(quota.KindAllocations, 3)
}

func TestQuota_CountsDevicesAndTheMostMemory(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{MemoryMaxMB: 1000, Devices: []*quota.DeviceBound{{Name: "nvidia/gpu", Count: 2}}})
	w.name("team", "a")
	w.Node("n1")
	j := w.Job(jobIn("a", "j"))
	devices := func(ids ...string) map[string][]*structs.AllocatedDeviceResource {
		return map[string][]*structs.AllocatedDeviceResource{"t": {{
			Vendor: "nvidia", Type: "gpu", Name: "x", DeviceIDs: ids,
		}}}
	}
	spec := namespace.Quota(w.Store.Read(), "team")
	ask := quota.OfDevices(devices("1", "2", "3"))
	if got := quota.Exceeds(spec, nil, ask); got == nil ||
		got.Figures() != "device nvidia/gpu: 0 used, 3 asked, 2 allowed" {
		t.Errorf("three devices: %v", got)
	}
	if got := quota.Exceeds(spec, nil, quota.OfDevices(devices("1", "2"))); got != nil {
		t.Errorf("two devices: %v", got)
	}
	p := w.PlanOf(j, "a1@n1")
	p.Place[0].Resources = &structs.Resources{CPU: 1, MemoryMB: 100, MemoryMaxMB: 1001}
	do(w, state.PlanApply, p)
	if got := w.Placed("a1"); got != "" {
		t.Error("it may use 1001 MiB of 1000")
	}
	p.Place[0].Resources.MemoryMaxMB = 1000
	p.Eval.ID = "again"
	do(w, state.PlanApply, p)
	w.wantUsed(quota.KindMemoryMax, 1000)
	w.wantUsed(quota.KindMemory, 100)
}

// blockedOn puts a blocked evaluation that waits for the quota team, and returns a function that tells its
// status.
func (w *fixture) blockedOn(j *structs.Job) (status func() string) {
	w.T.Helper()
	w.Index++
	e := &structs.Evaluation{
		ID: "blocked" + j.ID, Namespace: j.Namespace, JobID: j.ID, Type: j.Type, Priority: 50,
		TriggeredBy: structs.TriggerQueuedAllocs, Status: structs.EvalBlocked, SnapshotIndex: w.Index,
		BlockedOn: []string{quota.UnblockKey("team")},
	}
	do(w, state.EvalUpdate, &structs.EvalUpdateRequest{Evals: []*structs.Evaluation{e}, WriteOptions: w.Now()})
	return func() string { return state.Eval(w.Store.Read(), e.ID).Status }
}

func TestQuota_UnblocksWhenItsUseFallsOrItChanges(t *testing.T) {
	for name, change := range map[string]func(w *fixture){
		"an allocation is stopped": func(w *fixture) { w.Stop("b1", "") },
		"an allocation ends":       func(w *fixture) { w.Client("n1", "b1", structs.AllocFailed) },
		"the bound changes":        func(w *fixture) { w.quota(&quota.Bounds{Allocations: 2}) },
		"the namespace leaves":     func(w *fixture) { w.name("", "a") },
		"another one leaves":       func(w *fixture) { w.name("", "b") },
		"nothing for the quota": func(w *fixture) {
			w.Stop("o1", "")
			w.place(state.Job(w.Store.Read(), "other", "j"), "o2@n1")
			w.ApplyNamespace(&cluster.Namespace{Name: "b", Quota: "team", Description: "new"})
			w.quota(&quota.Bounds{Allocations: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.quota(&quota.Bounds{Allocations: 1})
			w.name("team", "a", "b")
			w.name("", "other")
			w.Node("n1")
			w.place(w.Job(jobIn("b", "j")), "b1@n1")
			w.place(w.Job(jobIn("other", "j")), "o1@n1")
			status := w.blockedOn(w.Job(jobIn("a", "j")))
			want := structs.EvalPending
			if strings.HasPrefix(name, "nothing") {
				want = structs.EvalBlocked
			}
			change(w)
			if got := status(); got != want {
				t.Errorf("the evaluation is %s, want %s", got, want)
			}
		})
	}
}

func TestQuota_StaysWhileANamespaceNamesIt(t *testing.T) {
	w := newFixture(t)
	named := func() error {
		return try(w, namespace.Apply, &cluster.NamespaceApplyRequest{
			Definition: &cluster.Namespace{Name: "a", Quota: "team"},
		})
	}
	remove := func() error { return try(w, namespace.QuotaDelete, &quota.SpecDeleteRequest{Name: "team"}) }
	statetest.WantRejected(t, named(), structs.KindPrecondition, `there is no quota "team"`, "berth quota apply")
	statetest.WantRejected(t, remove(), structs.KindNotFound, `"team"`)
	w.quota(&quota.Bounds{})
	if err := named(); err != nil {
		t.Fatal(err)
	}
	statetest.WantRejected(t, remove(), structs.KindPrecondition, `such as "a"`)
	if err := w.deleteNamespace("a"); err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
}

// TestQuota_UseIsTheSumOfTheRows changes allocations, volumes and namespaces at random. The use is the sum
// over the rows after each entry, and after the load of a snapshot file, which is equal when it is saved
// again.
func TestQuota_UseIsTheSumOfTheRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFixture(t)
		w.quota(&quota.Bounds{})
		do(w, namespace.QuotaPut, aQuota("second", &quota.Bounds{Allocations: 3}))
		w.name("", "a", "b")
		w.classes("fast", "slow")
		w.Node("n1")
		for n := range rapid.IntRange(1, 25).Draw(t, "entries") {
			ns := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "namespace")
			id := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id")
			changeUse(w, ns, ns+id, rapid.IntRange(0, 5).Draw(t, "change"), n)
		}
		var file bytes.Buffer
		if err := w.Store.Save(&file); err != nil {
			t.Fatal(err)
		}
		before := slices.Clone(file.Bytes())
		w.Store = state.New()
		if err := w.Store.Load(&file); err != nil {
			t.Fatal(err)
		}
		w.Check()
		var again bytes.Buffer
		if err := w.Store.Save(&again); err != nil || !bytes.Equal(before, again.Bytes()) {
			t.Errorf("the file of the loaded state is another one: %v", err)
		}
		changeUse(w, "a", "a1", 0, 100)
	})
}

func changeUse(w *fixture, ns, id string, change, n int) {
	switch change {
	case 0:
		w.place(w.Job(jobIn(ns, "j")), id+"@n1")
	case 1:
		if a := state.Alloc(w.Store.Read(), id); a != nil && !a.Terminal() {
			w.Stop(id, "")
		}
	case 2:
		if state.Alloc(w.Store.Read(), id) != nil {
			w.Client("n1", id, structs.AllocComplete)
		}
	case 3:
		v := statetest.Volume(id, "p")
		v.Namespace = ns
		v.RequestedCapacityMin = int64(100 + n) // it grows
		v.Class = []string{"", "fast", "slow"}[n%3]
		v.QuotaWeight = n % 3
		_ = try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes: []*structs.CSIVolume{v}, WriteOptions: w.Now(),
		})
	case 4:
		_ = try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
			ID: id, WriteOptions: structs.WriteOptions{Namespace: ns},
		})
	case 5:
		w.name([]string{"", "team", "second"}[n%3], ns)
	}
}
