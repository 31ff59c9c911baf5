package rights_test

import (
	"testing"

	"berth/acl"
	"berth/endpoints/rights"
	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs/storage"
)

// The row alone names the snapshot at its plugin.
func TestSnapshotDelete_OfTheRowAloneNeedsForce(t *testing.T) {
	db := mvcc.Open(&schema.All)
	err := db.Write(10, func(tx *mvcc.WriteTx) error {
		schema.Snapshots.Put(tx, &storage.VolumeSnapshot{
			Namespace: "default", Name: "s", VolumeID: "mine", PluginID: "p",
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for capabilities, want := range map[string][2]bool{
		`"snapshot"`:          {true, false},
		`"force"`:             {false, false},
		`"snapshot", "force"`: {true, true},
	} {
		p, err := acl.Parse("p", "namespace \"default\" {\n  volume \"mine\" { capabilities = ["+capabilities+"] }\n}")
		if err != nil {
			t.Fatal(err)
		}
		may := func(force bool) bool {
			req := &storage.SnapshotDeleteRequest{SnapshotName: "s", Force: force}
			req.Namespace = "default"
			caller := rights.Caller{ACL: acl.New(p)}
			return rights.SnapshotDelete.Allows(rights.Question{Caller: caller, Tx: db.Read(), Req: req})
		}
		if got := [2]bool{may(false), may(true)}; got != want {
			t.Errorf("with %s: %v without and with force, want %v", capabilities, got, want)
		}
	}
}
