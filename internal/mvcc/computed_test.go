package mvcc

import (
	"bytes"
	"testing"
)

// member is a row whose group counts it in the computed table of crowds.
type member struct {
	ID, Group string
	Indexes
}

type crowd struct {
	Group string
	Count int
	Indexes
}

var (
	members = NewTable("members", func(m *member) Key { return KeyOf(m.ID) }).OnChange(countMember)
	crowds  = NewTable("crowds", func(c *crowd) Key { return KeyOf(c.Group) }).Computed()

	crowdSchema = Schema{Tables: []AnyTable{members, crowds}}
)

func countMember(tx *WriteTx, before, now *member) {
	count := func(group string, by int) {
		c := crowd{Group: group}
		if old := crowds.Get(tx, group); old != nil {
			c.Count = old.Count
		}
		c.Count += by
		crowds.Put(tx, &c)
	}
	if before != nil {
		count(before.Group, -1)
	}
	if now != nil {
		count(now.Group, 1)
	}
}

func TestComputed_FollowsTheRowsAndIsInNoFile(t *testing.T) {
	db := Open(&crowdSchema)
	check := func(db *DB, group string, want int) {
		t.Helper()
		got := 0
		if c := crowds.Get(db.Read(), group); c != nil {
			got = c.Count
		}
		if got != want {
			t.Errorf("group %s has %d members, want %d", group, got, want)
		}
	}
	write := func(index uint64, fn func(tx *WriteTx)) {
		_ = db.Write(index, func(tx *WriteTx) error { fn(tx); return nil })
	}
	write(1, func(tx *WriteTx) {
		members.Put(tx, &member{ID: "a", Group: "g"})
		members.Put(tx, &member{ID: "b", Group: "g"})
	})
	check(db, "g", 2)
	write(2, func(tx *WriteTx) {
		members.Put(tx, &member{ID: "a", Group: "h"})
		members.Delete(tx, &member{ID: "b"})
		members.Delete(tx, &member{ID: "absent"})
	})
	check(db, "g", 0)
	check(db, "h", 1)

	file := snapshotFile(t, db)
	if bytes.Contains(file, []byte("crowds")) {
		t.Error("the file has the computed table")
	}
	loaded := Open(&crowdSchema)
	err := loaded.Load(bytes.NewReader(file), func(tx *LoadTx) {
		for m := range members.Scan(tx) {
			crowds.Insert(tx, &crowd{Group: m.Group, Count: 1})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	check(loaded, "h", 1)
	if n := crowds.Len(loaded.Read()); n != 1 {
		t.Errorf("the loaded table has %d rows, want 1", n)
	}
	db = loaded
	write(3, func(tx *WriteTx) { members.Put(tx, &member{ID: "c", Group: "h"}) })
	check(loaded, "h", 2)
	write(4, func(tx *WriteTx) {
		members.PutNew(tx, &member{ID: "d", Group: "h"}, nil)
		members.PutNew(tx, &member{ID: "e", Group: "h"}, nil)
		crowds.Put(tx, &crowd{Group: "h", Count: 4}) // once for both
	})
	check(loaded, "h", 4)
}

func TestLoad_RejectsAFileWithAComputedTable(t *testing.T) {
	plain := NewTable("crowds", func(c *crowd) Key { return KeyOf(c.Group) })
	db := Open(&Schema{Tables: []AnyTable{plain}})
	_ = db.Write(1, func(tx *WriteTx) error { plain.Put(tx, &crowd{Group: "g"}); return nil })
	if err := Open(&crowdSchema).Load(bytes.NewReader(snapshotFile(t, db))); err == nil {
		t.Error("it is loaded")
	}
}
