package structs

import (
	"strings"
	"testing"
	"time"
)

func TestJobValidate_BoundsMaxRunDuration(t *testing.T) {
	for _, c := range []struct {
		jobType string
		bound   time.Duration
		want    string
	}{
		{JobBatch, time.Second, ""},
		{JobSysBatch, MaxInterval, ""},
		{JobBatch, 0, "max_run_duration 0s must be more than 0"},
		{JobBatch, -time.Second, "max_run_duration -1s must be more than 0"},
		{JobBatch, MaxInterval + time.Second, "must be at most 87600h0m0s"},
		{JobService, time.Hour, "max_run_duration is for batch and sysbatch jobs"},
		{JobSystem, time.Hour, "max_run_duration is for batch and sysbatch jobs"},
	} {
		err := testJob(func(j *Job) {
			j.Type = c.jobType
			j.TaskGroups[0].MaxRunDuration = &c.bound
			j.TaskGroups[0].Tasks[0].CSIPluginConfig = nil
		}).Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of a %s job: got %v, want %q", c.bound, c.jobType, err, c.want)
		}
	}
}
