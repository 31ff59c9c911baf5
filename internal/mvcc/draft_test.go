package mvcc

import "testing"

// A draft sees its changes through every index, far beyond the size at which a batch writes into the trees.
func TestReadTx_DraftChangesNothing(t *testing.T) {
	db := openDB()
	err := db.Write(7, func(tx *WriteTx) error {
		items.Put(tx, &item{ID: "a", Space: "s", Group: "g", Text: "old"})
		items.Put(tx, &item{ID: "b", Space: "s", Group: "g"})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before := snapshotFile(t, db)
	snapshot := db.Read()
	draft := snapshot.Draft()
	items.Put(draft, &item{ID: "a", Space: "s", Group: "h", Text: "new"})
	items.Delete(draft, &item{ID: "b"})
	for n := range 3 * maxOverlay {
		items.Put(draft, &item{ID: string(rune('c' + n)), Space: "s", Group: "many"})
	}
	if got := items.Get(draft, "a"); got.Text != "new" || got.ModifyIndex != 8 || got.CreateIndex != 7 {
		t.Errorf("the draft has %+v", got)
	}
	if itemsByGroup.Has(draft, "s", "g") || !itemsByGroup.Has(draft, "s", "h") {
		t.Error("an index of the draft shows the rows of before")
	}
	for range things.Range(draft.ReadTx, nil, Page{Reverse: true}) {
		t.Error("a table without rows has one")
	}
	count := 0
	for range itemsByGroup.Scan(draft, "s", "many") {
		count++
	}
	if count != 3*maxOverlay {
		t.Errorf("the draft has %d of %d new rows", count, 3*maxOverlay)
	}
	if items.Len(draft) != 3*maxOverlay+1 || items.Len(snapshot) != 2 || things.Len(draft) != 0 {
		t.Errorf("the draft has %d rows, and the snapshot has %d", items.Len(draft), items.Len(snapshot))
	}
	if draft.Applied() != 8 || snapshot.Applied() != 7 || db.Index() != 7 {
		t.Error("the draft has moved the index")
	}
	if got := items.Get(snapshot, "a"); got.Text != "old" || items.Get(snapshot, "b") == nil {
		t.Errorf("the snapshot has %+v", got)
	}
	if string(snapshotFile(t, db)) != string(before) {
		t.Error("the draft has changed the database")
	}
	err = db.Write(8, func(tx *WriteTx) error { // a draft holds no lock
		items.Put(tx, &item{ID: "c", Space: "s", Group: "g"})
		return nil
	})
	if err != nil || items.Get(db.Read(), "c") == nil {
		t.Error("a write after the draft", err)
	}
}
