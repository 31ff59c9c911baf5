package jobfile

import (
	"maps"
	"reflect"
	"slices"

	"berth/jobspec"
	"berth/structs"
	"berth/structs/defaults"
	"berth/structs/storage"
)

// jobWriter writes the blocks of one job.
type jobWriter struct {
	writer
	notes Notes
	of    *structs.Job
	typ   string // of the job, with the default
	// updates is set if the job has an update block, which the groups would inherit.
	updates bool
}

// jobByHand are the label of a job and the blocks whose defaults depend on others.
var jobByHand = []string{
	"id", "constraint", "affinity", "spread", "update", "migrate", "periodic", "group", "task",
}

func (w *jobWriter) job(j *structs.Job) {
	w.of = j
	w.typ = j.Type
	if w.typ == "" {
		w.typ = structs.JobService
	}
	w.block("job", func() {
		usual := structs.Job{
			Region:      structs.DefaultRegion,
			Namespace:   structs.DefaultNamespace,
			Name:        j.ID,
			Type:        structs.JobService,
			Priority:    structs.JobDefaultPriority,
			Datacenters: []string{"*"},
			NodePool:    structs.DefaultNodePool,
		}
		w.fillBut(jobspec.Block(), reflect.ValueOf(*j), reflect.ValueOf(usual), jobByHand)
		w.placement(j.Constraints, j.Affinities, j.Spreads)
		w.jobUpdate(j.Update)
		if j.Migrate != nil {
			w.migrate(j.Migrate)
		}
		w.periodic(j.Periodic)
		if p := j.ParameterizedJob; p != nil {
			w.block("parameterized", func() { w.fill(jobspec.Block("parameterized"), p) })
		}
		for _, g := range j.TaskGroups {
			w.block("group", func() { w.group(g) }, g.Name)
		}
	}, j.ID)
}

// jobUpdate writes the strategy of the job. A stored one has two fields: the groups have their own.
func (w *jobWriter) jobUpdate(u *structs.UpdateStrategy) {
	def := structs.DefaultUpdateStrategy()
	switch {
	case u == nil || *u == structs.UpdateStrategy{} || *u == def:
	case u.HealthCheck != "":
		w.updates = true
		w.block("update", func() { w.update(u) })
	case u.Stagger != def.Stagger || u.MaxParallel != def.MaxParallel:
		w.updates = true
		w.block("update", func() {
			w.set("stagger", u.Stagger)
			w.set("max_parallel", u.MaxParallel)
		})
	}
}

func (w *jobWriter) update(u *structs.UpdateStrategy) {
	w.put("stagger", u.Stagger, structs.DefaultUpdateStrategy().Stagger)
	w.set("max_parallel", u.MaxParallel)
	w.put("health_check", u.HealthCheck, structs.HealthChecks)
	w.set("min_healthy_time", u.MinHealthyTime)
	w.put("healthy_deadline", u.HealthyDeadline)
	w.set("progress_deadline", u.ProgressDeadline)
	w.set("auto_revert", u.AutoRevert)
	w.set("auto_promote", u.AutoPromote)
	w.set("canary", u.Canary)
}

func (w *jobWriter) migrate(m *structs.MigrateStrategy) {
	w.block("migrate", func() {
		w.set("max_parallel", m.MaxParallel)
		w.put("health_check", m.HealthCheck)
		w.set("min_healthy_time", m.MinHealthyTime)
		w.put("healthy_deadline", m.HealthyDeadline)
	})
}

func (w *jobWriter) periodic(p *structs.PeriodicConfig) {
	if p == nil {
		return
	}
	w.block("periodic", func() {
		if !p.Enabled {
			w.set("enabled", false)
		}
		w.put("cron", p.Spec)
		w.put("crons", p.Specs)
		w.put("prohibit_overlap", p.ProhibitOverlap)
		w.put("time_zone", p.TimeZone, "UTC")
	})
}

// placement writes which nodes a job, a group, a task or a device needs or prefers.
func (w *jobWriter) placement(cs []*structs.Constraint, as []*structs.Affinity, ss []*structs.Spread) {
	for _, c := range cs {
		w.block("constraint", func() { w.condition(c.LTarget, c.Operand, c.RTarget) })
	}
	for _, a := range as {
		w.block("affinity", func() {
			w.condition(a.LTarget, a.Operand, a.RTarget)
			w.put("weight", int(a.Weight), int(structs.DefaultAffinityWeight))
		})
	}
	for _, s := range ss {
		w.block("spread", func() {
			w.put("attribute", s.Attribute)
			w.put("weight", int(s.Weight), int(structs.DefaultSpreadWeight))
			for _, t := range s.SpreadTarget {
				w.block("target", func() { w.put("percent", int(t.Percent)) }, t.Value)
			}
		})
	}
}

func (w *jobWriter) condition(left, operand, right string) {
	switch {
	case operand == structs.ConstraintDistinctHosts && left == "" && right == "true":
		w.set("distinct_hosts", true)
	case operand == structs.ConstraintDistinctProperty:
		w.set("distinct_property", left)
		w.put("value", right)
	default:
		w.put("attribute", left)
		w.put("operator", operand, "=")
		w.put("value", right)
	}
}

func (w *jobWriter) group(g *structs.TaskGroup) {
	w.comments(w.notes[g.Name])
	if g.Count != 1 || g.Scaling != nil {
		w.set("count", g.Count)
	}
	w.put("shutdown_delay", g.ShutdownDelay)
	w.put("max_run_duration", g.MaxRunDuration)
	w.pairs("meta", g.Meta)
	w.placement(g.Constraints, g.Affinities, g.Spreads)
	def := defaults.RestartPolicy(w.typ)
	w.restart(g.RestartPolicy, def)
	if g.RestartPolicy != nil {
		def = *g.RestartPolicy
	}
	w.policies(g)
	for _, n := range g.Networks {
		w.network(n)
	}
	for _, alias := range slices.Sorted(maps.Keys(g.Volumes)) {
		w.block("volume", func() { w.volume(g.Volumes[alias], g.Name, alias) }, alias)
	}
	if g.Consul != nil {
		w.block("consul", func() {})
	}
	w.services(g.Services)
	for _, t := range g.Tasks {
		w.block("task", func() {
			w.comments(w.notes[g.Name+"/"+t.Name])
			w.task(t, def)
		}, t.Name)
	}
}

func (w *jobWriter) restart(p *structs.RestartPolicy, def structs.RestartPolicy) {
	if p == nil || *p == def {
		return
	}
	w.block("restart", func() {
		w.set("attempts", p.Attempts)
		w.put("interval", p.Interval)
		w.put("delay", p.Delay)
		w.put("mode", p.Mode)
	})
}

// policies writes how the servers replace, move and scale the allocations of a group.
func (w *jobWriter) policies(g *structs.TaskGroup) {
	def := defaults.ReschedulePolicy(w.typ)
	p := g.ReschedulePolicy
	if p != nil && (def == nil || *p != *def) {
		w.block("reschedule", func() {
			w.put("attempts", p.Attempts)
			w.put("interval", p.Interval)
			w.put("delay", p.Delay)
			w.put("delay_function", p.DelayFunction)
			w.put("max_delay", p.MaxDelay)
			w.set("unlimited", p.Unlimited)
		})
	}

	isService := w.typ == structs.JobService
	if u := g.Update; u != nil && (w.updates || !isService || *u != structs.DefaultUpdateStrategy()) {
		w.block("update", func() { w.update(u) })
	}
	inherits := w.of.Migrate != nil
	if m := g.Migrate; m != nil && (inherits || !isService || *m != structs.DefaultMigrateStrategy()) {
		w.migrate(m)
	}
	if s := g.Scaling; s != nil {
		w.block("scaling", func() { w.scaling(s) })
	}
	if d := g.Disconnect; d != nil {
		w.block("disconnect", func() { w.fill(blockOf("disconnect"), d) })
	}
	if d := g.EphemeralDisk; d != nil && *d != (structs.EphemeralDisk{SizeMB: structs.DefaultDiskMB}) {
		w.block("ephemeral_disk", func() {
			w.set("size", d.SizeMB)
			w.put("sticky", d.Sticky)
			w.put("migrate", d.Migrate)
		})
	}
}

func (w *jobWriter) scaling(s *structs.ScalingPolicy) {
	if s.Enabled != nil && !*s.Enabled {
		w.set("enabled", false)
	}
	w.put("type", s.Type, structs.ScalingHorizontal)
	w.put("min", s.Min)
	w.put("max", s.Max)
	w.values("policy", s.Policy)
}

func (w *jobWriter) network(n *structs.NetworkResource) {
	w.block("network", func() {
		w.put("mode", n.Mode, structs.NetworkModeHost)
		w.put("hostname", n.Hostname)
		for _, p := range slices.Concat(n.ReservedPorts, n.DynamicPorts) {
			w.block("port", func() {
				w.put("static", p.Value)
				w.put("to", p.To)
				w.put("host_network", p.HostNetwork, structs.DefaultHostNetwork)
			}, p.Label)
		}
		if d := n.DNS; d != nil {
			w.block("dns", func() { w.fill(blockOf("network", "dns"), d) })
		}
	})
}

func (w *jobWriter) volume(v *structs.VolumeRequest, group, alias string) {
	usual := structs.VolumeRequest{}
	if storage.IsClassRequest(v) || v.IsInline() {
		// The servers give such a volume its name and its modes.
		usual.Source = storage.RequestSource(w.of.ID, group, alias)
		usual.AccessMode = structs.CSISingleNodeWriter
		usual.AttachmentMode = structs.CSIFileSystem
	}
	w.set("type", v.Type)
	w.put("class", v.Class)
	if v.Size > 0 {
		w.set("size", SizeText(v.Size))
	}
	w.fillBut(blockOf("volume"), reflect.ValueOf(*v), reflect.ValueOf(usual), []string{"type", "class", "size"})
}

func (w *writer) mountOptions(o *structs.CSIMountOptions) {
	if o == nil {
		return
	}
	w.block("mount_options", func() { w.fill(blockOf("volume", "mount_options"), o) })
}
