package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/bbolt"

	"berth/internal/codec"
	"berth/internal/files"
	"berth/internal/level"
	"berth/structs"
	"berth/test/kit"
)

type testRecord struct {
	Name string
	N    int
}

var things = NewTable[testRecord]("things")

func open(t *testing.T, dir string) *DB {
	t.Helper()
	db, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestTable_RecordsOutliveTheAgent(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	for i, key := range []string{Key("a", "1"), Key("a", "2"), Key("b", "1")} {
		err := things.Put(db, key, &testRecord{key, i})
		if err != nil {
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
	if err != nil || len(all) != 2 ||
		all[0].Key != Key("a", "2") || all[1].Value.N != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	if some, err := things.All(db, "b"); err != nil || len(some) != 1 {
		t.Errorf("%+v, %v", some, err)
	}
}

func TestTable_MissingRecordIsNil(t *testing.T) {
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

func TestRecords_ABadOneHidesNoGoodOne(t *testing.T) {
	db := open(t, t.TempDir())
	if err := things.Put(db, "good", &testRecord{"good", 1}); err != nil {
		t.Fatal(err)
	}
	err := db.bolt.Update(func(tx *bbolt.Tx) error {
		return changeRecord(tx, "things", []byte("bad"), []byte{0xc1})
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

func TestOpen_RejectsADirectoryInUse(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lock's timeout of five seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	_, err := Open(dir)
	if !structs.IsKind(err, structs.KindPrecondition) ||
		!strings.Contains(err.Error(), "another agent uses this data_dir") {
		t.Errorf("%v", err)
	}
}

// storedText is everything that can be read.
func storedText(db *DB) (string, error) {
	var b strings.Builder
	for _, table := range []Table[testRecord]{things, others} {
		all, err := table.All(db, "")
		if err != nil {
			return "", err
		}
		for _, r := range all {
			fmt.Fprintf(&b, "%s %s %+v\n", table.bucket, r.Key, *r.Value)
		}
	}
	return b.String(), nil
}

var others = NewTable[testRecord]("others")

// makeUsedFile makes a file with many records, some of which were changed and removed.
func makeUsedFile(t *testing.T) (path string, content []byte, want string) {
	t.Helper()
	dir := t.TempDir()
	db := open(t, dir)
	for i := range 120 {
		key := Key("alloc", strconv.Itoa(i))
		if err := errors.Join(things.Put(db, key, &testRecord{strings.Repeat("name", 10), i}),
			others.Put(db, key, &testRecord{"o", i})); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		err := things.Delete(db, Key("alloc", strconv.Itoa(i*3)))
		if err != nil {
			t.Fatal(err)
		}
	}
	want, err := storedText(db)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "client.db")
	content, err = os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, content, want
}

// openFails reports whether Open rejects the content. Content that Open accepts must read as written.
func openFails(t *testing.T, path string, content []byte, want string) bool {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(filepath.Dir(path))
	if err != nil {
		if !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "docs/operations/") {
			t.Errorf("the error does not name the file and the remedy: %v", err)
		}
		return true
	}
	got, err := storedText(db)
	if err := errors.Join(err, db.Close()); err != nil || got != want {
		t.Errorf("a change is read as if it were written: %v", err)
	}
	return false
}

// TestOpen_RejectsAChangedByte changes one byte at a time. It runs beside no other test: bbolt follows the
// offsets of a damaged page, also out of its copy of one on the heap, and the race detector finds that read.
func TestOpen_RejectsAChangedByte(t *testing.T) {
	path, whole, want := makeUsedFile(t)
	seed, err := strconv.ParseUint(os.Getenv("BERTH_TEST_SEED"), 10, 64)
	if err != nil {
		seed = rand.Uint64()
	}
	t.Logf("BERTH_TEST_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	rejected := 0
	const tries = 220
	for i := range tries {
		damaged := bytes.Clone(whole)
		at := rnd.IntN(len(whole))
		if i < 140 {
			at = i / 2 // the meta pages
			if i%2 == 1 {
				at += os.Getpagesize()
			}
		}
		damaged[at] ^= byte(1 + rnd.IntN(255))
		if openFails(t, path, damaged, want) {
			rejected++
		}
	}
	t.Logf("%d of %d changes rejected", rejected, tries)
	if rejected < 108 { // the changes of the meta pages
		t.Errorf("only %d changes were rejected", rejected)
	}
}

func TestOpen_RejectsACutFileAndNoise(t *testing.T) {
	t.Parallel()
	path, whole, want := makeUsedFile(t)
	for what, content := range map[string][]byte{
		"empty": {}, "one byte": whole[:1], "one page": whole[:os.Getpagesize()],
		"four pages": whole[:4*os.Getpagesize()],
		"noise":      bytes.Repeat([]byte("noise"), 20000),
	} {
		if !openFails(t, path, content, want) {
			t.Errorf("%s: accepted", what)
		}
	}
	if openFails(t, path, whole, want) {
		t.Error("the whole file is rejected")
	}
}

// markUsedPageFree changes the list of free pages in the file: it names a page with records.
func markUsedPageFree(t *testing.T, path string) {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	var live uint64
	err = b.View(func(tx *bbolt.Tx) error {
		live = uint64(tx.Bucket([]byte("things")).Root())
		return nil
	})
	if err := errors.Join(err, b.Close()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page, word := os.Getpagesize(), binary.NativeEndian.Uint64
	meta := content[16:] // behind the head of the page
	if other := content[page+16:]; word(other[48:]) > word(meta[48:]) {
		meta = other // of the newer transaction
	}
	list := content[int(word(meta[32:]))*page+16:]
	binary.NativeEndian.PutUint64(list, live)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// bbolt verifies neither its list of free pages nor the content of these.
func TestOpen_ReliesOnNoListOfFreePages(t *testing.T) {
	t.Parallel()
	path, _, want := makeUsedFile(t)
	markUsedPageFree(t, path)
	db, err := Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		key := Key("alloc", strconv.Itoa(i*3))
		err := errors.Join(things.Put(db, key, &testRecord{"again", i}),
			things.Delete(db, key))
		if err != nil {
			t.Fatal(err)
		}
	}
	if got, err := storedText(db); err != nil || got != want {
		t.Errorf("records were written over: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpen_RejectsMissingRecords(t *testing.T) {
	t.Parallel()
	for _, remove := range []func(tx *bbolt.Tx) error{
		func(tx *bbolt.Tx) error { return tx.Bucket([]byte("others")).Delete([]byte(Key("alloc", "7"))) },
		func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("others")) },
		func(tx *bbolt.Tx) error { // the whole tree
			names := []string{"others", "things", string(digests)}
			var errs []error
			for _, name := range names {
				errs = append(errs, tx.DeleteBucket([]byte(name)))
			}
			return errors.Join(errs...)
		},
	} {
		path, _, _ := makeUsedFile(t)
		b, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(b.Update(remove), b.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "records") {
			t.Errorf("%v", err)
		}
	}
}

// TestOpen_StartsOnAFullDisk fills a separate file system.
func TestOpen_StartsOnAFullDisk(t *testing.T) {
	t.Parallel()
	path, whole, want := makeUsedFile(t)
	dir := kit.MountDisk(t, "1m")
	path = filepath.Join(dir, filepath.Base(path))
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filler, make([]byte, 2<<20), 0o600)
	if !files.IsNoSpace(err) {
		t.Fatalf("the disk did not fill up: %v", err)
	}
	if openFails(t, path, whole, want) {
		t.Error("Open reports a full disk as damage")
	}
	setLevel(t, path, max(level.First, level.Now-1))
	db := open(t, dir)
	if err := things.Put(db, "one", &testRecord{"more", 1}); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	setLevel(t, path, level.Now+1)
	newer, err := Open(dir)
	if err == nil {
		_ = newer.Close()
	}
	if !errors.Is(err, errNewer) {
		t.Errorf("Open of a file of a newer version on a full disk: %v", err)
	}
	if !openFails(t, path,
		append(bytes.Clone(whole[:100]), make([]byte, len(whole)-100)...), want) {
		t.Error("Open accepts a damaged file on a full disk")
	}
}

func FuzzDecodeDigest(f *testing.F) {
	f.Add(digest{3, 4}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := decodeDigest(b)
		if err == nil && len(b) > 0 && !bytes.Equal(d.encode(), b) {
			t.Fatal("decodeDigest accepted bytes that encode does not produce")
		}
	})
}

// TestCommit_IsAllOrNone: a record that cannot be written shares its transaction with other commits.
func TestCommit_IsAllOrNone(t *testing.T) {
	db := open(t, t.TempDir())
	value, err := codec.Encode(&testRecord{N: 1})
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("k", bbolt.MaxKeySize+1)
	of := func(keys ...string) *group {
		g := &group{}
		for _, key := range keys {
			g.changes = append(g.changes, Change{bucket: things.bucket, key: key, value: value})
		}
		return g
	}
	groups := []*group{of("first"), of("not", long), of("last")}
	if _, err := db.commitAll(t.Context(), struct{}{}, groups); err != nil {
		t.Fatal(err)
	}
	for i, g := range groups {
		if rejected := g.err != nil; rejected != (i == 1) {
			t.Errorf("group %d: %v", i, g.err)
		}
	}
	got, err := things.All(db, "")
	if err != nil || len(got) != 2 || got[0].Key != "first" || got[1].Key != "last" {
		t.Errorf("the file has %v (%v)", got, err)
	}
}

func TestTable_ConcurrentWritesAreAllKept(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	table := NewTable[string]("many")
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			key := fmt.Sprint(i)
			err := table.Put(db, key, &key)
			if err == nil && i%2 == 1 {
				err = table.Delete(db, key)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir) // it compares the records with their digests
	records, err := table.All(db, "")
	if err != nil || len(records) != 25 {
		t.Errorf("%d records (%v), want 25", len(records), err)
	}
}
