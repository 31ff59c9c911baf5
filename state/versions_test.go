package state

import (
	"testing"

	"berth/structs"
)

// TestAVersionIsNoJob: versions outlive their job while allocations use them; whoever lists the jobs from
// somewhere on does not find them, in a store that has no jobs at all.
func TestAVersionIsNoJob(t *testing.T) {
	s := New()
	_ = s.Write(1, func(tx *Write) error {
		jobVersions.put(tx, &structs.Job{Namespace: "default", ID: "gone", Version: 1})
		return nil
	})
	list := func(rows func(func(*structs.Job) bool)) string {
		return ids(rows, func(j *structs.Job) string { return j.ID })
	}
	for _, ns := range []string{"default", structs.AllNamespaces} {
		for _, at := range []Start{{Key: []string{"default", "a"}}, {Reverse: true}, {Reverse: true, Key: []string{"default", "z"}}} {
			if got := list(JobsFrom(s.Read(), ns, "", at)); got != "" {
				t.Errorf("jobs of %s from %v on: %s", ns, at, got)
			}
		}
	}
	for c := jobs.from(s.Read()); ; {
		j := c.Next()
		if j == nil {
			return
		}
		t.Errorf("from the first on: %s", j.ID)
	}
}
