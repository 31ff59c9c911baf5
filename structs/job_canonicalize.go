package structs

import (
	"path"
	"time"
)

// Canonicalize fills in the defaults of a job. It is idempotent. It does not change the Count of a group: 0 is a legal
// count.
func Canonicalize(j *Job) {
	setDefault(&j.Region, DefaultRegion)
	setDefault(&j.Namespace, DefaultNamespace)
	setDefault(&j.Name, j.ID)
	setDefault(&j.Type, JobService)
	setDefault(&j.Priority, JobDefaultPriority)
	setDefault(&j.NodePool, DefaultNodePool)
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}

	canonicalizeUpdates(j)
	if j.Periodic != nil {
		setDefault(&j.Periodic.SpecType, PeriodicCron)
		setDefault(&j.Periodic.TimeZone, "UTC")
	}

	if j.ParameterizedJob != nil {
		setDefault(&j.ParameterizedJob.Payload, PayloadOptional)
	}

	for _, g := range j.TaskGroups {
		if g != nil {
			canonicalizeGroup(g, j)
		}
	}
}

func canonicalizeGroup(g *TaskGroup, j *Job) {
	g.RestartPolicy = completeRestarts(g.RestartPolicy, DefaultRestartPolicy(j.Type))
	g.ReschedulePolicy = completeReschedules(g.ReschedulePolicy, DefaultReschedulePolicy(j.Type))
	if j.Type == JobSysBatch { // see validate.JobWarnings
		g.ReschedulePolicy = nil
	}

	g.Scaling = canonicalScaling(g.Scaling, g.Count)
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &EphemeralDisk{SizeMB: DefaultDiskMB}
	}

	for _, n := range g.Networks {
		canonicalizeNetwork(n)
	}

	for alias, v := range g.Volumes {
		if v != nil {
			setDefault(&v.Name, alias)
		}
	}

	for _, t := range g.Tasks {
		if t != nil {
			CanonicalizeTask(t, g)
		}
	}

	for s := range g.AllServices() {
		canonicalizeService(s, j, g)
	}
}

// completeRestarts completes a policy from the default. It returns the default itself for nil.
func completeRestarts(p *RestartPolicy, def RestartPolicy) *RestartPolicy {
	if p == nil {
		return &def
	}
	setDefault(&p.Interval, def.Interval)
	setDefault(&p.Delay, def.Delay)
	setDefault(&p.Mode, def.Mode)
	return p
}

func completeReschedules(p, def *ReschedulePolicy) *ReschedulePolicy {
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

func canonicalizeNetwork(n *NetworkResource) {
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

// CanonicalizeTask fills in the defaults of a task of a canonical group. It is idempotent.
func CanonicalizeTask(t *Task, g *TaskGroup) {
	t.RestartPolicy = completeRestarts(t.RestartPolicy, *g.RestartPolicy)
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
			canonicalizeTemplate(x)
		}
	}

	canonicalizeMounts(t.VolumeMounts)
	for _, a := range t.Artifacts {
		if a != nil {
			canonicalizeArtifact(a)
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

func canonicalizeTemplate(t *Template) {
	setDefault(&t.ChangeMode, TemplateRestart)
	if t.ChangeMode == TemplateSignal {
		setDefault(&t.ChangeSignal, DefaultTemplateSignal)
	}
	if t.Splay == nil {
		t.Splay = new(DefaultTemplateSplay)
	}
	setDefault(&t.Perms, DefaultTemplatePerms)
	setDefault(&t.LeftDelim, DefaultLeftDelim)
	setDefault(&t.RightDelim, DefaultRightDelim)
	if t.ChangeScript != nil {
		setDefault(&t.ChangeScript.Timeout, DefaultTemplateTimeout)
	}
}

func canonicalizeArtifact(a *TaskArtifact) {
	setDefault(&a.GetterMode, ArtifactAny)
	if a.GetterMode == ArtifactFile {
		setDefault(&a.RelativeDest, path.Join("local", path.Base(a.GetterSource)))
	}
	setDefault(&a.RelativeDest, "local/")
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
