package structs

import "time"

// The defaults of groups and tasks.
const (
	DefaultKillTimeout    = 5 * time.Second
	DefaultTaskCPU        = 100 // MHz
	DefaultTaskMemoryMB   = 300
	DefaultDiskMB         = 300
	DefaultLogFiles       = 10
	DefaultLogFileSizeMB  = 10
	DefaultPluginMountDir = "/csi"
	DefaultPluginStageDir = "/local/csi"
	DefaultHealthTimeout  = 30 * time.Second
	DefaultHangTimeout    = 2 * time.Minute // applied on the node: a stored job keeps 0
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

// Enabled reports whether a policy reschedules allocations at all. nil does not.
func (p *ReschedulePolicy) Enabled() bool {
	return p != nil && (p.Unlimited || p.Attempts > 0)
}

// DelaysGrow reports whether each delay is longer than the one before, up to MaxDelay.
func (p *ReschedulePolicy) DelaysGrow() bool {
	return p.DelayFunction == RescheduleExponential || p.DelayFunction == RescheduleFibonacci
}
