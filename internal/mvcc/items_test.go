package mvcc

import (
	"bytes"
	"iter"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Indexes are the log indexes that Put stamps. Each row embeds them.
type Indexes struct{ CreateIndex, ModifyIndex uint64 }

func (i *Indexes) Stamps() (created, modified uint64) { return i.CreateIndex, i.ModifyIndex }

func (i *Indexes) Stamp(created, modified uint64) { *i = Indexes{created, modified} }

// item is a row in each kind of index.
type item struct {
	ID, Space, Group, Text, Status string
	Tags                           []string
	Indexes
}

const blocked, pending, done = "blocked", "pending", "done"

// thing and other are rows in no index but that of their table.
type (
	thing struct {
		ID, Name string
		Indexes
	}
	other struct {
		ID string
		Indexes
	}
)

// pair is a row with a key of three parts. It is in a sparse index while it is marked.
type pair struct {
	A, B, C, Holder string
	Marked          bool
	Indexes
}

var (
	items        = NewTable("items", func(i *item) Key { return KeyOf(i.ID) })
	itemsByGroup = items.Index("group", func(i *item) Key {
		if i.Status == done {
			return KeyOf(i.Space, i.Group, "done")
		}
		return KeyOf(i.Space, i.Group, "open", i.Status)
	})
	itemsByTurn = items.UniqueIndex("turn", func(i *item) Key {
		if i.Status == blocked {
			return nil
		}
		return KeyOf(Ordered(i.CreateIndex), i.ID)
	})
	itemsByList = items.ListIndex("list", func(i *item) Key {
		if i.Status == blocked {
			return nil
		}
		return KeyOf(i.Status, i.Space, i.ID)
	})
	sizes = SumLists(itemsByList,
		func(i *item) string { return i.Status },
		func(i *item) size { return size{1, len(i.Text) + len(i.Tags)} })
	itemsByTag = items.MultiIndex("tag", func(i *item) (keys []Key) {
		for _, tag := range i.Tags {
			if i.Status != done {
				keys = append(keys, KeyOf(tag, Ordered(i.CreateIndex)))
			}
		}
		return keys
	})

	// archive holds rows of the same type as items.
	archive = NewTable("archive", func(i *item) Key { return KeyOf(i.ID, i.Text) })

	things = NewTable("things", func(t *thing) Key { return KeyOf(t.ID) })
	others = NewTable("others", func(o *other) Key {
		return KeyOf(o.ID)
	}).Require(func(o *other) bool { return o.ID != "broken" })

	pairs       = NewTable("pairs", func(p *pair) Key { return KeyOf(p.A, p.B, p.C) })
	markedPairs = pairs.Index("marked", func(p *pair) Key {
		if !p.Marked {
			return nil
		}
		return KeyOf(p.Holder)
	})
)

// size is a Summand: numbers of rows and of what they have.
type size struct{ rows, parts int }

func (s size) Plus(o size) size { return size{s.rows + o.rows, s.parts + o.parts} }

func (s size) Minus(o size) size { return size{s.rows - o.rows, s.parts - o.parts} }

var testSchema = Schema{Tables: []AnyTable{archive, items, things, others, pairs}}

func openDB() *DB { return Open(&testSchema) }

// snapshotFile returns the snapshot file of a database.
func snapshotFile(t testing.TB, db *DB) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := db.Save(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func putThing(id string) func(*WriteTx) error {
	return func(tx *WriteTx) error {
		things.Put(tx, &thing{ID: id})
		return nil
	}
}

// render joins rows by their texts.
func render[R any](rows iter.Seq[R], text func(R) string) string {
	var out []string
	for r := range rows {
		out = append(out, text(r))
	}
	return strings.Join(out, " ")
}

// watchedPoints counts the watch points that readers wait at.
func watchedPoints(db *DB) int { return len(db.watches.at) + len(db.watches.partial) }

// Prefix is Scan for keys whose last part begins with the last part given.
func (x *Index[R]) Prefix(tx Reader, parts ...string) iter.Seq[R] {
	return x.scan(tx.reader(), KeyPrefix(parts...))
}
