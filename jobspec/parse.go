package jobspec

import (
	"cmp"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/conf"
	"berth/jobspec/evaluate"
	"berth/jobspec/locate"
	"berth/structs"
	"berth/structs/defaults"
)

// jsonFile is the body of a job file in JSON, before its evaluation. The other parts of its blocks of locals
// are arguments.
type jsonFile struct {
	evaluate.VariableFile
	Locals []*struct{} `hcl:"locals,block"`
	jobFile
}

// Inputs are the values of variables from outside the file.
type Inputs = evaluate.Inputs

// VarFile is a file of values.
type VarFile = evaluate.VarFile

// JobFile is a job that was read from a file.
type JobFile struct {
	Job      *structs.Job
	Warnings hcl.Diagnostics // of parts of the file that have no effect

	locator locate.Locator
}

// Locate adds the position in the file to each fault, as locate.Locator.Locate.
func (f *JobFile) Locate(err error) error { return f.locator.Locate(err) }

// ReadJob reads a job file with values from outside. A file whose first character is a brace, or whose name
// ends in .json, is JSON. An error is of kind invalid and has a line `file:line,col: message` for each fault.
// If the faults leave a job, ReadJob also returns the file: its job lacks the parts with faults.
func ReadJob(filename string, src []byte, in *Inputs) (*JobFile, error) {
	parsed, diags := evaluate.Parse(filename, src, jsonFile{})
	if diags.HasErrors() {
		return nil, conf.Error(diags)
	}

	body, s := parsed.Prepare(filename, in)
	f := &JobFile{
		locator: locate.Locator{
			Body:    body,
			Spec:    "job",
			Unset:   s.Unset(),
			Spoiled: map[hcl.Range]bool{},
		},
	}

	c := converter{
		faults:  faults{s.Faults()},
		spoiled: f.locator.Spoiled,
	}
	var file jobFile
	diags = conf.DecodePartly(body, s.Context(), &file, s.Unset())
	c.diags = append(c.diags, diags...)
	// Another fault may be the reason for which there is no job.
	if len(file.Jobs) != 1 && !c.diags.HasErrors() {
		at := body.MissingItemRange()
		if len(file.Jobs) > 1 {
			at = file.Jobs[1].At
		}

		c.fault(at, "the file has %d jobs; expected one block job \"id\" { ... }", len(file.Jobs))
	}

	// All are converted, so that the faults of all are reported.
	for _, j := range file.Jobs {
		f.Job = c.job(j)
	}

	if len(file.Jobs) != 1 {
		f.Job = nil
	}

	if s.Exceeded() {
		f.Job = nil
		c.diags = nil // unknown values may have caused others
		c.fault(s.Start(), "the values of the file are too large; expected at most %d bytes in all expressions",
			structs.MaxEvaluation)
	}

	s.NameUndeclared(c.diags)
	parsed.Locate(c.diags)
	f.Warnings = conf.WarningsOf(c.diags)
	if f.Job == nil {
		return nil, conf.Error(c.diags)
	}

	return f, conf.Error(c.diags)
}

// faults collects the faults of a file.
type faults struct{ diags hcl.Diagnostics }

func (f *faults) fault(at hcl.Range, format string, args ...any) {
	f.diags = append(f.diags, conf.Fault(at, format, args...))
}

func (f *faults) warn(at hcl.Range, format string, args ...any) {
	f.diags = append(f.diags, conf.Warning(at, format, args...))
}

// converter converts blocks to structs.
type converter struct {
	faults
	// The defaults of the policies depend on it.
	jobType string
	// The job around the groups, whose policies theirs change.
	ofJob *job
	// See locate.Locator.
	spoiled map[hcl.Range]bool
}

func (c *converter) job(j *job) *structs.Job {
	out := &structs.Job{
		Region:      j.Region,
		Namespace:   j.Namespace,
		ID:          cmp.Or(j.ID, j.Label),
		Name:        j.Name,
		Type:        j.Type,
		AllAtOnce:   j.AllAtOnce,
		Datacenters: j.Datacenters,
		NodePool:    j.NodePool,
		Constraints: c.constraints(j.Constraints),
		Affinities:  c.affinities(j.Affinities),
		Spreads:     spreads(j.Spreads),
		Meta:        j.Meta,
	}

	out.Periodic = j.Periodic.config()
	out.ParameterizedJob = (*structs.ParameterizedJobConfig)(j.Parameters)
	// The groups below take their defaults from these two.
	c.jobType = cmp.Or(j.Type, structs.JobService)
	c.ofJob = j
	out.Update = j.Update.override(structs.DefaultUpdateStrategy())
	out.Migrate = j.Migrate.override(structs.DefaultMigrateStrategy())
	if j.Priority != nil {
		out.Priority = *j.Priority
		if out.Priority == 0 { // in structs.Job it means the default
			c.fault(j.At, "priority 0; expected a number from %d to %d",
				structs.JobMinPriority, structs.JobMaxPriority)
		}
	}

	seen := map[string]bool{}
	for _, g := range j.Groups {
		if !c.isFirst(seen, "group", g.Name, g.At) {
			continue
		}

		out.TaskGroups = append(out.TaskGroups, c.group(g))
	}

	for _, t := range j.Tasks {
		if !c.isFirst(seen, "group", t.Name, t.At) {
			continue
		}

		// A task outside of a group is in one of its own name.
		out.TaskGroups = append(out.TaskGroups, c.group(&group{
			Name:  t.Name,
			At:    t.At,
			Tasks: []*task{t},
		}))
	}

	return out
}

// config returns the schedule, which is on unless the block turns it off.
func (p *periodic) config() *structs.PeriodicConfig {
	if p == nil {
		return nil
	}
	out := &structs.PeriodicConfig{
		Enabled:         true,
		Spec:            p.Spec,
		Specs:           p.Specs,
		ProhibitOverlap: p.ProhibitOverlap,
		TimeZone:        p.TimeZone,
	}
	override(&out.Enabled, p.Enabled)
	return out
}

// isFirst adds name to seen. It adds a fault and returns false if name is there already.
func (c *converter) isFirst(seen map[string]bool, noun, name string, at hcl.Range) bool {
	if seen[name] {
		c.fault(at, "duplicate %s %q; expected each name once", noun, name)
		return false
	}
	seen[name] = true
	return true
}

// group converts a group. The group has the job's policies where it names none.
func (c *converter) group(g *group) *structs.TaskGroup {
	out := &structs.TaskGroup{
		Name:          g.Name,
		Count:         1,
		Constraints:   c.constraints(g.Constraints),
		Affinities:    c.affinities(g.Affinities),
		Spreads:       spreads(g.Spreads),
		Meta:          g.Meta,
		ShutdownDelay: g.ShutdownDelay,
		Services:      c.services(g.Services),
	}

	out.MaxRunDuration = g.MaxRun
	out.Disconnect = c.disconnect(g)
	c.policies(g, out)
	// The count that a group names precedes the least count of its scaling, which policies has set.
	override(&out.Count, g.Count)
	def := defaults.RestartPolicy(c.jobType)
	if g.Restart != nil {
		out.RestartPolicy = g.Restart.override(def)
		// The policy of the group is the default of its tasks.
		def = *out.RestartPolicy
	}

	if d := g.EphemeralDisk; d != nil {
		out.EphemeralDisk = &structs.EphemeralDisk{
			SizeMB:  structs.DefaultDiskMB,
			Sticky:  d.Sticky,
			Migrate: d.Migrate,
		}

		override(&out.EphemeralDisk.SizeMB, d.Size)
	}

	if g.Network != nil {
		out.Networks = []*structs.NetworkResource{g.Network.resource()}
	}

	out.Volumes = requests(g.Volumes)
	around := c.around()
	out.Consul = consulOf(g.Consul, around.Consul)
	seen := map[string]bool{}
	for _, t := range g.Tasks {
		if !c.isFirst(seen, "task", t.Name, t.At) {
			continue
		}

		task := c.task(t, def)
		task.Vault = vaultOf(around.Vault, g.Vault, t.Vault)
		task.Consul = consulOf(t.Consul)
		out.Tasks = append(out.Tasks, task)
		// This follows the task into the group, because it may change the configuration of the task.
		c.moveNetworks(out, t)
	}

	return out
}

// requests converts the volumes of a group, nil for none.
func requests(volumes map[string]*volume) map[string]*structs.VolumeRequest {
	var out map[string]*structs.VolumeRequest
	for alias, v := range volumes {
		if out == nil {
			out = map[string]*structs.VolumeRequest{}
		}

		out[alias] = v.request(alias)
	}
	return out
}

// config converts a csi_plugin block.
func (p *csiPlugin) config() *structs.CSIPluginConfig {
	if p == nil {
		return nil
	}

	out := &structs.CSIPluginConfig{
		ID:                  p.ID,
		Type:                p.Type,
		MountDir:            p.MountDir,
		StagePublishBaseDir: p.StagePublishBaseDir,
		HealthTimeout:       p.HealthTimeout,
		HangTimeout:         p.HangTimeout,
		FormerProvider:      p.FormerProvider,
		TokensIn:            p.TokensIn,
		RequiresRepublish:   p.RequiresRepublish,
	}

	for _, t := range p.Tokens {
		out.Tokens = append(out.Tokens, (*structs.CSIToken)(t))
	}
	return out
}

// request converts a volume. The alias is its name in the job: the volume itself has another one.
func (v *volume) request(alias string) *structs.VolumeRequest {
	return &structs.VolumeRequest{
		Name:           alias,
		Type:           v.Type,
		Source:         v.Source,
		ReadOnly:       v.ReadOnly,
		AccessMode:     v.AccessMode,
		AttachmentMode: v.AttachmentMode,
		MountOptions:   (*structs.CSIMountOptions)(v.MountOptions),
		PerAlloc:       v.PerAlloc,
		Sticky:         v.Sticky,
		OnDeadMount:    v.OnDeadMount,
		Ownership:      (*structs.VolumeOwnership)(v.Ownership),
		Class:          v.Class,
		Size:           int64(v.Size),
		Lifecycle:      v.Lifecycle,
		PluginID:       v.PluginID,
		Parameters:     v.Parameters,
	}
}

// task converts a task. restart is the policy that its block changes.
func (c *converter) task(t *task, restart structs.RestartPolicy) *structs.Task {
	out := &structs.Task{
		Name:            t.Name,
		Driver:          t.Driver,
		User:            t.User,
		Config:          t.Config,
		Env:             t.Env,
		Constraints:     c.constraints(t.Constraints),
		Affinities:      c.affinities(t.Affinities),
		Meta:            t.Meta,
		KillTimeout:     t.KillTimeout,
		KillSignal:      t.KillSignal,
		LogConfig:       t.LogConfig.config(),
		Leader:          t.Leader,
		Lifecycle:       (*structs.TaskLifecycle)(t.Lifecycle),
		ShutdownDelay:   t.ShutdownDelay,
		CSIPluginConfig: t.CSIPluginConfig.config(),
		DispatchPayload: (*structs.DispatchPayloadConfig)(t.DispatchPayload),
		Services:        c.services(t.Services),
		Kind:            structs.TaskKind(t.Kind),
	}

	if t.Restart != nil {
		out.RestartPolicy = t.Restart.override(restart)
	}

	c.identities(t.Identities, out)
	if t.Resources != nil {
		out.Resources = c.resources(t.Resources)
	}

	for _, x := range t.Templates {
		out.Templates = append(out.Templates, x.template())
	}

	out.VolumeMounts = mounts(t.VolumeMounts)
	for _, a := range t.Actions {
		out.Actions = append(out.Actions, (*structs.Action)(a))
	}

	for _, a := range t.Artifacts {
		out.Artifacts = append(out.Artifacts, (*structs.TaskArtifact)(a))
	}

	return out
}

// resources converts a block. The group has the networks in it: see moveNetworks.
func (c *converter) resources(r *resources) *structs.Resources {
	return &structs.Resources{
		CPU:         r.CPU,
		Cores:       r.Cores,
		MemoryMB:    r.MemoryMB,
		MemoryMaxMB: r.MemoryMaxMB,
		Devices:     c.devices(r.Devices),
	}
}

// config returns the settings of the logs of a task, nil without a block.
func (l *logs) config() *structs.LogConfig {
	if l == nil {
		return nil
	}
	return &structs.LogConfig{
		MaxFiles:      l.MaxFiles,
		MaxFileSizeMB: l.MaxFileSizeMB,
		Disabled:      l.Disabled || l.Enabled != nil && !*l.Enabled,
	}
}

// override sets a field if the file has a value for it.
func override[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// override returns the policy with the values of the block.
func (r *restart) override(p structs.RestartPolicy) *structs.RestartPolicy {
	override(&p.Attempts, r.Attempts)
	override(&p.Interval, r.Interval)
	override(&p.Delay, r.Delay)
	override(&p.Mode, r.Mode)
	return &p
}

// override returns the default of the job's type with the values of the block. A number of attempts ends the
// default of unlimited attempts.
func (r *reschedule) override(def *structs.ReschedulePolicy) *structs.ReschedulePolicy {
	if r == nil {
		return nil
	}

	p := structs.ReschedulePolicy{}
	if def != nil {
		p = *def
	}

	if r.Attempts != nil {
		p.Attempts = *r.Attempts
		p.Unlimited = false
	}

	override(&p.Interval, r.Interval)
	override(&p.Delay, r.Delay)
	override(&p.DelayFunction, r.DelayFunction)
	override(&p.MaxDelay, r.MaxDelay)
	override(&p.Unlimited, r.Unlimited)
	return &p
}
