package membership

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/client/store"
	"berth/internal/files"
	"berth/test/kit"
)

// A machine starts again while its disk is full. No request may have a mark that the disk has not.
func TestBegin_OnAFullDiskDrawsTheMarkWhenThereIsSpace(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	a := startProven(t, dir, "b1")
	if err := a.MarkClaims(); err != nil {
		t.Fatal(err)
	}
	before := a.Current()
	a.stop(t)

	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	free := kit.FillDisk(t, dir, 0)
	kit.Crowd(t, func(table, key, text string) error {
		return store.NewTable[string](table).Put(db, key, &text)
	})
	k, err := LoadProof(db, dir, ProofPlace{BootID: "b2"}, hclog.NewNullLogger())
	if err != nil {
		t.Fatalf("the agent does not start: %v", err)
	}
	for range 2 {
		if err := k.Begin(); !files.IsNoSpace(err) {
			t.Fatalf("got %v, want no space", err)
		}
		if err := k.MarkClaims(); !files.IsNoSpace(err) {
			t.Errorf("a claim has a mark (%v) in a boot without one", err)
		}
		if now := k.Current(); !slices.Equal(now.Marks, before.Marks) || now.Nonce != before.Nonce {
			t.Errorf("%+v has what the disk has not", now)
		}
	}

	free()
	if err := k.Begin(); err != nil {
		t.Fatal(err)
	}
	now := k.Current()
	if len(now.Marks) != 3 || !slices.Equal(now.Marks[1:], before.Marks) {
		t.Errorf("the marks %q follow %q", now.Marks, before.Marks)
	}
	if err := k.Begin(); err != nil || !slices.Equal(k.Current().Marks, now.Marks) {
		t.Errorf("another mark is drawn in the same boot: %v", err)
	}
	if err := k.MarkClaims(); err != nil || slices.Contains(now.Marks, k.Current().Mark()) {
		t.Errorf("the first claim of the boot has the mark %q (%v)", k.Current().Mark(), err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// The first agent of a node draws nothing that the disk has not.
func TestBegin_OfTheFirstAgentWaitsForSpace(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	db, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	free := kit.FillDisk(t, dir, 0)
	kit.Crowd(t, func(table, key, text string) error {
		return store.NewTable[string](table).Put(db, key, &text)
	})
	k, err := LoadProof(db, dir, ProofPlace{BootID: "b1"}, hclog.NewNullLogger())
	if err != nil {
		t.Fatalf("the agent does not start: %v", err)
	}
	if err := k.Begin(); !files.IsNoSpace(err) {
		t.Errorf("got %v, want no space", err)
	}
	free()
	if err := k.Begin(); err != nil {
		t.Fatal(err)
	}
	sent := k.Current()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again := startProven(t, dir, "b1")
	defer again.stop(t)
	if now := again.Current(); now.Nonce != sent.Nonce || !slices.Equal(now.Marks, sent.Marks) {
		t.Errorf("%+v follows %+v", now, sent)
	}
}
