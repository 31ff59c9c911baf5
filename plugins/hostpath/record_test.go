package hostpath

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-hclog"

	"berth/plugins/hostpath/copying"
)

const (
	volumeRecord = `{"ID":"x","Name":"n","State":"ready","Type":"image","FSType":"ext4","Size":1048576,"Source":"volume:y",` +
		`"BootID":"b","Stage":{"Path":"/stage","Use":{"Mode":1},"Ready":true},` +
		`"Targets":{"/target":{"Use":{"Mode":1,"Flags":["ro"]},"ReadOnly":true}}}`
	snapshotRecord = `{"ID":"x","Name":"n","State":"ready","Source":"y","Type":"directory","Size":1}`
)

// openWithRecord opens a store in which one row of each kind has the record.
func openWithRecord(t *testing.T, record []byte) *store {
	t.Helper()
	dir := t.TempDir()
	for _, table := range []string{"volumes", "snapshots"} {
		row := filepath.Join(dir, table, "x")
		if err := os.MkdirAll(row, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(row, recordFile), record, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.close() })
	return s
}

func TestOpenStore_LeavesRecordsAloneThatItCannotHaveWritten(t *testing.T) {
	for record, want := range map[string]int{
		volumeRecord:   1,
		snapshotRecord: 1,
		`{"ID":"x","State":"ready","Type":"image","Targets":{"/target":null}}`:            0,
		`{"ID":"x","State":"ready","Type":"image","Targets":{"target":{"Ready":true}}}`:   0,
		`{"ID":"x","State":"ready","Type":"image","Stage":{"Path":"stage","Ready":true}}`: 0,
		`{"ID":"x","State":"ready","Type":"image","Size":-1}`:                             0,
		`{"ID":"x","State":"ready","Type":"disc"}`:                                        0,
		`{"ID":"y","State":"ready","Type":"image"}`:                                       0,
		`{"ID":"x","State":"broken","Type":"image"}`:                                      0,
		`null`: 0,
		`{`:    0,
	} {
		s := openWithRecord(t, []byte(record))
		got := len(s.volumes.listRecords())
		bad := len(s.volumes.bad)
		if got != want || bad != 1-want {
			t.Errorf("%s: got %d volumes and %d bad records, want %d volumes", record, got, bad, want)
		}
	}
}

// A driver that is killed leaves the files with which it tests the file system.
func TestReconcile_RemovesTheTestFilesOfAKilledDriver(t *testing.T) {
	d := &driver{
		store:  openWithRecord(t, []byte("{")), // nothing to repair
		logger: hclog.NewNullLogger(),
	}
	left := filepath.Join(d.store.dir, copying.TempPrefix+"123")
	kept := filepath.Join(d.store.dir, "of-an-operator")
	for _, path := range []string{left, kept} {
		err := os.WriteFile(path, []byte("x"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	err := d.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the test file: %v", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("another file: %v", err)
	}
}

// FuzzRecord: a record is rejected, or is read, copied, written and read again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(volumeRecord))
	f.Add([]byte(snapshotRecord))
	f.Add([]byte(`{"ID":"x","State":"ready","Type":"image","Targets":{"/target":null}}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		s := openWithRecord(t, record)
		for _, v := range s.volumes.listRecords() {
			if err := s.volumes.putRecord(v.editCopy()); err != nil {
				t.Fatal(err)
			}
		}
		known := len(s.volumes.listRecords())
		again := &recordDir[*volume]{dir: s.volumes.dir}
		err := again.loadRecords()
		if got := len(again.listRecords()); err != nil || got != known {
			t.Errorf("a second load read %d of %d volumes: %v", got, known, err)
		}
	})
}
