package jobfile

import (
	"reflect"
	"slices"

	"berth/structs"
)

func (w *jobWriter) task(t *structs.Task, around structs.RestartPolicy) {
	v := reflect.ValueOf(*t)
	w.arguments(blockOf("task"), v, usuals[v.Type()], taskByHand)
	if l := t.Lifecycle; l != nil && *l != (structs.TaskLifecycle{}) {
		w.block("lifecycle", func() { w.fill(blockOf("task", "lifecycle"), l) })
	}
	w.values("config", t.Config)
	w.pairs("env", t.Env)
	w.pairs("meta", t.Meta)
	w.placement(t.Constraints, t.Affinities, nil)
	w.restart(t.RestartPolicy, around)
	w.inner(blockOf("task"), v, taskByHand)
	for _, x := range t.Templates {
		w.block("template", func() { w.template(x) })
	}
	w.outside(t)
	w.services(t.Services)
	w.resources(t.Resources, structs.DefaultTaskCPU, structs.DefaultTaskMemoryMB)
	w.logs(t.LogConfig)
}

// taskByHand are the parts of a task whose defaults depend on others, or that a reader wants after others.
var taskByHand = []string{
	"config", "env", "meta", "constraint", "affinity", "restart", "resources", "logs", "lifecycle", "template",
	"service", "consul", "identity",
}

func (w *jobWriter) template(t *structs.Template) {
	usual := reflect.New(reflect.TypeFor[structs.Template]()).Elem()
	usual.Set(usuals[usual.Type()])
	if t.ChangeMode == structs.TemplateSignal {
		usual.FieldByName("ChangeSignal").SetString(structs.DefaultTemplateSignal)
	}
	w.fillBut(blockOf("task", "template"), reflect.ValueOf(*t), usual, nil)
}

// outside writes the identities of a task, and its logins at Vault and Consul.
func (w *jobWriter) outside(t *structs.Task) {
	for _, i := range slices.Concat([]*structs.WorkloadIdentity{t.Identity}, t.Identities) {
		w.identity(i)
	}
	if t.Consul != nil {
		w.block("consul", func() {})
	}
}

func (w *jobWriter) identity(i *structs.WorkloadIdentity) {
	if i == nil {
		return
	}
	w.block("identity", func() { w.fill(blockOf("task", "identity"), i) })
}

func (w *jobWriter) resources(r *structs.Resources, cpu, memory int) {
	if r == nil {
		return
	}
	usual := (r.CPU == 0 || r.CPU == cpu) && (r.MemoryMB == 0 || r.MemoryMB == memory)
	if usual && r.Cores == 0 && r.MemoryMaxMB == 0 && len(r.Devices) == 0 {
		return
	}
	w.block("resources", func() {
		w.fill(blockOf("task", "resources"), r, "device", "network")
		for _, d := range r.Devices {
			w.block("device", func() {
				w.put("count", d.Count, uint64(1))
				w.placement(d.Constraints, d.Affinities, nil)
			}, d.Name)
		}
	})
}

func (w *jobWriter) logs(l *structs.LogConfig) {
	def := structs.LogConfig{MaxFiles: structs.DefaultLogFiles, MaxFileSizeMB: structs.DefaultLogFileSizeMB}
	if l == nil || *l == (structs.LogConfig{}) || *l == def {
		return
	}
	w.block("logs", func() {
		w.put("max_files", l.MaxFiles, structs.DefaultLogFiles)
		w.put("max_file_size", l.MaxFileSizeMB, structs.DefaultLogFileSizeMB)
		w.put("disabled", l.Disabled)
	})
}
