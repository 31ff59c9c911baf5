package control

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"berth/fsm"
	"berth/internal/level"
	"berth/server/control/garbage"
	"berth/state"
	"berth/structs"
)

// Short batch jobs leave many rows within the age that rows are kept for.
func TestCollection_KeepsAtMostSoManyRows(t *testing.T) {
	w := newTestEnv(t)
	w.addSizedNode("n", 40, map[string]string{
		"kernel.name":         "linux",
		structs.AttrNodeLevel: strconv.Itoa(level.Now),
	})
	for i := range 6 {
		w.runShortJob(fmt.Sprint("j", i))
	}
	rows := func() (allocs, evals []string) {
		for a := range state.EndedAllocs(w.Store.Read()) {
			allocs = append(allocs, a.JobID)
		}
		for e := range state.EndedEvals(w.Store.Read()) {
			evals = append(evals, e.JobID)
		}
		return allocs, evals
	}
	keep := garbage.Thresholds{
		Eval: time.Hour,
		Job:  time.Hour,
		Node: time.Hour,
	}
	collect := func() {
		t.Helper()
		c := garbage.Collection{Keep: keep, Now: time.Now()}
		if _, err := c.Run(t.Context(), w.Store.Read(), w.log); err != nil {
			t.Fatal(err)
		}
	}
	collect()
	allocs, evals := rows()
	if len(allocs) != 6 || len(evals) != 12 {
		t.Errorf("without a bound: %v, %v", allocs, evals)
	}
	keep.Rows = 4
	collect()
	allocs, evals = rows()
	if !slices.Equal(allocs, []string{"j2", "j3", "j4", "j5"}) ||
		!slices.Equal(evals, []string{"j4", "j4", "j5", "j5"}) {
		t.Errorf("with a bound of 4: %v, %v", allocs, evals)
	}
	for e := range state.EvalsByJob(w.Store.Read(), structs.DefaultNamespace, "j0") {
		t.Errorf("the evaluation of an allocation that is gone stays: %+v", e)
	}
	w.check()
}

// A batch job that nobody purges counts among the jobs.
func TestCollection_KeepsAtMostSoManyJobs(t *testing.T) {
	w := newTestEnv(t)
	for i := range 5 {
		put(w, fsm.JobRegister, &structs.JobRegisterRequest{
			WriteOptions: now(),
			Job:          shortJob(fmt.Sprint("j", i)),
			Eval: &structs.Evaluation{
				ID:     fmt.Sprint("e", i),
				Status: structs.EvalComplete,
			},
		})
	}
	c := garbage.Collection{Keep: garbage.Thresholds{
		Eval: time.Hour,
		Job:  time.Hour,
		Node: time.Hour,
		Rows: 3,
	}, Now: time.Now()}
	if _, err := c.Run(t.Context(), w.Store.Read(), w.log); err != nil {
		t.Fatal(err)
	}
	var left []string
	for j := range state.EndedJobs(w.Store.Read()) {
		left = append(left, j.ID)
	}
	if !slices.Equal(left, []string{"j2", "j3", "j4"}) {
		t.Errorf("%v stay", left)
	}
}
