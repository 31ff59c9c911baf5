package structs

import "time"

// The defaults of groups and tasks.
const (
	DefaultKillTimeout     = 5 * time.Second
	DefaultTaskCPU         = 100 // MHz
	DefaultTaskMemoryMB    = 300
	DefaultDiskMB          = 300
	DefaultLogFiles        = 10
	DefaultLogFileSizeMB   = 10
	DefaultPluginMountDir  = "/csi"
	DefaultPluginStageDir  = "/local/csi"
	DefaultHealthTimeout   = 30 * time.Second
	DefaultHangTimeout     = 2 * time.Minute // applied on the node: a stored job keeps 0
	defaultRestartInterval = 30 * time.Minute
)

// The values of a job's modes: of mount propagation, of restarts, of the delays of rescheduling; and the type
// of a volume, of which there is one.
const (
	PropagationPrivate    = "private"
	PropagationHostToTask = "host-to-task"
	PropagationBothWays   = "bidirectional"
	RestartModeFail       = "fail"
	RestartModeDelay      = "delay"
	RescheduleConstant    = "constant"
	RescheduleExponential = "exponential"
	RescheduleFibonacci   = "fibonacci"
	VolumeTypeCSI         = "csi"
)

// DefaultRestartPolicy returns the restart policy of a job type.
func DefaultRestartPolicy(jobType string) RestartPolicy {
	p := RestartPolicy{
		Attempts: 2,
		Interval: defaultRestartInterval,
		Delay:    15 * time.Second,
		Mode:     RestartModeFail,
	}
	if jobType == JobBatch || jobType == JobSysBatch {
		p.Attempts = 3
		p.Interval = 24 * time.Hour
	}
	return p
}

// DefaultReschedulePolicy returns the reschedule policy of a job type, nil for the per-node types, whose
// instances belong to their nodes.
func DefaultReschedulePolicy(jobType string) *ReschedulePolicy {
	switch jobType {
	case JobService:
		return &ReschedulePolicy{
			Delay:         30 * time.Second,
			DelayFunction: RescheduleExponential,
			MaxDelay:      time.Hour,
			Unlimited:     true,
		}

	case JobBatch:
		return &ReschedulePolicy{
			Attempts:      1,
			Interval:      24 * time.Hour,
			Delay:         5 * time.Second,
			DelayFunction: RescheduleConstant,
		}
	}
	return nil
}

// Enabled reports whether a policy reschedules allocations at all. nil does not.
func (p *ReschedulePolicy) Enabled() bool {
	return p != nil && (p.Unlimited || p.Attempts > 0)
}

// DelaysGrow reports whether each delay is longer than the one before, up to MaxDelay.
func (p *ReschedulePolicy) DelaysGrow() bool {
	return p.DelayFunction == RescheduleExponential || p.DelayFunction == RescheduleFibonacci
}
