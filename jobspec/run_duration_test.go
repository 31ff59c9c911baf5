package jobspec

import (
	"testing"
	"time"
)

func TestReadJob_ReadsMaxRunDuration(t *testing.T) {
	job, err := parseJob("j.hcl", []byte(`
job "j" {
  type = "batch"
  group "g" {
    max_run_duration = "90m"
    task "t" {
      driver = "exec"
    }
  }
}`))
	if err != nil {
		t.Fatal(err)
	}
	got := job.TaskGroups[0].MaxRunDuration
	if got == nil || *got != 90*time.Minute {
		t.Errorf("got %v", got)
	}
}
