package watch

import (
	"testing"
	"time"

	"berth/test/kit"
)

// The disk of the orders is full, and then also the memory of the node. The tasks end with the lease all the
// same, and the record of that is written when there is space.
func TestGuard_EndsAnAllocationOnAFullDisk(t *testing.T) {
	for name, fill := range map[string]func(f *fixture) string{
		"the disk":   func(f *fixture) string { return f.files.Dir },
		"the memory": func(f *fixture) string { return f.files.Memory },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			full := fill(f)
			kit.MountDiskAt(t, full, "1m")
			f.openLease()
			f.renew(time.Hour)
			group, task := f.task("full")
			v := f.orderFor("a1", group)
			f.guard()
			free := kit.FillDisk(t, full, 0)
			until := f.renew(300 * time.Millisecond)
			f.killed(task)
			f.eventually("the volume is unmounted", func() bool {
				return !f.isMounted(v.Target) && !f.isMounted(v.Stage)
			})
			free()
			e := f.ended("a1", func(e *Ended) bool { return e.Unmounted })
			if e.Due != until || e.Empty < until {
				t.Errorf("the lease ended at %d, the record is %+v", until, e)
			}
		})
	}
}
