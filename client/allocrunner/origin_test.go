package allocrunner

import (
	"testing"
	"testing/synctest"

	"berth/client/drivers/driver"
)

// A job may replace variables of its environment, not the names by which drivers know it.
func TestRunner_TellsTheDriverTheOriginOfATask(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		fx := newFixture(t)
		a := fx.agent()
		defer a.stop()
		alloc := testAlloc("web")
		alloc.Job.Name = "the job"
		alloc.Job.ParentID = "parent"
		alloc.Job.TaskGroups[0].Tasks[0].Env = map[string]string{"NOMAD_JOB_ID": "other"}
		a.new(alloc)
		synctest.Wait()
		cfg := fx.machine.Task("alloc1/web").Config
		want := driver.Origin{
			Namespace: "default",
			JobID:     "job",
			JobName:   "the job",
			ParentID:  "parent",
			Group:     "g",
			Alloc:     "job.g[0]",
		}
		if cfg.Of != want || cfg.Env["NOMAD_JOB_ID"] != "other" {
			t.Errorf("got %+v, %v", cfg.Of, cfg.Env)
		}
	})
}
