package defaults

import (
	"berth/structs"
	"berth/structs/storage"
	"path"
	"time"
)

// Canonicalize fills in the defaults of a job. It is idempotent. It does not change the Count of a group: 0
// is a legal count.
func Canonicalize(j *structs.Job) {
	setDefault(&j.Region, structs.DefaultRegion)
	setDefault(&j.Namespace, structs.DefaultNamespace)
	setDefault(&j.Name, j.ID)
	setDefault(&j.Type, structs.JobService)
	setDefault(&j.Priority, structs.JobDefaultPriority)
	setDefault(&j.NodePool, structs.DefaultNodePool)
	if len(j.Datacenters) == 0 {
		j.Datacenters = []string{"*"}
	}

	// The groups inherit from the job, so the job comes first.
	canonicalizeUpdates(j)
	if j.Periodic != nil {
		setDefault(&j.Periodic.SpecType, structs.PeriodicCron)
		setDefault(&j.Periodic.TimeZone, "UTC")
	}

	if j.ParameterizedJob != nil {
		setDefault(&j.ParameterizedJob.Payload, structs.PayloadOptional)
	}

	for _, g := range j.TaskGroups {
		if g != nil {
			canonicalizeGroup(g, j)
		}
	}
}

// canonicalizeGroup completes a group of a job whose own fields are complete. Its tasks inherit the restart
// policy.
func canonicalizeGroup(g *structs.TaskGroup, j *structs.Job) {
	g.RestartPolicy = completeRestarts(g.RestartPolicy, RestartPolicy(j.Type))
	g.ReschedulePolicy = completeReschedules(g.ReschedulePolicy, ReschedulePolicy(j.Type))
	if j.Type == structs.JobSysBatch { // see validate.JobWarnings
		g.ReschedulePolicy = nil
	}

	g.Scaling = canonicalScaling(g.Scaling, g.Count)
	if g.EphemeralDisk == nil {
		g.EphemeralDisk = &structs.EphemeralDisk{SizeMB: structs.DefaultDiskMB}
	}

	canonicalizeConsul(g.Consul)
	for _, n := range g.Networks {
		canonicalizeNetwork(n)
	}

	// The name in the group is the volume's, unless a client of the dialect sends another.
	for alias, v := range g.Volumes {
		if v == nil {
			continue
		}
		setDefault(&v.Name, alias)
		if storage.IsClassRequest(v) || v.IsInline() {
			storage.CanonicalizeRequest(v, j.ID, g.Name, alias)
		}
		if v.Ownership != nil {
			setDefault(&v.Ownership.Policy, structs.OwnershipRootMismatch)
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
func completeRestarts(p *structs.RestartPolicy, def structs.RestartPolicy) *structs.RestartPolicy {
	if p == nil {
		return &def
	}
	setDefault(&p.Interval, def.Interval)
	setDefault(&p.Delay, def.Delay)
	setDefault(&p.Mode, def.Mode)
	return p
}

// completeReschedules completes a policy from the default of the type of the job, which is nil if jobs of
// this type are not rescheduled.
func completeReschedules(p, def *structs.ReschedulePolicy) *structs.ReschedulePolicy {
	switch {
	case p == nil:
		return def
	case def == nil && *p == structs.ReschedulePolicy{}:
		return nil // clients of the dialect send an empty one for types that have none
	// There is nothing to complete: the type has no policy, which validate rejects, or the group is never
	// rescheduled.
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

// canonicalizeNetwork completes the network of a group. Each port then names its host network, so that nobody
// has to know the default.
func canonicalizeNetwork(n *structs.NetworkResource) {
	if n == nil {
		return
	}
	setDefault(&n.Mode, structs.NetworkModeHost)
	for _, ports := range [][]structs.Port{n.ReservedPorts, n.DynamicPorts} {
		for i := range ports {
			setDefault(&ports[i].HostNetwork, structs.DefaultHostNetwork)
		}
	}
}

// CanonicalizeTask fills in the defaults of a task of a canonical group. It is idempotent.
func CanonicalizeTask(t *structs.Task, g *structs.TaskGroup) {
	// The policy of the group is the default of its tasks. A task that sets one field keeps the others of the
	// group.
	t.RestartPolicy = completeRestarts(t.RestartPolicy, *g.RestartPolicy)
	setDefault(&t.KillTimeout, structs.DefaultKillTimeout)
	if t.Lifecycle != nil && *t.Lifecycle == (structs.TaskLifecycle{}) {
		t.Lifecycle = nil // clients of the dialect send an empty one for a main task
	}

	if t.Resources == nil {
		t.Resources = &structs.Resources{}
	}

	if t.Resources.Cores == 0 {
		setDefault(&t.Resources.CPU, structs.DefaultTaskCPU)
	}

	setDefault(&t.Resources.MemoryMB, structs.DefaultTaskMemoryMB)
	t.Resources.DiskMB = 0 // the dialect ignores it, too; see validate.JobWarnings
	if t.LogConfig == nil {
		t.LogConfig = &structs.LogConfig{}
	}

	setDefault(&t.LogConfig.MaxFiles, structs.DefaultLogFiles)
	setDefault(&t.LogConfig.MaxFileSizeMB, structs.DefaultLogFileSizeMB)
	for _, x := range t.Templates {
		if x != nil {
			canonicalizeTemplate(x)
		}
	}

	canonicalizeIdentities(t)
	canonicalizeVault(t.Vault)
	canonicalizeConsul(t.Consul)
	canonicalizeMounts(t.VolumeMounts)
	for _, a := range t.Artifacts {
		if a != nil {
			canonicalizeArtifact(a)
		}
	}

	if c := t.CSIPluginConfig; c != nil {
		setDefault(&c.MountDir, structs.DefaultPluginMountDir)
		setDefault(&c.StagePublishBaseDir, structs.DefaultPluginStageDir)
		setDefault(&c.HealthTimeout, structs.DefaultHealthTimeout)
		canonicalizeTokens(c)
	}
}

// canonicalizeTokens sets the place that drivers look at which do not ask for another one.
func canonicalizeTokens(c *structs.CSIPluginConfig) {
	for _, t := range c.Tokens {
		if t != nil {
			setDefault(&t.TTL, structs.DefaultIdentityTTL)
		}
	}
	if len(c.Tokens) > 0 {
		setDefault(&c.TokensIn, structs.TokensInContext)
	}
}

func canonicalizeMounts(mounts []*structs.VolumeMount) {
	for _, m := range mounts {
		if m != nil {
			setDefault(&m.PropagationMode, structs.PropagationPrivate)
			if m.Snapshot != nil {
				setDefault(&m.Snapshot.Timeout, storage.DefaultSnapshotTimeout)
			}
		}
	}
}

// canonicalizeTemplate completes a template. 0 is a legal splay, so nil stands for the default.
func canonicalizeTemplate(t *structs.Template) {
	setDefault(&t.ChangeMode, structs.TemplateRestart)
	if t.ChangeMode == structs.TemplateSignal {
		setDefault(&t.ChangeSignal, structs.DefaultTemplateSignal)
	}
	if t.Splay == nil {
		t.Splay = new(structs.DefaultTemplateSplay)
	}
	setDefault(&t.Perms, structs.DefaultTemplatePerms)
	setDefault(&t.LeftDelim, structs.DefaultLeftDelim)
	setDefault(&t.RightDelim, structs.DefaultRightDelim)
	if t.ChangeScript != nil {
		setDefault(&t.ChangeScript.Timeout, structs.DefaultTemplateTimeout)
	}
}

// canonicalizeArtifact completes an artifact. A single file has its own name below local, anything else the
// directory.
func canonicalizeArtifact(a *structs.TaskArtifact) {
	setDefault(&a.GetterMode, structs.ArtifactAny)
	if a.GetterMode == structs.ArtifactFile {
		setDefault(&a.RelativeDest, path.Join("local", path.Base(a.GetterSource)))
	}
	setDefault(&a.RelativeDest, "local/")
}

// setDefault sets a field that has the zero value. It is for fields whose zero value means that they are left
// out.
func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
