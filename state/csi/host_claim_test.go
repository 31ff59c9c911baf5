package csi_test

import (
	"fmt"
	"strings"
	"testing"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/csi"
	"berth/state/schema"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/storage"
)

// hostClaimWorld is a state with the host volume "data" of node n, of ID v, and the job j with the group g.
type hostClaimWorld struct {
	*state.Store
	t *testing.T
}

func newHostClaimWorld(t *testing.T) *hostClaimWorld {
	t.Helper()
	w := &hostClaimWorld{state.New(), t}
	w.write(func(tx *mvcc.WriteTx) {
		err := csi.VolumePut(tx, &structs.CSIVolumeRegisterRequest{Volumes: []*structs.CSIVolume{{
			Namespace: "default", ID: "v",
			CSIVolumeSpec: structs.CSIVolumeSpec{Name: "v", PluginID: "p", ExternalID: "ext-v"},
			CSIVolumeOrigin: structs.CSIVolumeOrigin{
				State: structs.VolumeReady,
				Host:  &structs.CSIHost{Name: "data", NodeID: "n"},
			},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		schema.Jobs.Put(tx, &structs.Job{Namespace: "default", ID: "j"})
	})
	return w
}

func (w *hostClaimWorld) write(do func(*mvcc.WriteTx)) {
	w.t.Helper()
	statetest.Write(w.t, w.Store, func(tx *mvcc.WriteTx) error {
		do(tx)
		return nil
	})
}

func stickyGroup() *structs.TaskGroup {
	return &structs.TaskGroup{Name: "g", Volumes: map[string]*structs.VolumeRequest{
		"d": {Name: "d", Type: structs.VolumeTypeHost, Source: "data", Sticky: true},
	}}
}

// stickyAlloc returns an allocation with an ID that uses the volume with the claim c.
func stickyAlloc(id string) *structs.Allocation {
	return &structs.Allocation{
		ID: id, Namespace: "default", NodeID: "n", JobID: "j", TaskGroup: "g", Name: "j.g[0]",
		CSIVolumes: []structs.CSIVolumeUse{storage.HostVolumeUse("d", stickyGroup().Volumes["d"], "v", "c")},
	}
}

// place puts an allocation with its claim.
func (w *hostClaimWorld) place(a *structs.Allocation) {
	w.t.Helper()
	w.write(func(tx *mvcc.WriteTx) {
		schema.Allocs.Put(tx, a)
		csi.TakeHostClaims(tx, a)
	})
}

func (w *hostClaimWorld) holder(id string) string {
	c := csi.HostClaim(w.Read(), "default", id)
	if c == nil {
		return ""
	}
	return c.AllocID
}

func TestTakeHostClaims_MakesAClaimAndPassesItOn(t *testing.T) {
	w := newHostClaimWorld(t)
	w.place(stickyAlloc("a1"))
	c := *csi.HostClaim(w.Read(), "default", "c")
	c.Indexes = structs.Indexes{}
	want := storage.TaskGroupHostVolumeClaim{
		ID: "c", Namespace: "default", JobID: "j", TaskGroupName: "g", AllocID: "a1", VolumeID: "v",
		VolumeName: "data",
	}
	if c != want {
		t.Errorf("got %+v, want %+v", c, want)
	}
	w.place(stickyAlloc("a2"))
	if got := w.holder("c"); got != "a2" {
		t.Errorf("allocation %q has the claim", got)
	}
}

func TestHostClaimRejection(t *testing.T) {
	for want, edit := range map[string]func(w *hostClaimWorld, a *structs.Allocation, g *structs.TaskGroup){
		"": func(*hostClaimWorld, *structs.Allocation, *structs.TaskGroup) {},
		"no such request": func(_ *hostClaimWorld, _ *structs.Allocation, g *structs.TaskGroup) {
			g.Volumes["d"].Sticky = false
		},
		"no such request for": func(_ *hostClaimWorld, a *structs.Allocation, _ *structs.TaskGroup) {
			a.CSIVolumes[0].Alias = "other"
		},
		"no such request for host": func(_ *hostClaimWorld, _ *structs.Allocation, g *structs.TaskGroup) {
			g.Volumes["d"].Type = structs.VolumeTypeCSI
		},
		"no host volume v any more": func(_ *hostClaimWorld, a *structs.Allocation, _ *structs.TaskGroup) {
			a.NodeID = "m"
		},
		"no host volume v": func(_ *hostClaimWorld, _ *structs.Allocation, g *structs.TaskGroup) {
			g.Volumes["d"].Source = "more"
		},
		"no host volume gone": func(_ *hostClaimWorld, a *structs.Allocation, _ *structs.TaskGroup) {
			a.CSIVolumes[0].VolumeID = "gone"
		},
		"no host volume csi": func(w *hostClaimWorld, a *structs.Allocation, _ *structs.TaskGroup) {
			w.write(func(tx *mvcc.WriteTx) {
				schema.Volumes.Put(tx, &structs.CSIVolume{
					Namespace: "default", ID: "csi",
					CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"},
				})
			})
			a.CSIVolumes[0].VolumeID = "csi"
		},
		"allocation a1 has its claim": func(w *hostClaimWorld, _ *structs.Allocation, _ *structs.TaskGroup) {
			w.place(stickyAlloc("a1"))
		},
		"claim c is that of another": func(w *hostClaimWorld, a *structs.Allocation, _ *structs.TaskGroup) {
			w.place(stickyAlloc("a1"))
			a.TaskGroup = "h"
		},
		"the most sticky claims": func(w *hostClaimWorld, _ *structs.Allocation, _ *structs.TaskGroup) {
			w.fill(storage.MaxHostVolumeClaims)
		},
	} {
		w := newHostClaimWorld(t)
		a := stickyAlloc("a2")
		g := stickyGroup()
		edit(w, a, g)
		got := csi.HostClaimRejection(w.Read(), g, a, nil)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// fill makes a number of claims on the volume.
func (w *hostClaimWorld) fill(n int) {
	w.t.Helper()
	for i := range n {
		w.write(func(tx *mvcc.WriteTx) {
			schema.HostClaims.Put(tx, &storage.TaskGroupHostVolumeClaim{
				ID: fmt.Sprint("f", i), Namespace: "default", JobID: "j", AllocID: "gone", VolumeID: "v",
				VolumeName: "data",
			})
		})
	}
}

// An allocation may also use volumes that no host volume serves, and uses without a claim. Its own claim may
// be that of an allocation that is gone, and stays in a volume that takes no further one.
func TestHostClaimRejection_NotOfOtherVolumes(t *testing.T) {
	w := newHostClaimWorld(t)
	w.place(stickyAlloc("a1"))
	w.write(func(tx *mvcc.WriteTx) { schema.Allocs.Delete(tx, schema.Allocs.Get(tx, "a1")) })
	w.fill(storage.MaxHostVolumeClaims - 1)
	g := stickyGroup()
	plain := *g.Volumes["d"]
	plain.Sticky = false
	g.Volumes["plain"] = &plain
	a := stickyAlloc("a2")
	a.CSIVolumes = append(a.CSIVolumes,
		structs.CSIVolumeUse{VolumeID: "other"}, storage.HostVolumeUse("plain", &plain, "v", ""))
	why := csi.HostClaimRejection(w.Read(), g, a, nil)
	if why != "" {
		t.Errorf("the node rejects: %s", why)
	}
}

func TestHostClaimRejection_NotOfAStoppedHolder(t *testing.T) {
	w := newHostClaimWorld(t)
	w.place(stickyAlloc("a1"))
	why := csi.HostClaimRejection(w.Read(), stickyGroup(), stickyAlloc("a2"), map[string]bool{"a1": true})
	if why != "" {
		t.Errorf("the plan stops the holder, and the node rejects: %s", why)
	}
}

func TestDropHostClaims_DeletesTheClaimsAndUnblocks(t *testing.T) {
	for name, drop := range map[string]func(tx *mvcc.WriteTx) error{
		"with the job": func(tx *mvcc.WriteTx) error {
			csi.DropHostClaimsOfJob(tx, &structs.Job{Namespace: "default", ID: "j"})
			return nil
		},
		"with the volume": func(tx *mvcc.WriteTx) error {
			csi.DropHostClaimsOfVolume(tx, &structs.CSIVolume{Namespace: "default", ID: "v"})
			return nil
		},
		"by an operator": func(tx *mvcc.WriteTx) error {
			return csi.HostVolumeClaimDelete(tx, &storage.ClaimDeleteRequest{ClaimID: "c"})
		},
	} {
		w := newHostClaimWorld(t)
		w.place(stickyAlloc("a1"))
		w.write(func(tx *mvcc.WriteTx) {
			err := drop(tx)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		row := schema.Unblocks.Get(w.Read(), structs.WakeHostVolume("default", "data"))
		if w.holder("c") != "" || row == nil || row.Unblocked() != w.Index() {
			t.Errorf("%s: allocation %q has the claim, and the unblock is %+v", name, w.holder("c"), row)
		}
	}
}

func TestHostClaimDelete_OfNoClaim(t *testing.T) {
	w := newHostClaimWorld(t)
	w.write(func(tx *mvcc.WriteTx) {
		err := csi.HostVolumeClaimDelete(tx, &storage.ClaimDeleteRequest{ClaimID: "none"})
		if !structs.IsKind(err, structs.KindNotFound) {
			t.Errorf("got %v, want not-found", err)
		}
	})
}

func TestDeletedVolume_TakesItsClaimsAlong(t *testing.T) {
	w := newHostClaimWorld(t)
	w.place(stickyAlloc("a1"))
	w.write(func(tx *mvcc.WriteTx) {
		err := csi.VolumeDeregister(tx, &structs.CSIVolumeDeregisterRequest{ID: "v"})
		if err != nil {
			t.Error(err)
		}
	})
	if got := w.holder("c"); got != "" {
		t.Errorf("allocation %q has the claim on a volume that is gone", got)
	}
	if row := schema.Unblocks.Get(w.Read(), structs.WakeHostVolume("default", "data")); row != nil {
		t.Errorf("there is no volume of the name, and the unblock %+v is left", row)
	}
}

func TestCheckHostClaims(t *testing.T) {
	for want, edit := range map[string]func(tx *mvcc.WriteTx){
		"job j is gone": func(tx *mvcc.WriteTx) {
			schema.Jobs.Delete(tx, schema.Jobs.Get(tx, "default", "j"))
		},
		"there is no host volume v": func(tx *mvcc.WriteTx) {
			schema.Volumes.Delete(tx, schema.Volumes.Get(tx, "default", "v"))
		},
		"allocation a1 does not use it": func(tx *mvcc.WriteTx) {
			a := schema.Allocs.Get(tx, "a1").Copy()
			a.CSIVolumes = nil
			schema.Allocs.Put(tx, a)
		},
		"allocation a1 does not use": func(tx *mvcc.WriteTx) {
			a := schema.Allocs.Get(tx, "a1").Copy()
			r := stickyGroup().Volumes["d"]
			a.CSIVolumes = []structs.CSIVolumeUse{storage.HostVolumeUse("d", r, "v", "another")}
			schema.Allocs.Put(tx, a)
		},
		"a1 does not use it": func(tx *mvcc.WriteTx) {
			a := schema.Allocs.Get(tx, "a1").Copy()
			r := stickyGroup().Volumes["d"]
			a.CSIVolumes = []structs.CSIVolumeUse{storage.HostVolumeUse("d", r, "another", "c")}
			schema.Allocs.Put(tx, a)
		},
		"which allocation a1 has": func(tx *mvcc.WriteTx) { schema.Allocs.Put(tx, stickyAlloc("a2")) },
		"has no ID or no allocation": func(tx *mvcc.WriteTx) {
			c := *csi.HostClaim(tx, "default", "c")
			c.AllocID = ""
			schema.HostClaims.Put(tx, &c)
		},
	} {
		w := newHostClaimWorld(t)
		w.place(stickyAlloc("a1"))
		w.write(edit)
		got := strings.Join(state.Check(w.Read()), "\n")
		if !strings.Contains(got, want) {
			t.Errorf("got %s\nwant %q", got, want)
		}
	}

	w := newHostClaimWorld(t)
	w.fill(storage.MaxHostVolumeClaims + 1)
	want := fmt.Sprintf("host volume v has %d sticky claims", storage.MaxHostVolumeClaims+1)
	if got := strings.Join(state.Check(w.Read()), "\n"); !strings.Contains(got, want) {
		t.Errorf("got %s\nwant %q", got, want)
	}
}

// A claim may be deleted under its allocation, and an allocation that has ended keeps the use of a claim that
// another one has.
func TestCheckHostClaims_AcceptsUsesWithoutTheirClaim(t *testing.T) {
	w := newHostClaimWorld(t)
	w.place(stickyAlloc("a1"))
	w.write(func(tx *mvcc.WriteTx) {
		ended := schema.Allocs.Get(tx, "a1").Copy()
		ended.ClientStatus = structs.AllocComplete
		schema.Allocs.Put(tx, ended)
	})
	w.place(stickyAlloc("a2"))
	w.write(func(tx *mvcc.WriteTx) {
		a := stickyAlloc("a3")
		a.CSIVolumes[0].Claim = "deleted"
		schema.Allocs.Put(tx, a)
	})
	for _, fault := range state.Check(w.Read()) {
		if strings.Contains(fault, "sticky claim") {
			t.Error(fault)
		}
	}
}
