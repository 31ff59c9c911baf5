package defaults

import (
	"time"

	"berth/structs"
)

// RestartPolicy returns the restart policy of a job type.
func RestartPolicy(jobType string) structs.RestartPolicy {
	p := structs.RestartPolicy{
		Attempts: 2,
		Interval: 30 * time.Minute,
		Delay:    15 * time.Second,
		Mode:     structs.RestartModeFail,
	}
	if jobType == structs.JobBatch || jobType == structs.JobSysBatch {
		p.Attempts = 3
		p.Interval = 24 * time.Hour
	}
	return p
}

// ReschedulePolicy returns the reschedule policy of a job type, nil for the per-node types, whose
// instances belong to their nodes.
func ReschedulePolicy(jobType string) *structs.ReschedulePolicy {
	switch jobType {
	case structs.JobService:
		return &structs.ReschedulePolicy{
			Delay:         30 * time.Second,
			DelayFunction: structs.RescheduleExponential,
			MaxDelay:      time.Hour,
			Unlimited:     true,
		}

	case structs.JobBatch:
		return &structs.ReschedulePolicy{
			Attempts:      1,
			Interval:      24 * time.Hour,
			Delay:         5 * time.Second,
			DelayFunction: structs.RescheduleConstant,
		}
	}
	return nil
}
