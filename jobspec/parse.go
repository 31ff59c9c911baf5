package jobspec

import (
	"strconv"

	"github.com/hashicorp/hcl/v2"

	"berth/internal/hclconf"
	"berth/structs"
)

// ParseJob reads a job file, as JSON when its name ends in .json. Its error is of kind invalid, with one
// line for each fault: file:line,col: message.
func ParseJob(filename string, src []byte) (*structs.Job, error) {
	body, ctx, diags := parseExpressions(filename, src)
	if diags.HasErrors() {
		return nil, hclconf.Error(diags)
	}
	var file jobFile
	diags = hclconf.DecodeBody(body, ctx, &file)
	c := converter{diags: diags}
	if len(file.Jobs) != 1 && !diags.HasErrors() {
		at := body.MissingItemRange()
		if len(file.Jobs) > 1 {
			at = file.Jobs[1].At
		}
		c.fault(at, "the file has %d jobs; expected one block job \"id\" { ... }", len(file.Jobs))
	}
	var out *structs.Job
	for _, j := range file.Jobs {
		out = c.job(j)
	}
	if err := hclconf.Error(c.diags); err != nil {
		return nil, err
	}
	return out, nil
}

// converter makes rows of blocks and gathers what only shows then.
type converter struct {
	diags   hcl.Diagnostics
	jobType string
}

func (c *converter) fault(at hcl.Range, format string, args ...any) {
	c.diags = append(c.diags, hclconf.Fault(at, format, args...))
}

func (c *converter) job(j *job) *structs.Job {
	out := &structs.Job{
		Region:      j.Region,
		Namespace:   j.Namespace,
		ID:          or(j.ID, j.Label),
		Name:        j.Name,
		Type:        j.Type,
		Datacenters: j.Datacenters,
		NodePool:    j.NodePool,
		Constraints: c.constraints(j.Constraints),
		Meta:        j.Meta,
	}
	c.jobType = or(j.Type, structs.JobService)
	if j.Priority != nil {
		out.Priority = *j.Priority
		if out.Priority == 0 { // in a row it means that none was given
			c.fault(j.At, "priority 0; expected a number from %d to %d", structs.JobMinPriority,
				structs.JobMaxPriority)
		}
	}
	seen := map[string]bool{}
	for _, g := range j.Groups {
		c.once(seen, "group", g.Name, g.At)
		out.TaskGroups = append(out.TaskGroups, c.group(g))
	}
	for _, t := range j.Tasks {
		c.once(seen, "group", t.Name, t.At)
		out.TaskGroups = append(out.TaskGroups, c.group(&group{Name: t.Name, At: t.At, Tasks: []*task{t}}))
	}
	return out
}

func (c *converter) once(seen map[string]bool, what, name string, at hcl.Range) {
	if seen[name] {
		c.fault(at, "duplicate %s %q; expected each name once", what, name)
	}
	seen[name] = true
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func (c *converter) group(g *group) *structs.TaskGroup {
	out := &structs.TaskGroup{
		Name:             g.Name,
		Count:            1,
		Constraints:      c.constraints(g.Constraints),
		Meta:             g.Meta,
		ShutdownDelay:    g.ShutdownDelay,
		ReschedulePolicy: g.Reschedule.over(structs.DefaultReschedulePolicy(c.jobType)),
	}
	set(&out.Count, g.Count)
	def := structs.DefaultRestartPolicy(c.jobType)
	if g.Restart != nil {
		out.RestartPolicy = g.Restart.over(def)
		def = *out.RestartPolicy
	}
	if d := g.EphemeralDisk; d != nil {
		out.EphemeralDisk = &structs.EphemeralDisk{
			SizeMB:  structs.DefaultDiskMB,
			Sticky:  d.Sticky,
			Migrate: d.Migrate,
		}
		set(&out.EphemeralDisk.SizeMB, d.Size)
	}
	for alias, v := range g.Volumes {
		if out.Volumes == nil {
			out.Volumes = map[string]*structs.VolumeRequest{}
		}
		out.Volumes[alias] = v.request(alias)
	}
	seen := map[string]bool{}
	for _, t := range g.Tasks {
		c.once(seen, "task", t.Name, t.At)
		out.Tasks = append(out.Tasks, c.task(t, def))
	}
	return out
}

func (v *volume) request(alias string) *structs.VolumeRequest {
	return &structs.VolumeRequest{
		Name:           alias,
		Type:           v.Type,
		Source:         v.Source,
		ReadOnly:       v.ReadOnly,
		AccessMode:     structs.CSIAccessMode(v.AccessMode),
		AttachmentMode: structs.CSIAttachmentMode(v.AttachmentMode),
		MountOptions:   (*structs.CSIMountOptions)(v.MountOptions),
		PerAlloc:       v.PerAlloc,
	}
}

func (c *converter) task(t *task, restart structs.RestartPolicy) *structs.Task {
	out := &structs.Task{
		Name:            t.Name,
		Driver:          t.Driver,
		User:            t.User,
		Config:          t.Config,
		Env:             t.Env,
		Constraints:     c.constraints(t.Constraints),
		Meta:            t.Meta,
		KillTimeout:     t.KillTimeout,
		KillSignal:      t.KillSignal,
		LogConfig:       (*structs.LogConfig)(t.Logs),
		Leader:          t.Leader,
		ShutdownDelay:   t.ShutdownDelay,
		CSIPluginConfig: (*structs.CSIPluginConfig)(t.CSIPlugin),
	}
	if t.Restart != nil {
		out.RestartPolicy = t.Restart.over(restart)
	}
	if r := t.Resources; r != nil {
		out.Resources = &structs.Resources{
			CPU:         r.CPU,
			Cores:       r.Cores,
			MemoryMB:    r.MemoryMB,
			MemoryMaxMB: r.MemoryMaxMB,
		}
	}
	for _, m := range t.VolumeMounts {
		out.VolumeMounts = append(out.VolumeMounts, &structs.VolumeMount{
			Volume:          m.Volume,
			Destination:     m.Destination,
			ReadOnly:        m.ReadOnly,
			PropagationMode: m.PropagationMode,
		})
	}
	return out
}

// set overrides a default where the file has a value.
func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

func (r *restart) over(p structs.RestartPolicy) *structs.RestartPolicy {
	set(&p.Attempts, r.Attempts)
	set(&p.Interval, r.Interval)
	set(&p.Delay, r.Delay)
	set(&p.Mode, r.Mode)
	return &p
}

// over lays the block over the default of the job's type. Attempts end what is unlimited by default.
func (r *reschedule) over(def *structs.ReschedulePolicy) *structs.ReschedulePolicy {
	if r == nil {
		return nil
	}
	p := structs.ReschedulePolicy{}
	if def != nil {
		p = *def
	}
	if r.Attempts != nil {
		p.Attempts, p.Unlimited = *r.Attempts, false
	}
	set(&p.Interval, r.Interval)
	set(&p.Delay, r.Delay)
	set(&p.DelayFunction, r.DelayFunction)
	set(&p.MaxDelay, r.MaxDelay)
	set(&p.Unlimited, r.Unlimited)
	return &p
}

func (c *converter) constraints(list []*constraint) []*structs.Constraint {
	var out []*structs.Constraint
	for _, x := range list {
		out = append(out, c.constraint(x))
	}
	return out
}

func (c *converter) constraint(x *constraint) *structs.Constraint {
	out := &structs.Constraint{LTarget: x.Attribute, Operand: or(x.Operator, "=")}
	set(&out.RTarget, x.Value)
	forms := 0
	for _, short := range []struct {
		operand string
		value   *string
	}{
		{structs.ConstraintVersion, x.Version}, {structs.ConstraintSemver, x.Semver},
		{structs.ConstraintRegexp, x.Regexp},
		{structs.ConstraintSetContains, x.SetContains}, {structs.ConstraintSetContainsAny, x.SetContainsAny},
		{structs.ConstraintDistinctHosts, boolText(x.DistinctHosts)},
	} {
		if short.value != nil {
			out.Operand, out.RTarget = short.operand, *short.value
			forms++
		}
	}
	if forms > 1 || forms == 1 && (x.Operator != "" || x.Value != nil) {
		c.fault(x.At, "the constraint has more than one form; expected attribute with one of operator and value, version, semver, regexp, set_contains, set_contains_any, or distinct_hosts alone")
	}
	return out
}

func boolText(b *bool) *string {
	if b == nil {
		return nil
	}
	s := strconv.FormatBool(*b)
	return &s
}
