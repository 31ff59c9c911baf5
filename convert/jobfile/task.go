package jobfile

import (
	"slices"
	"time"

	"berth/structs"
	"berth/structs/storage"
)

func (w *jobWriter) task(t *structs.Task, around structs.RestartPolicy) {
	w.set("driver", t.Driver)
	w.put("user", t.User)
	w.put("leader", t.Leader)
	w.put("kind", string(t.Kind))
	w.put("kill_timeout", t.KillTimeout, structs.DefaultKillTimeout)
	w.put("kill_signal", t.KillSignal)
	w.put("shutdown_delay", t.ShutdownDelay)
	if l := t.Lifecycle; l != nil && *l != (structs.TaskLifecycle{}) {
		w.block("lifecycle", func() {
			w.set("hook", l.Hook)
			w.put("sidecar", l.Sidecar)
		})
	}
	w.values("config", t.Config)
	w.pairs("env", t.Env)
	w.pairs("meta", t.Meta)
	w.placement(t.Constraints, t.Affinities, nil)
	w.restart(t.RestartPolicy, around)
	w.volumeMounts(t.VolumeMounts)
	for _, x := range t.Templates {
		w.block("template", func() { w.template(x) })
	}
	for _, a := range t.Artifacts {
		w.block("artifact", func() { w.artifact(a) })
	}
	if p := t.DispatchPayload; p != nil {
		w.block("dispatch_payload", func() { w.set("file", p.File) })
	}
	for _, a := range t.Actions {
		w.block("action", func() {
			w.set("command", a.Command)
			w.put("args", a.Args)
		}, a.Name)
	}
	w.plugin(t.CSIPluginConfig)
	w.outside(t)
	w.services(t.Services)
	w.resources(t.Resources, structs.DefaultTaskCPU, structs.DefaultTaskMemoryMB)
	w.logs(t.LogConfig)
}

func (w *jobWriter) volumeMounts(mounts []*structs.VolumeMount) {
	for _, m := range mounts {
		w.block("volume_mount", func() {
			w.set("volume", m.Volume)
			w.set("destination", m.Destination)
			w.put("read_only", m.ReadOnly)
			w.put("propagation_mode", m.PropagationMode, structs.PropagationPrivate)
			w.put("sub_path", m.SubPath)
			if s := m.Snapshot; s != nil {
				w.block("snapshot", func() {
					w.put("pre", s.Pre)
					w.put("post", s.Post)
					w.put("timeout", s.Timeout, storage.DefaultSnapshotTimeout)
				})
			}
		})
	}
}

func (w *jobWriter) template(t *structs.Template) {
	w.put("source", t.SourcePath)
	w.set("destination", t.DestPath)
	w.put("data", t.EmbeddedTmpl)
	w.put("env", t.Envvars)
	w.put("change_mode", t.ChangeMode, structs.TemplateRestart)
	if t.ChangeMode == structs.TemplateSignal {
		w.put("change_signal", t.ChangeSignal, structs.DefaultTemplateSignal)
	} else {
		w.put("change_signal", t.ChangeSignal)
	}
	w.put("splay", t.Splay, new(time.Duration(structs.DefaultTemplateSplay)))
	w.put("perms", t.Perms, structs.DefaultTemplatePerms)
	w.put("uid", t.Uid)
	w.put("gid", t.Gid)
	w.put("left_delimiter", t.LeftDelim, structs.DefaultLeftDelim)
	w.put("right_delimiter", t.RightDelim, structs.DefaultRightDelim)
	w.put("error_on_missing_key", t.ErrMissingKey)
	if x := t.Wait; x != nil {
		w.block("wait", func() {
			w.put("min", x.Min)
			w.put("max", x.Max)
		})
	}
	if s := t.ChangeScript; s != nil {
		w.block("change_script", func() {
			w.set("command", s.Command)
			w.put("args", s.Args)
			w.put("timeout", s.Timeout, structs.DefaultTemplateTimeout)
			w.put("fail_on_error", s.FailOnError)
		})
	}
}

func (w *jobWriter) artifact(a *structs.TaskArtifact) {
	w.set("source", a.GetterSource)
	w.put("destination", a.RelativeDest, "local/")
	w.put("mode", a.GetterMode, structs.ArtifactAny)
	w.put("insecure", a.GetterInsecure)
	w.put("chown", a.Chown)
	w.pairs("options", a.GetterOptions)
	w.pairs("headers", a.GetterHeaders)
}

func (w *jobWriter) plugin(p *structs.CSIPluginConfig) {
	if p == nil {
		return
	}
	w.block("csi_plugin", func() {
		w.set("id", p.ID)
		w.set("type", p.Type)
		w.put("mount_dir", p.MountDir, structs.DefaultPluginMountDir)
		w.put("stage_publish_base_dir", p.StagePublishBaseDir, structs.DefaultPluginStageDir)
		w.put("health_timeout", p.HealthTimeout, structs.DefaultHealthTimeout)
		w.put("hang_timeout", p.HangTimeout)
		w.put("former_provider", p.FormerProvider)
		w.put("tokens_in", p.TokensIn, structs.TokensInContext)
		w.put("requires_republish", p.RequiresRepublish)
		for _, t := range p.Tokens {
			w.block("token", func() {
				w.set("audience", t.Audience)
				w.put("ttl", t.TTL, structs.DefaultIdentityTTL)
			})
		}
	})
}

// outside writes the identities of a task, and its logins at Vault and Consul.
func (w *jobWriter) outside(t *structs.Task) {
	for _, i := range slices.Concat([]*structs.WorkloadIdentity{t.Identity}, t.Identities) {
		w.identity(i)
	}
	if t.Consul != nil {
		w.block("consul", func() {})
	}
	if v := t.Vault; v != nil {
		w.block("vault", func() {
			w.put("role", v.Role)
			w.put("namespace", v.Namespace)
			w.put("env", v.Env, new(true))
			w.put("disable_file", v.DisableFile)
			w.put("change_mode", v.ChangeMode, structs.TemplateRestart)
			w.put("change_signal", v.ChangeSignal)
			w.put("allow_token_expiration", v.AllowTokenExpiration)
		})
	}
}

func (w *jobWriter) identity(i *structs.WorkloadIdentity) {
	if i == nil {
		return
	}
	w.block("identity", func() {
		w.put("name", i.Name, structs.DefaultIdentity)
		w.put("aud", i.Audience, []string{structs.DefaultAudience})
		w.put("change_mode", i.ChangeMode, structs.TemplateNoop)
		w.put("change_signal", i.ChangeSignal)
		w.put("env", i.Env)
		w.put("file", i.File)
		w.put("filepath", i.Filepath)
		w.put("ttl", i.TTL)
		w.put("service_name", i.ServiceName)
	})
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
		w.put("cpu", r.CPU)
		w.put("cores", r.Cores)
		w.put("memory", r.MemoryMB)
		w.put("memory_max", r.MemoryMaxMB)
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
