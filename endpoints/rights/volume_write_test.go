package rights_test

import (
	"testing"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
)

type volumeSpec = structs.CSIVolumeSpec

func volumeOf(id string, spec volumeSpec) structs.CSIVolume {
	return structs.CSIVolume{ID: id, CSIVolumeSpec: spec}
}

// A volume of the caller gives no way to the data of others.
func TestVolumeWrite_AsksForTheDataOfTheVolume(t *testing.T) {
	db := mvcc.Open(&schema.All)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		for _, v := range []*structs.CSIVolume{
			{
				Namespace: "team", ID: "own",
				CSIVolumeSpec: structs.CSIVolumeSpec{
					PluginID: "p", ExternalID: "ext-own", Context: map[string]string{"a": "b"},
				},
			},
			{
				Namespace: "team", ID: "sealed",
				CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-sealed"},
			},
			{
				Namespace: "team", ID: "copied",
				CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-copied"},
			},
			{
				Namespace: "team", ID: "failed",
				CSIVolumeSpec:   structs.CSIVolumeSpec{PluginID: "p", ExternalName: "failed-1"},
				CSIVolumeOrigin: structs.CSIVolumeOrigin{State: structs.VolumeFailed},
			},
			{
				Namespace: "team", ID: "ext-theirs",
				CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-trap"},
			},
			{
				Namespace: "theirs", ID: "db",
				CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", ExternalID: "ext-theirs"},
			},
			{Namespace: "theirs", ID: "new", CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p"}},
		} {
			schema.Volumes.Put(tx, v)
		}
		schema.VolumeClasses.Put(tx, &storage.VolumeClass{
			Name:        "fast",
			PluginID:    "p",
			SecretsFrom: "classes/{namespace}/{id}",
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	may := func(rules string, v structs.CSIVolume) bool {
		p, err := acl.Parse("p", rules)
		if err != nil {
			t.Fatal(err)
		}
		if v.Class == "" {
			v.PluginID = "p"
		}
		return rights.VolumeWrite.Allows(rights.Question{
			Caller: rights.Caller{ACL: acl.New(p)},
			Tx:     db.Read(),
			Req: &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{nil, &v},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		})
	}

	write := `namespace "team" {
  policy = "write"
  volume "sealed" { capabilities = ["read", "write"] }
  volume "copied" { capabilities = ["snapshot"] }
  variables {
    path "app/*" { capabilities = ["read"] }
    path "written" { capabilities = ["write"] }
  }
}`
	force := write + "\n" + `namespace "team" { capabilities = ["csi-force-volume"] }`
	for name, c := range map[string]struct {
		volume        structs.CSIVolume
		writes, force bool
	}{
		"a new volume":             {structs.CSIVolume{ID: "v"}, true, true},
		"one of another namespace": {structs.CSIVolume{ID: "db", Namespace: "theirs"}, false, false},
		"a volume without write":   {structs.CSIVolume{ID: "copied"}, false, false},
		"a clone of an own volume": {volumeOf("v", volumeSpec{CloneID: "own"}), true, true},
		"a clone in a class":       {volumeOf("v", volumeSpec{Class: "fast", CloneID: "own"}), true, true},
		"a clone of others in a class": {
			volumeOf("v", volumeSpec{Class: "fast", CloneID: "ext-theirs"}), false, false,
		},
		"a clone by a right of its own": {volumeOf("v", volumeSpec{CloneID: "copied"}), true, true},
		"a clone without snapshot":      {volumeOf("v", volumeSpec{CloneID: "sealed"}), false, false},
		"a clone by an external ID":     {volumeOf("v", volumeSpec{CloneID: "ext-own"}), true, true},
		"a clone of another namespace":  {volumeOf("v", volumeSpec{CloneID: "ext-theirs"}), false, false},
		"a clone of no volume":          {volumeOf("v", volumeSpec{CloneID: "ext-none"}), false, true},
		"a clone of one not made yet":   {volumeOf("v", volumeSpec{CloneID: "failed"}), false, true},
		"a clone for a failed volume":   {volumeOf("failed", volumeSpec{CloneID: "ext-theirs"}), false, false},
		"a clone that is there":         {volumeOf("own", volumeSpec{CloneID: "ext-theirs"}), true, true},
		"a snapshot":                    {volumeOf("v", volumeSpec{SnapshotID: "s"}), false, true},
		"an external ID":                {volumeOf("v", volumeSpec{ExternalID: "ext-none"}), false, true},
		"the same external ID":          {volumeOf("own", volumeSpec{ExternalID: "ext-own"}), true, true},
		"another external ID":           {volumeOf("own", volumeSpec{ExternalID: "ext-none"}), false, true},
		"an external ID after a failure": {
			volumeOf("failed", volumeSpec{ExternalID: "ext-none"}), false, true,
		},
		"a name at the plugin":       {volumeOf("v", volumeSpec{ExternalName: "db"}), false, true},
		"the same name at it":        {volumeOf("failed", volumeSpec{ExternalName: "failed-1"}), true, true},
		"another name after failure": {volumeOf("failed", volumeSpec{ExternalName: "db"}), false, true},
		"a label":                    {volumeOf("v", volumeSpec{Name: "db"}), true, true},

		"the same context":  {volumeOf("own", volumeSpec{Context: map[string]string{"a": "b"}}), true, true},
		"another context":   {volumeOf("own", volumeSpec{Context: map[string]string{"a": "c"}}), false, true},
		"a readable secret": {volumeOf("v", volumeSpec{SecretsFrom: "app/db"}), true, true},
		"a written secret":  {volumeOf("v", volumeSpec{SecretsFrom: "written"}), false, false},
		"an unknown secret": {volumeOf("v", volumeSpec{SecretsFrom: "theirs"}), false, false},
		"the secret of its class": {
			volumeOf("v", volumeSpec{Class: "fast", SecretsFrom: "classes/team/v"}), true, true,
		},
		"another secret in a class": {
			volumeOf("v", volumeSpec{Class: "fast", SecretsFrom: "classes/team/w"}), false, false,
		},
		"the secret of a class without it": {
			volumeOf("v", volumeSpec{SecretsFrom: "classes/team/v"}), false, false,
		},
	} {
		if got := may(write, c.volume); got != c.writes {
			t.Errorf("%s with write: got %t, want %t", name, got, c.writes)
		}
		if got := may(force, c.volume); got != c.force {
			t.Errorf("%s with force: got %t, want %t", name, got, c.force)
		}
	}
}

// A right to expand gives a larger capacity, and no other change.
func TestVolumeWrite_OfOneWhoMayExpand(t *testing.T) {
	stored := structs.CSIVolume{
		Namespace: "team", ID: "db",
		CSIVolumeSpec: structs.CSIVolumeSpec{
			PluginID:              "p",
			Name:                  "db-1",
			ExternalID:            "ext-db",
			RequestedCapacityMin:  1 << 30,
			RequestedCapacityMax:  4 << 30,
			SecretsFrom:           "app/db",
			OnNodeLoss:            structs.LossFence,
			Parameters:            map[string]string{"tier": "fast"},
			RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
		},
		CSIVolumeOrigin: structs.CSIVolumeOrigin{
			State:    structs.VolumeReady,
			Capacity: 1 << 30,
		},
	}
	made := stored
	made.ID = "made"
	made.State = structs.VolumeCreating
	unbounded := stored
	unbounded.ID = "unbounded"
	unbounded.ExternalID = "ext-unbounded"
	unbounded.RequestedCapacityMax = 0
	classed := stored
	classed.ID = "classed"
	classed.Class = "fast"
	classed.ExternalID = "ext-classed"
	db := mvcc.Open(&schema.All)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		schema.Volumes.Put(tx, &stored)
		schema.Volumes.Put(tx, &made)
		schema.Volumes.Put(tx, &unbounded)
		schema.Volumes.Put(tx, &classed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	expands, err := acl.Parse("p", "namespace \"team\" {\n  volume \"*\" { capabilities = [\"read\", \"expand\"] }\n}\n")
	if err != nil {
		t.Fatal(err)
	}

	type volume = structs.CSIVolume
	short := func(change func(v *volume)) volume { // what a short file has
		v := volume{ID: "db", CSIVolumeSpec: structs.CSIVolumeSpec{PluginID: "p", RequestedCapacityMin: 2 << 30}}
		change(&v)
		return v
	}
	whole := func(change func(v *volume)) volume { // as it was read
		v := stored
		v.RequestedCapacityMin = 2 << 30
		change(&v)
		return v
	}
	for name, c := range map[string]struct {
		volume volume
		want   bool
	}{
		"a larger capacity":             {short(func(*volume) {}), true},
		"of the volume as it was read":  {whole(func(*volume) {}), true},
		"a larger bound":                {short(func(v *volume) { v.RequestedCapacityMax = 8 << 30 }), true},
		"the same capacity":             {short(func(v *volume) { v.RequestedCapacityMin = 1 << 30 }), true},
		"a smaller capacity":            {short(func(v *volume) { v.RequestedCapacityMin = 1 << 20 }), false},
		"a smaller bound":               {short(func(v *volume) { v.RequestedCapacityMax = 2 << 30 }), false},
		"a bound where none was":        {short(func(v *volume) { v.ID = "unbounded"; v.RequestedCapacityMax = 8 << 30 }), false},
		"another name":                  {short(func(v *volume) { v.Name = "x" }), false},
		"of a volume of a class":        {short(func(v *volume) { v.ID = "classed"; v.Class = "fast"; v.PluginID = "" }), true},
		"another class":                 {short(func(v *volume) { v.ID = "classed"; v.Class = "slow" }), false},
		"a class":                       {short(func(v *volume) { v.Class = "fast" }), false},
		"another plugin":                {short(func(v *volume) { v.PluginID = "q" }), false},
		"another external ID":           {short(func(v *volume) { v.ExternalID = "x" }), false},
		"a source":                      {short(func(v *volume) { v.CloneID = "x" }), false},
		"a snapshot":                    {short(func(v *volume) { v.SnapshotID = "x" }), false},
		"other parameters":              {short(func(v *volume) { v.Parameters = map[string]string{"tier": "slow"} }), false},
		"a context":                     {short(func(v *volume) { v.Context = map[string]string{"a": "b"} }), false},
		"secrets":                       {short(func(v *volume) { v.Secrets = structs.Secrets{"a": "b"} }), false},
		"another variable with secrets": {short(func(v *volume) { v.SecretsFrom = "app/x" }), false},
		"another rule for a lost node":  {whole(func(v *volume) { v.OnNodeLoss = structs.LossLease }), false},
		"mount options":                 {short(func(v *volume) { v.MountOptions = &structs.CSIMountOptions{FSType: "xfs"} }), false},
		"capabilities": {short(func(v *volume) {
			v.RequestedCapabilities = []*structs.CSIVolumeCapability{{AccessMode: structs.CSIMultiNodeReader}}
		}), false},
		"a new volume":          {short(func(v *volume) { v.ID = "new" }), false},
		"one in creation":       {short(func(v *volume) { v.ID = "made" }), false},
		"one elsewhere":         {short(func(v *volume) { v.Namespace = "theirs" }), false},
		"fields of the servers": {short(func(v *volume) { v.State = "x"; v.Capacity = 7; v.CreateTime = 7 }), true},
	} {
		got := rights.VolumeWrite.Allows(rights.Question{
			Caller: rights.Caller{ACL: acl.New(expands)},
			Tx:     db.Read(),
			Req: &structs.CSIVolumeRegisterRequest{
				Volumes:      []*structs.CSIVolume{&c.volume},
				WriteOptions: structs.WriteOptions{Namespace: "team"},
			},
		})
		if got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
	}
}
