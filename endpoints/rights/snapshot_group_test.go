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

// A right on some volumes of a group is none on the group.
func TestSnapshotGroups_NeedTheRightOnEachVolume(t *testing.T) {
	db := mvcc.Open(&schema.All)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		for name, volumes := range map[string][]string{"own": {"mine", "too"}, "mixed": {"mine", "theirs"}} {
			schema.SnapshotGroups.Put(tx, &storage.GroupSnapshot{
				Namespace: "default", Name: name, PluginID: "p", VolumeIDs: volumes,
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := acl.Parse("p", `namespace "default" {
  volume "mine" { capabilities = ["read", "snapshot"] }
  volume "too"  { capabilities = ["read", "snapshot"] }
}`)
	if err != nil {
		t.Fatal(err)
	}
	may := func(right rights.Right, req any) bool {
		return right.Allows(rights.Question{Caller: rights.Caller{ACL: acl.New(p)}, Tx: db.Read(), Req: req})
	}

	read := structs.QueryOptions{Namespace: "default"}
	write := structs.WriteOptions{Namespace: "default"}
	for name, want := range map[string]bool{"own": true, "mixed": false, "none": false} {
		get := &storage.SnapshotGroupGetRequest{GroupName: name, QueryOptions: read}
		remove := &storage.SnapshotGroupDeleteRequest{GroupName: name, WriteOptions: write}
		if may(rights.SnapshotGroupRead, get) != want || may(rights.SnapshotGroupDelete, remove) != want {
			t.Errorf("group %s: want %v", name, want)
		}
		remove.Force = true
		if may(rights.SnapshotGroupDelete, remove) {
			t.Errorf("group %s: its rows may be deleted alone, without the right force", name)
		}
	}
	for _, c := range []struct {
		volumes []string
		want    bool
	}{
		{[]string{"mine", "too"}, true},
		{[]string{"mine", "theirs"}, false},
		{nil, false},
	} {
		req := &storage.SnapshotGroupCreateRequest{GroupName: "g", VolumeIDs: c.volumes, WriteOptions: write}
		if may(rights.SnapshotGroupCreate, req) != c.want {
			t.Errorf("a group of %v: want %v", c.volumes, c.want)
		}
	}
}
