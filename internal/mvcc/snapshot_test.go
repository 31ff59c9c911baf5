package mvcc

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"berth/internal/codec"
)

// fullDB has rows in every table, and more than one chunk of some.
func fullDB(t testing.TB) *DB {
	t.Helper()
	db := openDB()
	err := db.Write(7, func(tx *WriteTx) error {
		for n := range 3 * chunkRows {
			id := fmt.Sprint(n)
			items.Put(tx, &item{ID: id, Space: "s", Group: id[:1], Status: pending, Tags: []string{"a", "b"}})
		}
		archive.Put(tx, &item{ID: "a", Text: "1"})
		others.Put(tx, &other{ID: "o"})
		pairs.Put(tx, &pair{A: "a", B: "b", C: "c", Holder: "h", Marked: true})
		return putThing("t")(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func TestLoad_RestoresEveryTable(t *testing.T) {
	db := fullDB(t)
	restored := openDB()
	first := snapshotFile(t, db)
	_ = restored.Write(99, putThing("forgotten"))
	if err := restored.Load(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, snapshotFile(t, restored)) {
		t.Error("the file of the restored database differs")
	}
	tx := restored.Read()
	if restored.Index() != 7 || things.Get(tx, "forgotten") != nil {
		t.Errorf("the restored database is at index %d, want 7 without earlier rows", restored.Index())
	}
	if things.Newest(tx) != 7 || itemsByTag.First(tx, "b") == nil || markedPairs.First(tx, "h") == nil {
		t.Error("an index is not restored")
	}
	if items.Len(tx) != 3*chunkRows || things.Len(tx) != 1 || pairs.Len(tx) != 1 {
		t.Errorf("the restored tables have %d, %d and %d rows", items.Len(tx), things.Len(tx), pairs.Len(tx))
	}
	checkConsistent(t, restored)
}

func TestLoad_RejectsInvalidFiles(t *testing.T) {
	encode := func(vs ...any) []byte {
		var b bytes.Buffer
		out := NewPieceWriter(&b)
		for _, v := range vs {
			put := out.Encode
			if piece, ok := v.([]byte); ok {
				put = func(any) error { return out.Write(piece) }
			}
			if err := put(v); err != nil {
				t.Fatal(err)
			}
		}
		return b.Bytes()
	}
	rows := func(v any) []byte {
		b, err := codec.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	head := snapshotHeader{snapshotFormat, snapshotVersion, 1}
	whole := snapshotFile(t, fullDB(t))
	for name, c := range map[string]struct {
		in   []byte
		want string
	}{
		"nothing":         {nil, "header"},
		"another format":  {encode(snapshotHeader{"tar", 1, 1}), `format "tar"`},
		"a newer version": {encode(snapshotHeader{snapshotFormat, 9, 1}), "version 9"},
		"an unknown table": {
			encode(head, "dreams", []byte{}),
			`table "dreams" of the state snapshot: this version knows no such table`,
		},
		"a row that is nil":  {encode(head, "things", rows([]*thing{nil}), []byte{}), "nil"},
		"a row that is text": {encode(head, "things", rows([]string{"x"}), []byte{}), `table "things"`},
		"a table that is there twice": {
			encode(head, "things", rows([]*thing{{ID: "b"}}), []byte{}, "things", rows([]*thing{{ID: "b"}}),
				[]byte{}, ""),
			`table "things" of the state snapshot: it is there twice`,
		},
		"an empty table that is there twice": {
			encode(head, "others", []byte{}, "others", []byte{}, ""), "it is there twice",
		},
		"a row that is not whole": {
			encode(head, "others", rows([]*other{{ID: "broken"}}), []byte{}, ""), "a row lacks a part",
		},
		"no end":            {encode(head, "things", []byte{}), "ends early"},
		"cut short":         {whole[:len(whole)-1], "ends early"},
		"cut in the middle": {whole[:len(whole)/2], "state snapshot"},
	} {
		s := openDB()
		_ = s.Write(3, putThing("a"))
		err := s.Load(bytes.NewReader(c.in))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
		if things.Get(s.Read(), "a") == nil {
			t.Errorf("%s: the earlier rows are lost", name)
		}
	}
}

// fullDisk writes a number of bytes and then fails.
type fullDisk struct{ space int }

func (d *fullDisk) Write(b []byte) (int, error) {
	d.space -= len(b)
	if d.space < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(b), nil
}

func TestSave_ReportsAFullDisk(t *testing.T) {
	db := fullDB(t)
	whole := len(snapshotFile(t, db))
	for _, space := range []int{0, 40, whole / 2, whole - 1} {
		if err := db.Save(&fullDisk{space}); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("with space for %d of %d bytes: got %v, want an error", space, whole, err)
		}
	}
}
