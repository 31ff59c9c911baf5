package store

import (
	"fmt"
	"path/filepath"
	"testing"

	"berth/internal/files"
	"berth/internal/level"
	"berth/test/kit"
)

// The disk fills up while the agent works. Each record is as it was written last, or was acknowledged.
func TestCommit_OnAFullDiskLosesNothing(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	db := open(t, dir)
	want := map[string]int{}
	put := func(key string, n int) error {
		err := things.Put(db, key, &testRecord{string(make([]byte, 3000)), n})
		if err == nil {
			want[key] = n
		}
		return err
	}
	for n := range 10 {
		if err := put(fmt.Sprint("before", n), n); err != nil {
			t.Fatal(err)
		}
	}
	free := kit.FillDisk(t, dir, 0)
	rejected := 0
	for n := 0; rejected < 20; n++ {
		if err := put(fmt.Sprintf("during%03d", n), n); err != nil {
			rejected++
			if !files.IsNoSpace(err) {
				t.Fatalf("record %d: got %v, want no space", n, err)
			}
			// Changes and removals beside it end as they say.
			_ = put("before0", n)
			if things.Delete(db, fmt.Sprint("before", n%10)) == nil {
				delete(want, fmt.Sprint("before", n%10))
			}
		}
	}

	check := func(when string) {
		t.Helper()
		records, err := things.All(db, "")
		if err != nil || len(records) != len(want) {
			t.Errorf("%s: %d records (%v), want %d", when, len(records), err, len(want))
		}
		for _, r := range records {
			if n, has := want[r.Key]; !has || n != r.Value.N {
				t.Errorf("%s: record %s has %d, want %d (%v)", when, r.Key, r.Value.N, n, has)
			}
		}
	}
	reopen := func() {
		t.Helper()
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(t, dir)
	}
	check("on the full disk")
	reopen()
	check("after a start on the full disk")
	free()
	for n := range 20 {
		if err := put(fmt.Sprintf("during%03d", n), n); err != nil {
			t.Errorf("with space: %v", err)
		}
	}
	check("with space")
	reopen()
	check("after a start with space")
}

// The agent goes on with its records on a full disk, also after a restart and as a newer version.
func TestCommit_HasAReserveOnAFullDisk(t *testing.T) {
	dir := kit.MountDisk(t, "2m")
	db := open(t, dir)
	defer kit.FillDisk(t, dir, 0)()
	path := filepath.Join(dir, "client.db")
	for life := range 3 {
		for n := range 300 { // changes in the place, and a little growth
			key := fmt.Sprint(life, n%30)
			if err := things.Put(db, key, &testRecord{string(make([]byte, 500)), n}); err != nil {
				t.Fatalf("life %d, change %d: %v", life, n, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if life > 0 {
			setLevel(t, path, max(level.First, level.Now-1))
		}
		db = open(t, dir)
	}
	records, err := things.All(db, "")
	if err != nil || len(records) != 90 {
		t.Errorf("%d records (%v)", len(records), err)
	}
}
