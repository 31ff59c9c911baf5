package state

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"berth/internal/codec"
	"berth/structs"
)

// aFullWorld has rows in every table.
func aFullWorld(t testing.TB) *world {
	w := threeNodes(t, true)
	w.job(aJob("plugin", structs.JobSystem, "p"))
	w.claim(aClaim("v", "a1", wr, snw), aClaim("v", "a2", wr, snw))
	w.outcome("v", "n1", "attach", nil)
	do(w, EvalUpdate, &structs.EvalUpdateRequest{WriteOptions: w.now(), Evals: []*structs.Evaluation{
		{ID: "blocked", JobID: "j", Status: structs.EvalBlocked, BlockedOn: []string{structs.WakeCapacity}, SnapshotIndex: w.index}}})
	return w
}

func TestSaveAndLoadEveryTable(t *testing.T) {
	w := aFullWorld(t)
	tx := w.s.Read()
	for _, table := range schema().tables {
		var b bytes.Buffer
		if err := table.save(tx, pieceWriter{&b}); err != nil || b.Len() < 3 {
			t.Errorf("table %s is empty: the test says nothing of it (%v)", table.name(), err)
		}
	}
	first := saved(t, w.s)
	other := New()
	_ = other.Write(99, putNode("to be forgotten"))
	if err := other.Load(bytes.NewReader(first)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, saved(t, other)) {
		t.Error("saved, loaded and saved again it is something else")
	}
	if other.Index() != w.index || Node(other.Read(), "to be forgotten") != nil {
		t.Errorf("at index %d, want %d, and nothing of before", other.Index(), w.index)
	}
	// The indexes are there too: the loaded store goes on like the old one.
	for _, s := range []*Store{w.s, other} {
		if err := s.Write(w.index+1, func(tx *Write) error {
			return VolumeUnpublish(tx, &structs.CSIVolumeUnpublishRequest{Claims: []structs.CSIClaimKey{{Namespace: "default", VolumeID: "v", AllocID: "a1"}}})
		}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(saved(t, w.s), saved(t, other)) {
		t.Error("they go on differently")
	}
}

func TestLoadRefuses(t *testing.T) {
	encode := func(vs ...any) []byte {
		var b bytes.Buffer
		out := pieceWriter{&b}
		for _, v := range vs {
			put := out.encode
			if piece, ok := v.([]byte); ok {
				put = func(any) error { return out.write(piece) }
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
	whole := saved(t, aFullWorld(t).s)
	for name, c := range map[string]struct {
		in   []byte
		says string
	}{
		"nothing":            {nil, "header"},
		"another format":     {encode(snapshotHeader{"tar", 1, 1}), `format "tar"`},
		"a newer version":    {encode(snapshotHeader{snapshotFormat, 9, 1}), "version 9"},
		"an unknown table":   {encode(head, "dreams", []byte{}), `table "dreams" of the state snapshot: this version knows no such table`},
		"a row that is nil":  {encode(head, "nodes", rows([]*structs.Node{nil}), []byte{}), "nil"},
		"a row that is text": {encode(head, "nodes", rows([]string{"x"}), []byte{}), `table "nodes"`},
		"no end":             {encode(head, "nodes", []byte{}), "ends early"},
		"cut short":          {whole[:len(whole)-1], "ends early"},
		"cut in the middle":  {whole[:len(whole)/2], "state snapshot"},
	} {
		s := New()
		_ = s.Write(3, putNode("a"))
		err := s.Load(bytes.NewReader(c.in))
		if !structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if Node(s.Read(), "a") == nil {
			t.Errorf("%s: what was there is lost", name)
		}
	}
}

// fullDisk takes so many bytes and then fails.
type fullDisk struct{ room int }

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room -= len(b); d.room < 0 {
		return 0, errors.New("no space left on device")
	}
	return len(b), nil
}

func TestSaveSaysThatTheDiskIsFull(t *testing.T) {
	w := aFullWorld(t)
	whole := len(saved(t, w.s))
	for _, room := range []int{0, 40, whole / 2, whole - 1} {
		if err := w.s.Save(&fullDisk{room}); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("with room for %d of %d bytes: %v", room, whole, err)
		}
	}
}

// FuzzLoad holds that no bytes make Load panic, and that what it takes it can save.
func FuzzLoad(f *testing.F) {
	f.Add(saved(f, aFullWorld(f).s))
	f.Add(saved(f, New()))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := New()
		if s.Load(bytes.NewReader(in)) == nil {
			_ = Check(s.Read())
			saved(t, s)
		}
	})
}
