package hostpath

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
func openWithRecord(t *testing.T, record []byte) *store {
	t.Helper()
	dir := t.TempDir()
	for _, shelf := range []string{"volumes", "snapshots"} {
		row := filepath.Join(dir, shelf, "x")
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
		if got := len(s.volumes.listRecords()); got != want || len(s.volumes.bad) != 1-want {
			t.Errorf("%s: %d volumes, %d left alone", record, got, len(s.volumes.bad))
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
		for _, v := range s.volumes.listRecords() {
			if err := s.volumes.putRecord(v.fresh()); err != nil {
				t.Fatal(err)
			}
		}
		known := len(s.volumes.listRecords())
		again := &recordDir[*volume]{dir: s.volumes.dir, rows: map[string]*volume{}}
		if err := again.loadRecords(); err != nil || len(again.listRecords()) != known {
			t.Errorf("%d of %d volumes are read again: %v", len(again.listRecords()), known, err)
		}
	})
}
