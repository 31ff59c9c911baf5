package disk

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	volumeRecord = `{"ID":"x","Name":"n","State":"ready","Type":"image","FSType":"ext4","Size":1048576,"Source":"volume:y",` +
		`"BootID":"b","Stage":{"Path":"/stage","Use":{"Mode":1},"Ready":true},` +
		`"Targets":{"/target":{"Use":{"Mode":1,"Flags":["ro"]},"ReadOnly":true}}}`
	snapshotRecord = `{"ID":"x","Name":"n","State":"ready","Source":"y","Type":"directory","Size":1}`
)

// openWithRecord opens a store in which one row of each kind has the record.
func openWithRecord(t *testing.T, record []byte) *Store {
	t.Helper()
	dir := t.TempDir()
	for _, table := range []string{"volumes", "snapshots"} {
		row := filepath.Join(dir, table, "x")
		if err := os.MkdirAll(row, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(row, RecordFile), record, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
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
		got := len(s.Volumes.List())
		bad := len(s.Volumes.Bad)
		if got != want || bad != 1-want {
			t.Errorf("%s: got %d volumes and %d bad records, want %d volumes", record, got, bad, want)
		}
	}
}

// FuzzRecord: a record is rejected, or is read, copied, written and read again.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(volumeRecord))
	f.Add([]byte(snapshotRecord))
	f.Add([]byte(`{"ID":"x","State":"ready","Type":"image","Targets":{"/target":null}}`))
	f.Fuzz(func(t *testing.T, record []byte) {
		s := openWithRecord(t, record)
		for _, v := range s.Volumes.List() {
			if err := s.Volumes.Put(v.EditCopy()); err != nil {
				t.Fatal(err)
			}
		}
		known := len(s.Volumes.List())
		again := &Table[*Volume]{dir: s.Volumes.dir}
		err := again.loadRecords()
		if got := len(again.List()); err != nil || got != known {
			t.Errorf("a second load read %d of %d volumes: %v", got, known, err)
		}
	})
}
