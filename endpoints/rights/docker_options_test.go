package rights_test

import (
	"maps"
	"slices"
	"testing"

	"berth/client/drivers/docker/taskconfig"
	"berth/endpoints/rights"
	"berth/structs"
)

// option is the decision about an option of the docker driver: a value that only asks for what the container
// may have by itself, and one that asks for rights over the node. nil: there is none.
type option struct{ own, host any }

// dockerOptions has each option of the driver. A new one fails the test until it is decided here.
var dockerOptions = map[string]option{
	// The image, and what runs in it.
	"image":              {own: "i"},
	"load":               {own: "local/i.tar"},
	"image_pull_timeout": {own: "5m"},
	"force_pull":         {own: true},
	"auth":               {own: map[string]any{"username": "u", "password": "p"}},
	"auth_soft_fail":     {own: true},
	"entrypoint":         {own: []any{"sh"}},
	"command":            {own: "sh"},
	"args":               {own: []any{"-c"}},
	"work_dir":           {own: "/"},
	"hostname":           {own: "h"},
	"interactive":        {own: true},
	"tty":                {own: true},
	"init":               {own: true},
	"labels":             {own: map[string]any{"a": "b"}},
	"healthchecks":       {own: map[string]any{"disable": true}},
	"logging": {
		own:  []any{map[string]any{"type": "local", "config": map[string]any{"max-size": "1m"}}},
		host: map[string]any{"type": "syslog", "config": map[string]any{"syslog-address": "unix:///dev/log"}},
	},

	// These options keep the container from the node.
	"privileged":      {own: false, host: true},
	"cap_add":         {own: []any{}, host: []any{"net_admin"}},
	"cap_drop":        {own: []any{"all"}},
	"security_opt":    {host: []any{"seccomp=unconfined"}},
	"group_add":       {own: []any{"docker"}}, // a group of the container: what the node has needs a mount
	"readonly_rootfs": {own: true},
	"devices":         {host: []any{map[string]any{"host_path": "/dev/sda"}}},
	"runtime":         {own: "", host: "runc"},
	"pid_mode":        {own: "", host: "host"},
	"ipc_mode":        {own: "private", host: "host"},
	"uts_mode":        {own: "", host: "host"},
	"userns_mode":     {own: "", host: "host"},
	"network_mode":    {own: "bridge", host: "host"},

	// Files and the network.
	"mount":              {host: []any{map[string]any{"type": "bind", "source": "/etc"}}},
	"mounts":             {host: []any{map[string]any{"type": "bind", "source": "/etc"}}},
	"volumes":            {host: []any{"/etc:/etc"}},
	"tmpfs":              {own: []any{"/run"}},
	"storage_opt":        {own: map[string]any{"size": "1g"}},
	"shm_size":           {own: 1 << 20},
	"ports":              {own: []any{"http"}},
	"dns_servers":        {own: []any{"10.0.0.1"}},
	"dns_search_domains": {own: []any{"a"}},
	"dns_options":        {own: []any{"ndots:1"}},
	"extra_hosts":        {own: []any{"a:10.0.0.1"}},

	// Limits. Each bounds the container, and the daemon takes none that its own cgroup does not allow.
	"sysctl":            {own: map[string]any{}, host: map[string]any{"net.core.somaxconn": "1"}},
	"ulimit":            {own: map[string]any{"nofile": "1:2"}, host: []any{map[string]any{"rtprio": "99"}}},
	"pids_limit":        {own: 100},
	"cpuset_cpus":       {own: "0"},
	"cpu_hard_limit":    {own: true},
	"cpu_cfs_period":    {own: 1000},
	"memory_hard_limit": {own: 100},
	"oom_score_adj":     {own: 100}, // it can only be higher than that of others
}

// TestJobSubmit_DecidesAboutEachOptionOfDocker holds a decision for each option.
func TestJobSubmit_DecidesAboutEachOptionOfDocker(t *testing.T) {
	decided := slices.Sorted(maps.Keys(dockerOptions))
	if options := taskconfig.Options(); !slices.Equal(options, decided) {
		t.Errorf("the driver has the options %q; decided are %q", options, decided)
	}

	may := func(rules, name string, value any) bool {
		task := structs.Task{Driver: "docker", Config: map[string]any{name: value}}
		job := &structs.Job{Namespace: "team", TaskGroups: []*structs.TaskGroup{{Tasks: []*structs.Task{&task}}}}
		return rights.JobSubmit.Allows(ask(t, rules, &structs.JobRegisterRequest{Job: job}))
	}
	for name, o := range dockerOptions {
		if o.own != nil && !may(submitter, name, o.own) {
			t.Errorf("%s = %v needs more than write", name, o.own)
		}
		if o.host != nil && may(submitter, name, o.host) {
			t.Errorf("%s = %v needs no right of its own", name, o.host)
		}
		if o.host != nil && !may(withCapability("submit-privileged"), name, o.host) {
			t.Errorf("%s = %v is denied with submit-privileged", name, o.host)
		}
	}
	for name, value := range map[string]any{
		"runtime": "${meta.runtime}",
		"ulimit":  map[string]any{"${meta.limit}": "1"},
		"logging": []any{map[string]any{"driver": "${meta.logs}"}},
		"sysctl":  "x",
	} {
		if may(submitter, name, value) {
			t.Errorf("%s = %v, known at the start of the task alone, needs no right", name, value)
		}
	}
	for _, odd := range []any{"x", []any{"x"}, 7} {
		if may(submitter, "ulimit", odd) || may(submitter, "logging", odd) {
			t.Errorf("%v, which is no block, needs no right", odd)
		}
	}
}
