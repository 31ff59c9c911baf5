package fsm

import (
	"testing"
	"time"

	"berth/structs"
)

// An older server would apply a part of a plan of the job.
func TestNeeds_CountsAllAtOnce(t *testing.T) {
	for whole, want := range map[bool]int{false: 0, true: AllAtOnceSince} {
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: &structs.Job{AllAtOnce: whole}})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != want {
			t.Errorf("a job with AllAtOnce %v needs version %d, want %d", whole, got, want)
		}
	}
}

func TestNeeds_CountsMaxRunDuration(t *testing.T) {
	for bound, want := range map[*time.Duration]int{nil: 0, new(time.Hour): RunDurationSince} {
		job := &structs.Job{TaskGroups: []*structs.TaskGroup{{MaxRunDuration: bound}}}
		entry, err := JobRegister.Encode(&structs.JobRegisterRequest{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		if got := JobRegister.Needs(entry); got != want {
			t.Errorf("a job with MaxRunDuration %v needs version %d, want %d", bound, got, want)
		}
	}
}
