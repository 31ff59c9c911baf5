package store

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

type thing struct {
	Name string
	N    int
}

var things = NewTable[thing]("things")

func open(t *testing.T, dir string) *DB {
	t.Helper()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestRecordsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i, key := range []string{Key("a", "1"), Key("a", "2"), Key("b", "1")} {
		if err := things.Put(db, key, &thing{key, i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := things.Delete(db, Key("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	got, err := things.Get(db, Key("a", "2"))
	if err != nil || got == nil || got.N != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if gone, err := things.Get(db, Key("a", "1")); gone != nil || err != nil {
		t.Errorf("deleted: %+v, %v", gone, err)
	}
	all, err := things.All(db, "")
	if err != nil || len(all) != 2 || all[0].Key != Key("a", "2") || all[1].Value.N != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if some, err := things.All(db, "b"); err != nil || len(some) != 1 {
		t.Errorf("%+v, %v", some, err)
	}
}

func TestWhatWasNeverPutIsNotThere(t *testing.T) {
	db := open(t, t.TempDir())
	if got, err := things.Get(db, "x"); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := things.Delete(db, "x"); err != nil {
		t.Error(err)
	}
	if all, err := things.All(db, ""); len(all) != 0 || err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestABadRecordHidesNoGoodOne(t *testing.T) {
	db := open(t, t.TempDir())
	if err := things.Put(db, "good", &thing{"good", 1}); err != nil {
		t.Fatal(err)
	}
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("things")).Put([]byte("bad"), []byte{0xc1})
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := things.All(db, "")
	if err == nil || !strings.Contains(err.Error(), `things "bad"`) {
		t.Errorf("the bad record is not named: %v", err)
	}
	if len(all) != 1 || all[0].Key != "good" {
		t.Errorf("%+v", all)
	}
	if _, err := things.Get(db, "bad"); err == nil {
		t.Error("a bad record reads as good")
	}
}

func TestTwoAgentsCannotShareADirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lock's timeout of five seconds")
	}
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(dir)
	if !errors.Is(err, bolterrors.ErrTimeout) || !strings.Contains(err.Error(), "data_dir") {
		t.Errorf("%v", err)
	}
}
