package watch

import (
	"os"
	"testing"

	"berth/internal/boottime"
	"berth/internal/files"
	"berth/test/kit"
)

// A write that fails leaves the former order, mark or record, and no part of the new one.
func TestFiles_OnAFullDiskStayAsTheyWere(t *testing.T) {
	dir := kit.MountDisk(t, "1m")
	f := OrderFiles{Dir: dir, Memory: dir}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.Put(&Order{AllocID: "a", BootID: "b1"}))
	must(f.WriteEnded(&Ended{AllocID: "a", BootID: "b1"}))
	free := kit.FillDisk(t, dir, 0)
	writes := map[string]func() error{
		"an order":          func() error { return f.Put(&Order{AllocID: "a", BootID: "b2"}) },
		"another order":     func() error { return f.Put(&Order{AllocID: "new", BootID: "b2"}) },
		"a record":          func() error { return f.WriteEnded(&Ended{AllocID: "a", BootID: "b2"}) },
		"a mark of the end": func() error { return f.MarkDue(&Due{AllocID: "a", At: boottime.Instant(7)}) },
	}
	for name, write := range writes {
		if err := write(); !files.IsNoSpace(err) {
			t.Errorf("%s: got %v, want no space", name, err)
		}
	}
	o, err := f.Get("a")
	e, err2 := f.Ended("a")
	due, err3 := f.Due("a")
	if err != nil || err2 != nil || err3 != nil || o.BootID != "b1" || e.BootID != "b1" || due != nil {
		t.Errorf("the files have %+v (%v), %+v (%v) and %+v (%v)", o, err, e, err2, due, err3)
	}
	if ids, err := f.List(); err != nil || len(ids) != 1 {
		t.Errorf("the orders are %q (%v)", ids, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3 { // with the filler
		t.Errorf("the folder has %v (%v)", entries, err)
	}

	free()
	for name, write := range writes {
		if err := write(); err != nil {
			t.Errorf("%s with space: %v", name, err)
		}
	}
	must(f.Remove("a"))
}
