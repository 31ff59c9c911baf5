package compose

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// image sets the image, and how it is started.
func (c *converter) image(place string, t *structs.Task, s *types.ServiceConfig) {
	image := s.Image
	if s.Build != nil {
		c.lost(place, "build", "build the image, push it to a registry, and name it in image")
	}
	if image == "" {
		image = c.job.ID + "-" + s.Name + ":latest"
	}
	t.Config["image"] = image
	if s.Entrypoint != nil {
		t.Config["entrypoint"] = list(s.Entrypoint)
	}
	switch len(s.Command) {
	case 0:
	case 1:
		t.Config["command"] = s.Command[0]
	default:
		t.Config["command"] = s.Command[0]
		t.Config["args"] = list(s.Command[1:])
	}
	if s.PullPolicy == types.PullPolicyAlways {
		t.Config["force_pull"] = true
	}
	t.User = s.User
	t.KillSignal = s.StopSignal
	if s.StopGracePeriod != nil {
		t.KillTimeout = time.Duration(*s.StopGracePeriod)
	}
}

// list returns texts as a value of a config block.
func list[T ~[]string](texts T) []any {
	all := []any{}
	for _, text := range texts {
		all = append(all, text)
	}
	return all
}

// pairs returns a map as a value of a config block.
func pairs[T ~map[string]string](values T) map[string]any {
	all := map[string]any{}
	for key, value := range values {
		all[key] = value
	}
	return all
}

// settings sets the other fields of the config block.
func (c *converter) settings(place string, t *structs.Task, s *types.ServiceConfig) {
	set := func(name string, value any) {
		v := reflect.ValueOf(value)
		isEmpty := v.Kind() == reflect.Slice || v.Kind() == reflect.Map
		if !v.IsZero() && !(isEmpty && v.Len() == 0) {
			t.Config[name] = value
		}
	}
	set("work_dir", s.WorkingDir)
	set("hostname", s.Hostname)
	set("interactive", s.StdinOpen)
	set("tty", s.Tty)
	set("init", s.Init != nil && *s.Init)
	set("labels", pairs(s.Labels))
	set("privileged", s.Privileged)
	set("cap_add", list(s.CapAdd))
	set("cap_drop", list(s.CapDrop))
	set("security_opt", list(s.SecurityOpt))
	set("group_add", list(s.GroupAdd))
	set("runtime", s.Runtime)
	set("readonly_rootfs", s.ReadOnly)
	set("pid_mode", s.Pid)
	set("ipc_mode", s.Ipc)
	set("uts_mode", s.Uts)
	set("userns_mode", s.UserNSMode)
	set("sysctl", pairs(s.Sysctls))
	set("pids_limit", s.PidsLimit)
	set("cpuset_cpus", s.CPUSet)
	set("oom_score_adj", s.OomScoreAdj)
	set("shm_size", int64(s.ShmSize))
	set("tmpfs", list(s.Tmpfs))
	set("dns_servers", list(s.DNS))
	set("dns_search_domains", list(s.DNSSearch))
	set("dns_options", list(s.DNSOpts))
	set("extra_hosts", hosts(s.ExtraHosts))
	set("devices", devices(s.Devices))
	set("ulimit", ulimits(s.Ulimits))
	if s.Privileged || len(s.CapAdd)+len(s.Devices) > 0 || s.Pid == "host" {
		c.note(place, "privileges over the node: the node needs allow_privileged, and the submitter the right")
	}
	if l := s.Logging; l != nil {
		logging := map[string]any{"type": l.Driver}
		if len(l.Options) > 0 {
			logging["config"] = []any{pairs(l.Options)}
		}
		t.Config["logging"] = []any{logging}
	}
}

func hosts(h types.HostsList) []any {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, ip := range h[name] {
			all = append(all, name+":"+ip)
		}
	}
	return all
}

func devices(list []types.DeviceMapping) []any {
	var all []any
	for _, d := range list {
		one := map[string]any{"host_path": d.Source, "container_path": d.Target}
		if d.Permissions != "" {
			one["cgroup_permissions"] = d.Permissions
		}
		all = append(all, one)
	}
	return all
}

// ulimits writes each limit as docker does: soft:hard.
func ulimits(limits map[string]*types.UlimitsConfig) map[string]any {
	all := map[string]any{}
	for name, l := range limits {
		if l == nil {
			continue
		}
		soft, hard := l.Soft, l.Hard
		if l.Single != 0 {
			soft, hard = l.Single, l.Single
		}
		all[name] = number(soft) + ":" + number(hard)
	}
	return all
}

// carried are the fields of a service that the converter reads. All others are noted.
var carried = strings.Fields(`cap_add cap_drop command configs cpus cpuset deploy depends_on devices
		dns dns_opt dns_search entrypoint environment expose extra_hosts
		group_add healthcheck hostname image init ipc labels logging mem_limit
		mem_reservation network_mode oom_score_adj pid pids_limit ports
		privileged read_only restart runtime scale secrets security_opt
		shm_size stdin_open stop_grace_period stop_signal sysctls tmpfs tty
		ulimits user userns_mode uts volumes working_dir build env_file`)

// remedies are for the fields that a job has elsewhere, or that berth does not have.
var remedies = map[string]string{
	"container_name": "berth names containers itself; berth job allocs has their IDs",
	"gpus":           "ask for them by device in resources",
	"links":          "a template that reads the service has its address",
	"networks":       "there is no network of the cluster; services reach each other by their addresses",
	"platform":       "write a constraint on ${attr.cpu.arch}",
	"post_start":     "make it a poststart task",
	"pre_start":      "make it a prestart task",
	"pre_stop":       "make it a poststop task, or let the program handle its kill_signal",
	"profiles":       "",
	"pull_policy":    "",
	"volumes_from":   "name the volumes in both services",
	"attach":         "",
	"extends":        "",
	"develop":        "",
}

// leftOver notes each field of a service that no other function reads.
func (c *converter) leftOver(place string, s *types.ServiceConfig) {
	for _, part := range []any{*s, s.ContainerSpec, s.WorkloadSpec} {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			isName := name != "" && name != "-" && name != "name" && !strings.HasPrefix(name, "#")
			if !isName || v.Field(i).IsZero() || slices.Contains(carried, name) {
				continue
			}
			remedy, known := remedies[name]
			switch {
			case !known:
				c.lost(place, name, "berth has no such setting, or another one")
			case remedy != "":
				c.lost(place, name, remedy)
			}
		}
	}
	for _, f := range s.EnvFiles {
		c.lost(place, "env_file "+f.Path, "put its values into env, and its secrets into the variable "+
			c.variable())
	}
}
