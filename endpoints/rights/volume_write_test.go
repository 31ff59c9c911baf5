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

// A volume of the caller gives no way to the data of others.
func TestVolumeWrite_AsksForTheDataOfTheVolume(t *testing.T) {
	db := mvcc.Open(&schema.All)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		for _, v := range []*structs.CSIVolume{
			{Namespace: "team", ID: "own", PluginID: "p", ExternalID: "ext-own", Context: map[string]string{"a": "b"}},
			{Namespace: "team", ID: "sealed", PluginID: "p", ExternalID: "ext-sealed"},
			{Namespace: "team", ID: "copied", PluginID: "p", ExternalID: "ext-copied"},
			{Namespace: "team", ID: "failed", PluginID: "p", State: structs.VolumeFailed, ExternalName: "failed-1"},
			{Namespace: "team", ID: "ext-theirs", PluginID: "p", ExternalID: "ext-trap"},
			{Namespace: "theirs", ID: "db", PluginID: "p", ExternalID: "ext-theirs"},
			{Namespace: "theirs", ID: "new", PluginID: "p"},
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
		"a clone of an own volume": {structs.CSIVolume{ID: "v", CloneID: "own"}, true, true},
		"a clone in a class":       {structs.CSIVolume{ID: "v", Class: "fast", CloneID: "own"}, true, true},
		"a clone of others in a class": {
			structs.CSIVolume{ID: "v", Class: "fast", CloneID: "ext-theirs"}, false, false,
		},
		"a clone by a right of its own": {structs.CSIVolume{ID: "v", CloneID: "copied"}, true, true},
		"a clone without snapshot":      {structs.CSIVolume{ID: "v", CloneID: "sealed"}, false, false},
		"a clone by an external ID":     {structs.CSIVolume{ID: "v", CloneID: "ext-own"}, true, true},
		"a clone of another namespace":  {structs.CSIVolume{ID: "v", CloneID: "ext-theirs"}, false, false},
		"a clone of no volume":          {structs.CSIVolume{ID: "v", CloneID: "ext-none"}, false, true},
		"a clone of one not made yet":   {structs.CSIVolume{ID: "v", CloneID: "failed"}, false, true},
		"a clone for a failed volume":   {structs.CSIVolume{ID: "failed", CloneID: "ext-theirs"}, false, false},
		"a clone that is there":         {structs.CSIVolume{ID: "own", CloneID: "ext-theirs"}, true, true},
		"a snapshot":                    {structs.CSIVolume{ID: "v", SnapshotID: "s"}, false, true},
		"an external ID":                {structs.CSIVolume{ID: "v", ExternalID: "ext-none"}, false, true},
		"the same external ID":          {structs.CSIVolume{ID: "own", ExternalID: "ext-own"}, true, true},
		"another external ID":           {structs.CSIVolume{ID: "own", ExternalID: "ext-none"}, false, true},
		"an external ID after a failure": {
			structs.CSIVolume{ID: "failed", ExternalID: "ext-none"}, false, true,
		},
		"a name at the plugin":       {structs.CSIVolume{ID: "v", ExternalName: "db"}, false, true},
		"the same name at it":        {structs.CSIVolume{ID: "failed", ExternalName: "failed-1"}, true, true},
		"another name after failure": {structs.CSIVolume{ID: "failed", ExternalName: "db"}, false, true},
		"a label":                    {structs.CSIVolume{ID: "v", Name: "db"}, true, true},

		"the same context":  {structs.CSIVolume{ID: "own", Context: map[string]string{"a": "b"}}, true, true},
		"another context":   {structs.CSIVolume{ID: "own", Context: map[string]string{"a": "c"}}, false, true},
		"a readable secret": {structs.CSIVolume{ID: "v", SecretsFrom: "app/db"}, true, true},
		"a written secret":  {structs.CSIVolume{ID: "v", SecretsFrom: "written"}, false, false},
		"an unknown secret": {structs.CSIVolume{ID: "v", SecretsFrom: "theirs"}, false, false},
		"the secret of its class": {
			structs.CSIVolume{ID: "v", Class: "fast", SecretsFrom: "classes/team/v"}, true, true,
		},
		"another secret in a class": {
			structs.CSIVolume{ID: "v", Class: "fast", SecretsFrom: "classes/team/w"}, false, false,
		},
		"the secret of a class without it": {
			structs.CSIVolume{ID: "v", SecretsFrom: "classes/team/v"}, false, false,
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
		Namespace:             "team",
		ID:                    "db",
		PluginID:              "p",
		Name:                  "db-1",
		ExternalID:            "ext-db",
		State:                 structs.VolumeReady,
		Capacity:              1 << 30,
		RequestedCapacityMin:  1 << 30,
		RequestedCapacityMax:  4 << 30,
		SecretsFrom:           "app/db",
		OnNodeLoss:            structs.LossFence,
		Parameters:            map[string]string{"tier": "fast"},
		RequestedCapabilities: []*structs.CSIVolumeCapability{{AccessMode: structs.CSISingleNodeWriter}},
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
		v := volume{ID: "db", PluginID: "p", RequestedCapacityMin: 2 << 30}
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
