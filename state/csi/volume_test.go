package csi_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"berth/state/csi"
	"berth/structs"
)

func TestVolumePut_RejectsFixedFields(t *testing.T) {
	full := func(v *structs.CSIVolume) {
		v.CloneID, v.Parameters = "source", map[string]string{"a": "b"}
		v.Topologies = []*structs.CSITopology{{Segments: map[string]string{"zone": "1"}}}
		v.RequestedCapacityMin = 10
		v.RequestedCapacityMax = 20
		v.Capacity = 12
		v.RequestedCapabilities = []*structs.CSIVolumeCapability{
			{AccessMode: snw, AttachmentMode: structs.CSIFileSystem},
			{AccessMode: mnr, AttachmentMode: structs.CSIFileSystem},
		}
		v.MountOptions = &structs.CSIMountOptions{FSType: "ext4"}
	}
	for _, c := range []struct {
		says   string
		change func(*structs.CSIVolume)
	}{
		{"Name", func(v *structs.CSIVolume) { v.Name = "x" }},
		{"ExternalName", func(v *structs.CSIVolume) { v.ExternalName = "x" }},
		{"PluginID", func(v *structs.CSIVolume) { v.PluginID = "x" }},
		{"ExternalID", func(v *structs.CSIVolume) { v.ExternalID = "x" }},
		{"CloneID", func(v *structs.CSIVolume) { v.CloneID = "x" }},
		{"SnapshotID", func(v *structs.CSIVolume) { v.SnapshotID = "x" }},
		{"Parameters", func(v *structs.CSIVolume) { v.Parameters = map[string]string{} }},
		{"RequestedTopologies",
			func(v *structs.CSIVolume) { v.RequestedTopologies = &structs.CSITopologyRequest{} }},
		{"capacity_min can only grow", func(v *structs.CSIVolume) { v.RequestedCapacityMin = 9 }},
		{"capacity_max", func(v *structs.CSIVolume) { v.RequestedCapacityMax = 11 }},
		{"a capability block must keep",
			func(v *structs.CSIVolume) { v.RequestedCapabilities = v.RequestedCapabilities[1:] }},
		{"mount_options", func(v *structs.CSIVolume) { v.MountOptions.FSType = "xfs" }},
		{"has changed since it was read", func(v *structs.CSIVolume) { v.ModifyIndex = 3 }},
	} {
		w := threeNodes(t, false)
		do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{ID: "v", WriteOptions: w.Now()})
		w.MustPut(full)
		w.Claim(aClaim("v", "a1", wr, snw))
		row := csi.Volume(w.Store.Read(), "default", "v")
		err := w.TryPut(full, c.change)
		if !structs.IsKind(err, structs.KindConflict) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("got error %v, want a conflict with %q", err, c.says)
		}
		if csi.Volume(w.Store.Read(), "default", "v") != row {
			t.Errorf("%s: the row was put", c.says)
		}
		if err := w.TryPut(full); err != nil ||
			csi.Volume(w.Store.Read(), "default", "v") != row {
			t.Errorf("the same volume was put again, or: %v", err)
		}
	}
}

// A registered volume may have one name, which is that at the plugin.
func TestVolumePut_AcceptsTheNameOfARowAsTheOneAtThePlugin(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.Name = "payroll" })
	err := w.TryPut(func(v *structs.CSIVolume) { v.Name, v.ExternalName = "payroll", "payroll" })
	if err != nil || csi.Volume(w.Store.Read(), "default", "v").NameAtPlugin() != "payroll" {
		t.Errorf("got error %v", err)
	}
}

func TestVolumePut_ChangesAndKeepsFields(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) {
		v.Secrets = structs.Secrets{"k": "v"}
		v.Context = map[string]string{"c": "x"}
		v.Parameters = map[string]string{"a": "b"}
		v.Trim = new(time.Hour)
		v.MountOptions = &structs.CSIMountOptions{FSType: "ext4", MountFlags: []string{"password=x"}}
		v.RequestedCapacityMin, v.Capacity = 10, 12
	})
	v := w.MustPut(func(v *structs.CSIVolume) {
		v.Name, v.ExternalID = "", ""
		v.MountOptions = &structs.CSIMountOptions{FSType: "xfs", MountFlags: []string{"[REDACTED]"}}
		v.RequestedCapacityMin = 11
	})
	if v.Name != "v" || v.ExternalID != "ext-v" ||
		v.Secrets["k"] != "v" || v.Context["c"] != "x" ||
		v.Parameters["a"] != "b" || v.Trim == nil || *v.Trim != time.Hour ||
		v.MountOptions.FSType != "xfs" || v.MountOptions.MountFlags[0] != "password=x" || v.Capacity != 12 ||
		v.ExpandPending {
		t.Errorf("the volume is %+v", v)
	}
	v = w.MustPut(func(v *structs.CSIVolume) {
		v.Secrets, v.Context = structs.Secrets{"new": "n"}, map[string]string{"c": "y"}
		v.Trim = new(time.Duration(0))
	})
	if *v.Trim != 0 {
		t.Errorf("it is trimmed every %s, and the request says never", *v.Trim)
	}
	if len(v.Secrets) != 1 || v.Secrets["new"] != "n" ||
		v.Context["c"] != "y" {
		t.Errorf("got secrets %v and context %v", map[string]string(v.Secrets), v.Context)
	}
	v = w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 20 })
	if !v.ExpandPending || len(collect(csi.UnsettledVolumes(w.Store.Read()))) != 1 {
		t.Error("a request above the capacity requests no expansion")
	}
	read := v.Copy()
	read.RequestedCapacityMax = 50
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{read},
		WriteOptions: w.Now(),
	}) // at the index it was read
	wantKind(t, try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{read},
		WriteOptions: w.Now(),
	}), structs.KindConflict)
}

func collect[T any](rows func(func(*T) bool)) (out []*T) {
	for r := range rows {
		out = append(out, r)
	}
	return out
}

// fill sets each field of a struct to a value that is not its zero.
func fill(t *testing.T, s reflect.Value) {
	t.Helper()
	for f, v := range s.Fields() {
		switch v.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Int, reflect.Int64:
			v.SetInt(7)
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
		case reflect.Map:
			v.Set(reflect.ValueOf(map[string]string{"k": "v"}))
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		default:
			t.Fatalf("%s is of kind %s, which the test does not fill", f.Name, v.Kind())
		}
	}
}

// A new field of the origin or the status is kept without a line for it.
func TestAsStored_TakesOriginAndStatusOfTheStoredVolume(t *testing.T) {
	old := aVolume("v", "p")
	fill(t, reflect.ValueOf(&old.CSIVolumeOrigin).Elem())
	fill(t, reflect.ValueOf(&old.CSIVolumeStatus).Elem())
	given := aVolume("v", "p")
	given.JobID = "another"
	given.Call = &structs.CSICall{NodeID: "another"}
	got := csi.AsStored(given, old)
	if !reflect.DeepEqual(got.CSIVolumeOrigin, old.CSIVolumeOrigin) {
		t.Errorf("got the origin %+v, want %+v", got.CSIVolumeOrigin, old.CSIVolumeOrigin)
	}
	if !reflect.DeepEqual(got.CSIVolumeStatus, old.CSIVolumeStatus) {
		t.Errorf("got the status %+v, want %+v", got.CSIVolumeStatus, old.CSIVolumeStatus)
	}
}

func TestVolumePut_KeepsTheOriginOfANewVolumeAndNoStatus(t *testing.T) {
	w := newFixture(t)
	given := aVolume("v", "p")
	given.Capacity = 5
	given.JobID = "j"
	given.MutableParameters = map[string]string{"iops": "1"}
	fill(t, reflect.ValueOf(&given.CSIVolumeStatus).Elem())
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{given},
		WriteOptions: w.Now(),
	})
	got := csi.Volume(w.Store.Read(), given.Namespace, "v")
	if got.Capacity != 5 || got.JobID != "j" {
		t.Errorf("got the origin %+v", got.CSIVolumeOrigin)
	}
	want := structs.CSIVolumeStatus{AppliedParameters: given.MutableParameters}
	if !reflect.DeepEqual(got.CSIVolumeStatus, want) {
		t.Errorf("got the status %+v, want %+v", got.CSIVolumeStatus, want)
	}
}

func TestVolumePut_Expands(t *testing.T) {
	w := newFixture(t)
	w.MustPut(func(v *structs.CSIVolume) { v.Capacity = 10 })
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 100 })
	if v := w.FinishCall("expand", &structs.OperationError{Message: "busy"}, false); !v.ExpandPending ||
		v.LastError.Attempts != 1 {
		t.Errorf("the expansion is not tried again: %+v", v)
	}
	if v := w.FinishCall("expand", nil, false); v.ExpandPending ||
		v.Capacity != 100 || v.LastError != nil {
		t.Errorf("the volume is %+v", v)
	}
	w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 500 })
	if v := w.FinishCall("expand", &structs.OperationError{Message: "too much"}, true); v.ExpandPending ||
		v.RequestedCapacityMin != 100 || v.LastError == nil {
		t.Errorf("a rejected size is not cancelled: %+v", v)
	}
	if v := w.MustPut(func(v *structs.CSIVolume) { v.RequestedCapacityMin = 200 }); !v.ExpandPending {
		t.Error("a smaller size is not requested")
	}
}

func TestVolumePut_OneNamePerExternalVolume(t *testing.T) {
	w := newFixture(t)
	w.MustPut()
	second := aVolume("second", "p")
	second.ExternalID = "ext-v"
	err := try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{second},
		WriteOptions: w.Now(),
	})
	if !structs.IsKind(err, structs.KindConflict) ||
		!strings.Contains(err.Error(), `as volume "v"`) {
		t.Error(err)
	}
	second.PluginID = "q" // another plugin may use the same ID for something else
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
		Volumes:      []*structs.CSIVolume{second},
		WriteOptions: w.Now(),
	})
}

func TestVolumeOutcome_OfACreation(t *testing.T) {
	no := &structs.OperationError{Message: "the pool is full", Kind: structs.KindUnavailable}
	for name, test := range map[string]func(*testing.T, *fixture){
		"succeeds": func(t *testing.T, w *fixture) {
			w.Blocked("waits", structs.WakeVolume("default", "v"))
			if v := w.FinishCall("create", nil, false); v.State != structs.VolumeReady || v.ExternalID != "made" ||
				v.Capacity != 100 ||
				v.Context["c"] != "x" || len(v.Topologies) != 1 || len(collect(csi.UnsettledVolumes(w.Store.Read()))) != 0 {
				t.Errorf("the volume is %+v", v)
			}
			w.WantEval("blocked-waits", structs.EvalPending)
		},
		"is tried again": func(t *testing.T, w *fixture) {
			w.FinishCall("create", no, false)
			v := w.FinishCall("create", no, false)
			if v.State != structs.VolumeCreating || v.LastError.Attempts != 2 ||
				v.LastError.Message != no.Message {
				t.Errorf("after the second error: %+v", v)
			}
			if v := w.FinishCall("create", nil, false); v.State != structs.VolumeReady || v.LastError != nil {
				t.Errorf("the volume is %+v", v)
			}
		},
		"fails, is corrected and tried again": func(t *testing.T, w *fixture) {
			v := w.FinishCall("create", no, true)
			if v.State != structs.VolumeFailed || v.LastError.Message != no.Message {
				t.Errorf("after the final error: %+v", v)
			}
			v = w.MustPut(creating, func(v *structs.CSIVolume) {
				v.Parameters = map[string]string{"pool": "other"}
				v.PluginID = "q"
			})
			if v.State != structs.VolumeCreating || v.LastError != nil || v.Parameters["pool"] != "other" ||
				csi.Plugin(w.Store.Read(), "p") != nil {
				t.Errorf("the volume is %+v", v)
			}
		},
		"fails and is deleted at once": func(t *testing.T, w *fixture) {
			w.FinishCall("create", no, true)
			do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
			if csi.Volume(w.Store.Read(), "default", "v") != nil {
				t.Error("a volume that was never created keeps its row")
			}
		},
		"ends after the request to delete": func(t *testing.T, w *fixture) {
			do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
			if v := w.FinishCall("create", nil, false); v.State != structs.VolumeDeleting || v.ExternalID != "made" {
				t.Errorf("the volume to delete is not recorded: %+v", v)
			}
		},
		"returns the ID of another volume": func(t *testing.T, w *fixture) {
			other := aVolume("other", "p")
			other.ExternalID = "made"
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{other},
				WriteOptions: w.Now(),
			})
			if v := w.FinishCall("create", nil, false); v.State != structs.VolumeFailed || v.ExternalID != "" ||
				!strings.Contains(v.LastError.Message, `volume "other"`) {
				t.Errorf("the volume is %+v", v)
			}
		},
		"ends after the request to delete, with the ID of another volume": func(t *testing.T, w *fixture) {
			other := aVolume("other", "p")
			other.ExternalID = "made"
			do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{other},
				WriteOptions: w.Now(),
			})
			do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
			if v := w.FinishCall("create", nil, false); v != nil {
				t.Errorf("a deletion would destroy the other volume: %+v", v)
			}
		},
		"rejects a deregistration meanwhile": func(t *testing.T, w *fixture) {
			err := try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID: "v", WriteOptions: w.Now(),
			})
			wantKind(t, err, structs.KindPrecondition)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.MustPut(creating)
			if len(collect(csi.UnsettledVolumes(w.Store.Read()))) != 1 {
				t.Fatal("the leader does not create the volume")
			}
			test(t, w)
		})
	}
}

func TestVolumeOutcome_OfADeletion(t *testing.T) {
	w := newFixture(t)
	w.MustPut()
	own := csi.Volume(w.Store.Read(), "default", "v").Secrets
	for _, text := range []string{"wrong", "for the deletion"} {
		do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{
			ID:           "v",
			Secrets:      structs.Secrets{"k": text},
			WriteOptions: w.Now(),
		})
	}
	if v := w.FinishCall("delete", &structs.OperationError{Message: "busy"},
		false); v.State != structs.VolumeDeleting || v.LastError.Attempts != 1 ||
		v.Secrets["k"] != "for the deletion" {
		t.Errorf("the volume is %+v", v)
	}
	wantKind(t, w.TryPut(), structs.KindPrecondition)
	if v := w.FinishCall("delete", &structs.OperationError{Message: "it has snapshots"},
		true); v.State != structs.VolumeReady || v.LastError == nil ||
		v.Secrets["k"] != own["k"] || len(v.Secrets) != len(own) || v.Deletion != nil {
		t.Errorf("after a final error the volume is %+v, want the state of before", v)
	}
	do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
	if v := w.FinishCall("create", nil, false); v.State != structs.VolumeDeleting ||
		v.ExternalID != "ext-v" {
		t.Errorf("an outcome of another operation changed the volume: %+v", v)
	}
	if v := w.FinishCall("delete", nil, false); v != nil ||
		csi.Plugin(w.Store.Read(), "p") != nil {
		t.Errorf("the volume is %+v", v)
	}
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID:           "v",
		Op:           "delete",
		WriteOptions: w.Now(),
	}) // once more
	wantKind(t, try(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v"}), structs.KindNotFound)
	err := try(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{ID: "v", Op: "unknown"})
	wantKind(t, err, structs.KindInvalid)
}

func TestVolumeDeregister_RejectsAVolumeInUse(t *testing.T) {
	for _, c := range []struct {
		name   string
		attach bool
		use    func(*fixture)
		says   string // in the errors of both requests
		force  structs.Kind
	}{
		{"written to", false, func(w *fixture) { w.Claim(aClaim("v", "a1", wr, snw)) }, "claimed by allocation a1",
			structs.KindPrecondition},
		{"read", false, func(w *fixture) { w.Claim(aClaim("v", "a1", rd, snr)) }, "claimed by allocation a1",
			structs.KindPrecondition},
		{"by an ended allocation that has not released it", true, func(w *fixture) {
			w.Claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
			w.Client("n1", "a1", structs.AllocComplete)
		}, "claimed by allocation a1, a2", structs.KindPrecondition},
		{"only waited for", true, func(w *fixture) {
			w.Claim(aClaim("v", "a1", wr, snw))
			w.Release("v", "a1")
			w.Claim(aClaim("v", "a2", wr, snw))
		}, "claimed by allocation a2", ""},
		{"by a lost allocation on a known node", false, func(w *fixture) {
			w.Claim(aClaim("v", "a1", wr, snw))
			w.Status(structs.NodeDown, "n1")
			w.Stop("a1", structs.AllocLost)
		}, "claimed by allocation a1", structs.KindPrecondition},
		{"still attached", true, func(w *fixture) {
			w.Claim(aClaim("v", "a1", wr, snw))
			w.Release("v", "a1")
		}, "still being detached from node name-n1", ""},
		{"not at all", false, func(*fixture) {}, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := threeNodes(t, c.attach)
			c.use(w)
			want := structs.KindPrecondition
			if c.says == "" {
				want = ""
			}
			if want != "" {
				err := try(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
				wantKind(t, err, want)
			}
			err := try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID: "v", WriteOptions: w.Now(),
			})
			wantKind(t, err, want)
			if err == nil {
				return
			}
			if !strings.Contains(err.Error(), c.says) {
				t.Errorf("got error %v, want %q in it", err, c.says)
			}
			attached := w.Attachment("v", "n1")
			err = try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID:           "v",
				Force:        true,
				WriteOptions: w.Now(),
			})
			wantKind(t, err, c.force)
			gone := csi.Volume(w.Store.Read(), "default", "v") == nil
			if gone != (c.force == "") {
				t.Errorf("after force: deleted %t, want %t", gone, c.force == "")
			}
			if c.force == "" && attached != "" && w.Attachment("v", "n1") != structs.AttachmentDetaching {
				t.Errorf("after force the attachment is %q, want detaching", w.Attachment("v", "n1"))
			}
		})
	}
}

// A late deletion would destroy the volume after it was registered again. An entry of an earlier version
// waits for no call.
func TestVolumeDeregister_KeepsACallThatMayStillTakeEffect(t *testing.T) {
	for name, c := range map[string]struct {
		settle  time.Duration
		now     int64
		waits   bool
		deletes bool // the volume is being deleted
		force   bool
	}{
		"in a ready volume":          {settle: 10, now: 1009, waits: true},
		"whoever sent it":            {settle: 10, now: 1009, waits: true, deletes: true, force: true},
		"until it has settled":       {settle: 10, now: 1010},
		"and then by force":          {settle: 10, now: 1010, deletes: true, force: true},
		"not for an earlier version": {now: 1009, deletes: true, force: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := threeNodes(t, false)
			op := "expand"
			if c.deletes {
				op = "delete"
				do(w, csi.VolumeDelete, &structs.CSIVolumeDeleteRequest{ID: "v", WriteOptions: w.Now()})
			}
			w.NoteCall("", &structs.CSICall{NodeID: "n3", Op: op, Time: 1000})
			err := try(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
				ID:           "v",
				Force:        c.force,
				Settle:       c.settle,
				WriteOptions: structs.WriteOptions{Now: c.now},
			})
			v := w.VolumeRow()
			if !c.waits {
				if err != nil || v != nil {
					t.Errorf("got %v and volume %+v", err, v)
				}
				return
			}
			wantKind(t, err, structs.KindPrecondition)
			why := "on node name-n3 has given no final answer to the last call (" + op + ")"
			if err != nil && !strings.Contains(err.Error(), why) {
				t.Errorf("the error does not name the call: %v", err)
			}
			if v == nil || v.Call == nil {
				t.Errorf("got volume %+v, want its call", v)
			}
		})
	}
}
