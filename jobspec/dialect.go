package jobspec

// berth rejects some names of the dialect, each with the user's remedy. It accepts others with a warning,
// because they ask for nothing that its jobs lack. Unsupported has the names that berth is to have.

func (job) Rejected() map[string]string {
	return map[string]string{
		"multiregion": "a cluster has one region; register the job in each region",
		"consul_token": "a token in a job file is stored in plain text; leave it out, " +
			"and run the job with -consul-token or CONSUL_HTTP_TOKEN",
		"vault_token": "a token in a job file is stored in plain text; leave it out",
	}
}

func (job) Ignored() map[string]string {
	return map[string]string{
		"consul_namespace": ofEnterprise,
		"ui":               NoWebInterface,
	}
}

// The reasons of warnings that job files and the JSON of the API share.
const (
	NoWebInterface = "berth has no web interface that shows it"
	NoTaskScaling  = "the resources of a task are those of its job, and no autoscaler changes them; " +
		"the scaling block of a group bounds its count"
	NoRendering = "the node renders templates before each start of a task"
	NoWarnings  = "nothing delays a warning of a check; failures_before_critical delays its failure"
)

const ofEnterprise = "namespaces are those of Consul Enterprise; berth uses that of the agent"

func (consul) Ignored() map[string]string {
	return map[string]string{"namespace": ofEnterprise}
}

func (consul) Rejected() map[string]string {
	return map[string]string{"partition": "partitions are those of Consul Enterprise; leave it out"}
}

func (task) Rejected() map[string]string {
	return map[string]string{
		"schedule": "start and stop the job from outside with berth job run and berth job stop",
		"secret":   "it has no providers of secrets; let a template read a variable by nomadVar",
	}
}

func (task) Ignored() map[string]string {
	return map[string]string{
		"scaling": NoTaskScaling,
	}
}

func (restart) Ignored() map[string]string {
	return map[string]string{"render_templates": NoRendering}
}

func (network) Rejected() map[string]string {
	return map[string]string{
		"cni":    "the configuration of the network on the node has the arguments of its plugins",
		"device": "name a host_network in the port",
		"cidr":   "name a host_network in the port",
		"ip":     "name a host_network in the port",
	}
}

func (network) Ignored() map[string]string {
	return map[string]string{"mbits": "bandwidth is neither reserved nor limited"}
}

func (port) Rejected() map[string]string {
	return map[string]string{
		"ignore_collision": "a static port has one allocation of a node at a time; " +
			"leave static out for a dynamic port",
	}
}

func (resources) Rejected() map[string]string {
	return map[string]string{
		"numa":    "tasks are not bound to processors; use cpu",
		"secrets": "the secrets directory of a task has no size of its own; leave it out",
	}
}

func (resources) Ignored() map[string]string {
	return map[string]string{
		"disk": "the group's ephemeral_disk requests scratch space",
		"iops": "operations of disks are neither reserved nor limited",
	}
}

func (volumeMount) Rejected() map[string]string {
	return map[string]string{"selinux_label": "label the files of the volume on the node"}
}

func (templateBlock) Rejected() map[string]string {
	return map[string]string{
		"once": "a template follows the files that it reads; use change_mode = \"noop\"",
	}
}

func (templateBlock) Ignored() map[string]string {
	return map[string]string{
		"vault_grace": "nothing reads it any more, also in the dialect",
	}
}

func (changeScript) Rejected() map[string]string {
	return map[string]string{
		"run_on_first_render": "the task has not started then; use a poststart task",
	}
}

func (sidecarTask) Rejected() map[string]string {
	return map[string]string{"identity": "the proxy has a token of Consul alone; leave it out"}
}

func (connectProxy) Rejected() map[string]string {
	return map[string]string{
		"transparent_proxy": "the proxies of berth redirect no traffic; name each service in upstreams",
	}
}

func (upstream) Rejected() map[string]string {
	return map[string]string{
		"destination_partition": "partitions are those of Consul Enterprise; leave it out",
	}
}

func (gatewayTLS) Rejected() map[string]string {
	return map[string]string{"sds": "the gateway has the certificate that Consul gives it; leave it out"}
}
