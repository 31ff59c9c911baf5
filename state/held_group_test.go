package state_test

import (
	"fmt"
	"slices"
	"testing"

	"berth/state"
	"berth/state/schema"
	"berth/structs"
)

// heldRow is an allocation of group g of job j in a case of TestHeldGroups_Misses.
type heldRow struct {
	index, version int
	stopped        bool   // the servers have stopped it
	next           string // its successor
	canary         bool
	other          bool // it belongs to another group
	former         bool // it is older than the job, which was purged
	late           bool // it is newer than those after it
}

// heldFixture has versions 0 to 2 of job j. The canaries of version 2, which is paused, exclude the users of
// volume v in version 1.
func heldFixture(t *testing.T, rows []heldRow) (*fixture, *state.HeldGroups) {
	t.Helper()
	w := newFixture(t)
	write := func(edit func(tx *state.WriteTx)) {
		w.Index++
		err := w.Store.Write(w.Index, func(tx *state.WriteTx) error { edit(tx); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	job := func(version int) *structs.Job {
		j := jobWithSalt("j", version)
		j.Namespace = structs.DefaultNamespace
		j.Version = uint64(version)
		j.TaskGroups[0].Count = 3
		j.TaskGroups[0].Update = &structs.UpdateStrategy{MaxParallel: 1, Canary: version / 2}
		access := structs.CSIMultiNodeMultipleWriter
		if version == 1 {
			access = structs.CSISingleNodeWriter
		}
		if version > 0 {
			j.TaskGroups[0].Volumes = map[string]*structs.VolumeRequest{"v": {
				Type: structs.VolumeTypeCSI, Source: "v", AccessMode: access,
			}}
		}
		return j
	}
	put := func(at int, r heldRow) {
		a := &structs.Allocation{
			ID:             fmt.Sprint(at),
			Namespace:      structs.DefaultNamespace,
			Name:           structs.AllocName("j", "g", r.index),
			JobID:          "j",
			TaskGroup:      "g",
			JobVersion:     uint64(r.version),
			NextAllocation: r.next,
			DesiredStatus:  structs.AllocDesiredRun,
			ClientStatus:   structs.AllocFailed,
		}
		if r.stopped {
			a.DesiredStatus = structs.AllocDesiredStop
		}
		if r.canary {
			a.DeploymentStatus = &structs.AllocDeploymentStatus{Canary: true}
		}
		if r.other {
			a.TaskGroup = "h"
		}
		write(func(tx *state.WriteTx) { schema.Allocs.Put(tx, a) })
	}
	for at, r := range rows {
		if r.former {
			put(at, r)
		}
	}
	for version := range 3 {
		write(func(tx *state.WriteTx) { schema.JobVersions.Put(tx, job(version)) })
	}
	write(func(tx *state.WriteTx) { schema.Jobs.Put(tx, job(2)) })
	for _, late := range []bool{false, true} {
		for at, r := range rows {
			if !r.former && r.late == late {
				put(at, r)
			}
		}
	}
	j := state.Job(w.Store.Read(), structs.DefaultNamespace, "j")
	d := &structs.Deployment{
		JobVersion: 2,
		Status:     structs.DeploymentPaused,
		TaskGroups: map[string]*structs.DeploymentState{"g": {DesiredCanaries: 1, Promoted: true}},
	}
	return w, &state.HeldGroups{Job: j, Deployment: d}
}

// A held group gets successors for those of its allocations that were taken away, and no others.
func TestHeldGroups_Misses(t *testing.T) {
	for name, c := range map[string]struct {
		rows  []heldRow
		taken []int
		want  []string
	}{
		"none was placed":     {},
		"taken away":          {rows: []heldRow{{stopped: true}, {index: 2, stopped: true}}, want: []string{"0", "1"}},
		"of the new version":  {rows: []heldRow{{version: 2, stopped: true}}, want: []string{"0"}},
		"ended by itself":     {rows: []heldRow{{}}},
		"has a successor":     {rows: []heldRow{{stopped: true, next: "x"}}},
		"canary":              {rows: []heldRow{{version: 2, stopped: true, canary: true}}},
		"another group":       {rows: []heldRow{{stopped: true, other: true}}},
		"job that was purged": {rows: []heldRow{{stopped: true, former: true}}},
		"beyond the count":    {rows: []heldRow{{index: 3, stopped: true}}},
		"its index is taken":  {rows: []heldRow{{stopped: true}}, taken: []int{0}},
		"a newer one took it": {rows: []heldRow{{stopped: true}, {stopped: true}}, want: []string{"1"}},
		"a newer one ended":   {rows: []heldRow{{stopped: true}, {}}},
		"an earlier one":      {rows: []heldRow{{late: true}, {stopped: true}}},
		"of an older version": {rows: []heldRow{{index: 1, version: 1}, {stopped: true}}},
		"of a former version": {rows: []heldRow{{stopped: true}, {index: 1, version: 1}}},
		"as many as the count": {
			rows:  []heldRow{{stopped: true}, {index: 1, stopped: true}},
			taken: []int{4, 5},
			want:  []string{"0"},
		},
	} {
		w, h := heldFixture(t, c.rows)
		taken := map[int]bool{}
		for _, index := range c.taken {
			taken[index] = true
		}
		var got []string
		for _, a := range h.Misses(w.Store.Read(), h.Job.TaskGroups[0], taken) {
			got = append(got, a.ID)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the group misses %v, want %v", name, got, c.want)
		}
	}
}

// An allocation that would exclude canaries does not come before their promotion.
func TestHeldGroups_MissNoAllocationThatExcludesCanaries(t *testing.T) {
	for status, want := range map[string]int{structs.DeploymentRunning: 0, structs.DeploymentFailed: 1} {
		w, h := heldFixture(t, []heldRow{{version: 1, stopped: true}})
		h.Deployment.Status = status
		h.Deployment.TaskGroups["g"].Promoted = false
		if got := len(h.Misses(w.Store.Read(), h.Job.TaskGroups[0], nil)); got != want {
			t.Errorf("deployment %s: the group misses %d, want %d", status, got, want)
		}
	}
}

// A deployment that is not to hold a group adds canaries up to their number.
func TestHeldGroups_MissedCanaries(t *testing.T) {
	_, h := heldFixture(t, nil)
	g := h.Job.TaskGroups[0]
	for _, c := range []struct {
		status         string
		promoted       bool
		has, want      int
		desired        int
		withoutUpdates bool
		held           bool
	}{
		{status: structs.DeploymentRunning, desired: 3, has: 1, want: 2, held: true},
		{status: structs.DeploymentRunning, desired: 3, has: 4, held: true},
		{status: structs.DeploymentRunning, desired: 3, promoted: true},
		{status: structs.DeploymentPaused, desired: 3, has: 1, held: true},
		{status: structs.DeploymentFailed, desired: 3, promoted: true, held: true},
		{status: structs.DeploymentFailed, withoutUpdates: true},
	} {
		h.Deployment.Status = c.status
		h.Deployment.TaskGroups["g"] = &structs.DeploymentState{DesiredCanaries: c.desired, Promoted: c.promoted}
		g := *g
		if c.withoutUpdates {
			g.Update = nil
		}
		if got := h.MissedCanaries(&g, c.has); got != c.want || h.Holds(&g) != c.held {
			t.Errorf("%+v: %d canaries are missing, and the group is held: %v", c, got, h.Holds(&g))
		}
	}
}
