package namespace_test

import (
	"testing"

	"berth/state/csi"
	"berth/state/namespace"
	"berth/state/statetest"
	"berth/structs"
	"berth/structs/quota"
	"berth/structs/storage"
)

func TestQuota_CountsVolumesFromTheRequestOn(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{Storage: &quota.StorageBound{Volumes: 10}})
	w.name("team", "a")
	v := statetest.Volume("v", "p")
	v.Namespace = "a"
	v.ExternalID = ""
	v.State = structs.VolumeCreating
	v.RequestedCapacityMax = 70
	w.putVolume(v)
	w.wantUsed(quota.KindVolumes, 1)
	w.wantUsed(quota.KindBytes, 70) // it may get as much
	do(w, csi.VolumeOutcome, &structs.CSIVolumeOutcome{
		ID: "v", Op: "create", ExternalID: "e", Capacity: 60,
		WriteOptions: structs.WriteOptions{Namespace: "a"},
	})
	w.wantUsed(quota.KindBytes, 60)
	v.RequestedCapacityMin = 65
	w.putVolume(v)
	w.wantUsed(quota.KindBytes, 65) // the expansion is requested
	if got := w.used(quota.KindBytes+" of plugin", "p"); got != 65 {
		t.Errorf("the plugin has %d bytes, want 65", got)
	}
	do(w, csi.VolumeDeregister, &structs.CSIVolumeDeregisterRequest{
		ID: "v", WriteOptions: structs.WriteOptions{Namespace: "a"},
	})
	w.wantUsed(quota.KindVolumes, 0)
	w.wantUsed(quota.KindBytes, 0)
}

func (w *fixture) putVolume(vs ...*structs.CSIVolume) {
	w.T.Helper()
	do(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{Volumes: vs, WriteOptions: w.Now()})
}

// classes stores classes of the plugin p.
func (w *fixture) classes(names ...string) {
	w.T.Helper()
	for _, name := range names {
		do(w, csi.ClassPut, &storage.ClassPutRequest{Class: &storage.VolumeClass{Name: name, PluginID: "p"}})
	}
}

func TestQuota_RejectsVolumes(t *testing.T) {
	of := func(v quota.VolumeBound) *quota.StorageBound {
		v.Kind = quota.OfPlugin
		v.Name = "p"
		return &quota.StorageBound{Of: []*quota.VolumeBound{&v}}
	}
	ofClass := func(v quota.VolumeBound) *quota.StorageBound {
		v.Kind = quota.OfClass
		v.Name = "fast"
		return &quota.StorageBound{Of: []*quota.VolumeBound{&v}}
	}
	for name, c := range map[string]struct {
		bounds quota.StorageBound
		change func(v *structs.CSIVolume) // of the second volume, 100 bytes
		want   string                     // "" if it is stored
	}{
		"within all bounds": {quota.StorageBound{Volumes: 2, VolumeBytes: 200}, nil, ""},
		"too many":          {quota.StorageBound{Volumes: 1}, nil, "quota team: volumes: 1 used, 1 asked, 1 allowed"},
		"none allowed":      {quota.StorageBound{Volumes: -1}, nil, "volumes: 1 used, 1 asked, 0 allowed"},
		"too large": {
			quota.StorageBound{VolumeBytes: 199}, nil,
			"volume bytes: 100 B used, 100 B asked, 199 B allowed",
		},
		"too many of a plugin":  {*of(quota.VolumeBound{Volumes: 1}), nil, "volumes of plugin p: 1 used"},
		"too large of a plugin": {*of(quota.VolumeBound{Bytes: 199}), nil, "volume bytes of plugin p: 100 B used"},
		"of another plugin": {
			*of(quota.VolumeBound{Volumes: 1, Bytes: 100}),
			func(v *structs.CSIVolume) { v.PluginID = "q"; v.Class = "" }, "",
		},
		"too many of a class": {
			*ofClass(quota.VolumeBound{Volumes: 1}), nil,
			"quota team: volumes of class fast: 1 used, 1 asked, 1 allowed",
		},
		"none of a class": {*ofClass(quota.VolumeBound{Volumes: -1}), nil, "volumes of class fast: 1 used"},
		"too large of a class": {
			*ofClass(quota.VolumeBound{Bytes: 199}), nil,
			"volume bytes of class fast: 100 B used, 100 B asked, 199 B allowed",
		},
		"within the bounds of a class": {*ofClass(quota.VolumeBound{Volumes: 2, Bytes: 200}), nil, ""},
		"of another class": {
			*ofClass(quota.VolumeBound{Volumes: 1, Bytes: 100}),
			func(v *structs.CSIVolume) { v.Class = "slow" }, "",
		},
		"of no class": {
			*ofClass(quota.VolumeBound{Volumes: 1, Bytes: 100}),
			func(v *structs.CSIVolume) { v.Class = "" }, "",
		},
		"too heavy": {
			quota.StorageBound{VolumeBytes: 399},
			func(v *structs.CSIVolume) { v.QuotaWeight = 3 },
			"volume bytes: 100 B used, 300 B asked, 399 B allowed",
		},
		"too heavy for the range of a sum": {
			quota.StorageBound{VolumeBytes: 1000},
			func(v *structs.CSIVolume) { v.RequestedCapacityMin = 1 << 60; v.QuotaWeight = 1 << 12 },
			"volume bytes: 100 B used, 4.0 PiB asked",
		},
		"as heavy as allowed": {
			quota.StorageBound{VolumeBytes: 400},
			func(v *structs.CSIVolume) { v.QuotaWeight = 3 }, "",
		},
		"heavy, in the bounds of its class": {
			*ofClass(quota.VolumeBound{Bytes: 200}),
			func(v *structs.CSIVolume) { v.QuotaWeight = 3 }, "",
		},
		"of unknown size in a class": {
			*ofClass(quota.VolumeBound{Bytes: 1000}),
			func(v *structs.CSIVolume) { v.RequestedCapacityMin = 0 }, "give capacity_min",
		},
		"of unknown size in a class without a bound": {
			*ofClass(quota.VolumeBound{Volumes: 10}),
			func(v *structs.CSIVolume) { v.RequestedCapacityMin = 0 }, "",
		},
		"of unknown size": {
			quota.StorageBound{VolumeBytes: 1000},
			func(v *structs.CSIVolume) { v.RequestedCapacityMin = 0 }, "give capacity_min",
		},
		"of unknown size without a bound": {
			quota.StorageBound{Volumes: 10},
			func(v *structs.CSIVolume) { v.RequestedCapacityMin = 0 }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			w.name("", "a")
			w.classes("fast", "slow")
			var all []*structs.CSIVolume
			for _, id := range []string{"v1", "v2"} {
				v := statetest.Volume(id, "p")
				v.Class = "fast"
				v.Namespace = "a"
				v.ExternalID = ""
				v.State = structs.VolumeCreating
				v.RequestedCapacityMin = 100
				all = append(all, v)
			}
			w.putVolume(all[0])
			w.quota(&quota.Bounds{Storage: &c.bounds})
			w.name("team", "a")
			if c.change != nil {
				c.change(all[1])
			}
			err := try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
				Volumes: all[1:], WriteOptions: w.Now(),
			})
			if c.want == "" && err != nil {
				t.Error(err)
			}
			if c.want != "" {
				statetest.WantRejected(t, err, structs.KindPrecondition, c.want, `volume "v2"`)
			}
		})
	}
}

func TestQuota_RejectsAnExpansion(t *testing.T) {
	w := newFixture(t)
	w.quota(&quota.Bounds{Storage: &quota.StorageBound{VolumeBytes: 150}})
	w.name("team", "a")
	v := statetest.Volume("v", "p")
	v.Namespace = "a"
	v.RequestedCapacityMin = 100
	w.putVolume(v)
	larger := v.Copy()
	larger.RequestedCapacityMin = 151
	put := func(v *structs.CSIVolume) error {
		return try(w, csi.VolumePut, &structs.CSIVolumeRegisterRequest{
			Volumes: []*structs.CSIVolume{v}, WriteOptions: w.Now(),
		})
	}
	statetest.WantRejected(t, put(larger), structs.KindPrecondition, "100 B used, 51 B asked, 150 B allowed")
	larger.RequestedCapacityMin = 150
	if err := put(larger); err != nil {
		t.Error(err)
	}

	// A lower bound ends nothing, and other changes of the volume pass.
	w.quota(&quota.Bounds{Storage: &quota.StorageBound{VolumeBytes: 10, Volumes: -1}})
	larger.MountOptions = &structs.CSIMountOptions{FSType: "ext4"}
	if err := put(larger); err != nil {
		t.Error(err)
	}
}

func TestQuota_RejectsFaultyBoundsOfVolumes(t *testing.T) {
	for want, of := range map[string][]*quota.VolumeBound{
		`the kind of a bound is "node"; expected one of plugin, class`: {{Kind: "node", Name: "n"}},
		`class "fast" is bounded twice`:                                {{Kind: quota.OfClass, Name: "fast"}, {Kind: quota.OfClass, Name: "fast"}},
		`class "fast": volumes is -2`:                                  {{Kind: quota.OfClass, Name: "fast", Volumes: -2}},
		`class "fast": bytes is -2`:                                    {{Kind: quota.OfClass, Name: "fast", Bytes: -2}},
		`class is required`:                                            {{Kind: quota.OfClass}},
		`plugin: expected a bound, found null`:                         {nil},
		"":                                                             {{Kind: quota.OfClass, Name: "p"}, {Kind: quota.OfPlugin, Name: "p"}},
	} {
		w := newFixture(t)
		err := try(w, namespace.QuotaPut, aQuota("team", &quota.Bounds{Storage: &quota.StorageBound{Of: of}}))
		if want == "" && err != nil {
			t.Error(err)
		}
		if want != "" {
			statetest.WantRejected(t, err, structs.KindInvalid, want)
		}
	}
}
