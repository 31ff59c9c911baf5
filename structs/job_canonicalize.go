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

// Canonicalize fills in the defaults. It is idempotent. It does not change the Count of a group: 0 is a legal
// count.
func (j *Job) Canonicalize() {
	setDefault(&j.Region, DefaultRegion)
	setDefault(&j.Namespace, DefaultNamespace)
	setDefault(&j.Name, j.ID)
	setDefault(&j.Type, JobService)
	setDefault(&j.Priority, JobDefaultPriority)
	setDefault(&j.NodePool, DefaultNodePool)
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}

	j.canonicalizeUpdates()
	if j.Periodic != nil {
		j.Periodic.canonicalize()
	}

	if j.ParameterizedJob != nil {
		setDefault(&j.ParameterizedJob.Payload, PayloadOptional)
	}

	for _, g := range j.TaskGroups {
		if g != nil {
			g.canonicalize(j)
		}
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (g *TaskGroup) canonicalize(j *Job) {
	g.RestartPolicy = g.RestartPolicy.withDefaults(
		DefaultRestartPolicy(j.Type))
	g.ReschedulePolicy = g.ReschedulePolicy.withDefaults(
		DefaultReschedulePolicy(j.Type))
	if j.Type == JobSysBatch { // see validate.JobWarnings
		g.ReschedulePolicy = nil
	}

	g.Scaling = g.Scaling.Canonicalize(g.Count)
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &EphemeralDisk{SizeMB: DefaultDiskMB}
	}

	for _, n := range g.Networks {
		n.canonicalize()
	}

	for alias, v := range g.Volumes {
		if v != nil {
			setDefault(&v.Name, alias)
		}
	}

	for _, t := range g.Tasks {
		if t != nil {
			t.Canonicalize(g)
		}
	}

	for s := range g.AllServices() {
		s.canonicalize(j, g, s.Owner)
	}
}

// withDefaults completes a policy from the default. It returns the default itself for nil.
func (p *RestartPolicy) withDefaults(def RestartPolicy) *RestartPolicy {
	if p == nil {
		return &def
	}
	setDefault(&p.Interval, def.Interval)
	setDefault(&p.Delay, def.Delay)
	setDefault(&p.Mode, def.Mode)
	return p
}

func (p *ReschedulePolicy) withDefaults(def *ReschedulePolicy) *ReschedulePolicy {
	switch {
	case p == nil:
		return def
	case def == nil && *p == ReschedulePolicy{}:
		return nil // clients of the dialect send an empty one for types that have none
	case def == nil || p.Attempts == 0 && !p.Unlimited:
		return p
	}
	setDefault(&p.Interval, def.Interval)
	setDefault(&p.Delay, def.Delay)
	setDefault(&p.DelayFunction, def.DelayFunction)
	if p.DelaysGrow() {
		setDefault(&p.MaxDelay, time.Hour)
	}
	return p
}

// Enabled reports whether a policy reschedules allocations at all. nil does not.
func (p *ReschedulePolicy) Enabled() bool {
	return p != nil && (p.Unlimited || p.Attempts > 0)
}

// DelaysGrow reports whether each delay is longer than the one before, up to MaxDelay.
func (p *ReschedulePolicy) DelaysGrow() bool {
	return p.DelayFunction == RescheduleExponential || p.DelayFunction == RescheduleFibonacci
}

func (n *NetworkResource) canonicalize() {
	if n == nil {
		return
	}
	setDefault(&n.Mode, NetworkModeHost)
	for _, ports := range [][]Port{n.ReservedPorts, n.DynamicPorts} {
		for i := range ports {
			setDefault(&ports[i].HostNetwork, DefaultHostNetwork)
		}
	}
}

// Canonicalize fills in the defaults of a task of a canonical group. It is idempotent.
func (t *Task) Canonicalize(g *TaskGroup) {
	if t.RestartPolicy == nil {
		t.RestartPolicy = clonePtr(g.RestartPolicy)
	}

	t.RestartPolicy.withDefaults(*g.RestartPolicy)
	setDefault(&t.KillTimeout, DefaultKillTimeout)
	if t.Lifecycle != nil && *t.Lifecycle == (TaskLifecycle{}) {
		t.Lifecycle = nil // clients of the dialect send an empty one for a main task
	}

	if t.Resources == nil {
		t.Resources = &Resources{}
	}

	if t.Resources.Cores == 0 {
		setDefault(&t.Resources.CPU, DefaultTaskCPU)
	}

	setDefault(&t.Resources.MemoryMB, DefaultTaskMemoryMB)
	t.Resources.DiskMB = 0 // the dialect ignores it, too; see validate.JobWarnings
	if t.LogConfig == nil {
		t.LogConfig = &LogConfig{}
	}

	setDefault(&t.LogConfig.MaxFiles, DefaultLogFiles)
	setDefault(&t.LogConfig.MaxFileSizeMB, DefaultLogFileSizeMB)
	for _, x := range t.Templates {
		if x != nil {
			x.canonicalize()
		}
	}

	canonicalizeMounts(t.VolumeMounts)
	for _, a := range t.Artifacts {
		if a != nil {
			a.canonicalize()
		}
	}

	if c := t.CSIPluginConfig; c != nil {
		setDefault(&c.MountDir, DefaultPluginMountDir)
		setDefault(&c.StagePublishBaseDir, DefaultPluginStageDir)
		setDefault(&c.HealthTimeout, DefaultHealthTimeout)
	}
}

func canonicalizeMounts(mounts []*VolumeMount) {
	for _, m := range mounts {
		if m != nil {
			setDefault(&m.PropagationMode, PropagationPrivate)
		}
	}
}
