package refdocs

// settingTexts explains each block of the configuration of an agent, and each setting in it, for operators. A
// text of a setting has a default only if the value in the code does not say it.
var settingTexts = []blockText{
	{Block: "", Intro: "The outermost settings.", Settings: append([]settingText{
		{
			"region", "",
			"the region of the cluster; servers of one region replicate to each other",
		},
		{"datacenter", "", "the datacenter of the agent, which jobs name in `datacenters`"},
		{"name", "the host's name", "the name of the server, and of the node"},
		{
			"data_dir", "",
			"the absolute path of the directory with all data of the agent; required without `-dev`",
		},
		{
			"operator_socket", "berth.sock in `data_dir`",
			"the path of the Unix socket on which root has the HTTP API, at most 107 bytes, see [The " +
				"operator socket](../operations/configure.md#the-operator-socket)",
		},
		{
			"bind_addr", "`::`, all addresses of both families; 0.0.0.0 where the kernel has no IPv6",
			"the IP address of the agent's ports",
		},
		{
			"log_level", "",
			"`trace`, `debug`, `info`, `warn` or `error`; `debug` logs each served HTTP request; *live*",
		},
		{"log_json", "", "log one JSON object a line"},
		{
			"leave_on_interrupt", "",
			"on SIGINT the server leaves the cluster first; without it, it keeps its vote if it is soon back. See also " +
				"[client.drain_on_shutdown](#clientdrain_on_shutdown)",
		},
		{
			"leave_on_terminate", "",
			"on SIGTERM the server leaves the cluster first; without it, it keeps its vote if it is soon back. See also " +
				"[client.drain_on_shutdown](#clientdrain_on_shutdown)",
		},
		{
			"http_allowed_hosts", "",
			"names by which clients may call the HTTP API, see [Ports of the " +
				"agent](../operations/install.md#ports-of-the-agent)",
		},
		{"http_api_response_headers", "", "headers of each answer of the HTTP API, as `X-Frame-Options`"},
		{
			"plugin_dir", "",
			"the directory of the programs that serve a task driver or devices, see " +
				"[External plugins](../operations/plugins.md#external-plugins)",
		},
	}, logTexts...)},
	uiTexts,
	{Block: "ports", Intro: "The ports of the agent.", Settings: []settingText{
		{"http", "", "the HTTP API, TCP"},
		{"rpc", "", "Raft and RPC, TCP"},
		{"serf", "", "gossip among servers, TCP and UDP"},
	}},
	{Block: "addresses", Intro: "The IP addresses to bind to in place of `bind_addr`.", Settings: []settingText{
		{"http", "`bind_addr`", "of the HTTP API"},
		{"rpc", "`bind_addr`", "of Raft and RPC"},
		{"serf", "`bind_addr`", "of gossip"},
	}},
	{Block: "advertise", Intro: "The addresses for others, each a host or host:port.", Settings: []settingText{
		{"http", "the bound address, or [that of the default route](../operations/install.md#the-address-for-others)", "of the HTTP API"},
		{"rpc", "likewise", "of Raft and RPC"},
		{"serf", "likewise", "of gossip"},
	}},
	tlsTexts,
	{Block: "limits", Intro: "The load that an agent accepts, see " +
		"[Overload](../operations/overload.md#overload).", Settings: []settingText{
		{"http_max_conns", "", "HTTP connections in all"},
		{
			"http_max_conns_per_client", "",
			"HTTP connections of one remote address; an idle one is closed after 2 minutes",
		},
	}},
	telemetryTexts,
	{Block: "server", Intro: "A server.", Settings: []settingText{
		{"enabled", "", "the agent is a server"},
		{
			"bootstrap_expect", "",
			"the number of servers that form the cluster the first time: odd, or 0 to only join others",
		},
		{
			"retry_join", "",
			"gossip addresses of other servers, each a host or host:port; `consul` can name them, too",
		},
		{"retry_interval", "", "the delay between attempts to join"},
		{"encrypt", "", "the first key of the gossip, 16, 24 or 32 bytes in base64; a keyring file wins over it, " +
			"see [Encrypt the gossip](../operations/servers.md#encrypt-the-gossip)"},
		{"encrypt_verify_incoming", "", "with a key: reject gossip that is not encrypted"},
		{"encrypt_verify_outgoing", "", "with a key: encrypt the gossip that this server sends"},
		{
			"heartbeat_ttl", "",
			"the lease of a node, 1s or more; the next heartbeat arrives within it; it " +
				"grows with the number of nodes above 1,000 for each second of it",
		},
		{
			"fence_max_parallel", "",
			"the most nodes that the leader fences at once, 1 to 16; each node has one agent at a time",
		},
		{"max_node_lease", "", "the longest lease that an operator can order for a node: `berth node lease`"},
		{
			"heartbeat_grace", "",
			"the time by which a heartbeat may be late before the node becomes down; 1s or more; the servers tell it to the nodes",
		},
		{
			"eval_gc_threshold", "",
			"the age at which ended evaluations and allocations are deleted; at most ten years",
		},
		{
			"clock_quarantine", "",
			"the time for which most servers agree before ages follow clocks that were set",
		},
		{"job_gc_threshold", "", "the same of jobs, counted from their ends"},
		{"node_gc_threshold", "", "the same of nodes"},
		{"gc_interval", "", "the time between two deletions of ended rows"},
		{
			"gc_max_rows", "",
			"the most ended jobs, allocations and evaluations, of each, that a deletion " +
				"leaves: it deletes the oldest of more, of any age, unless they are needed; 100 to 10,000,000",
		},
		{"raft_multiplier", "", "scales Raft's timeouts, 1 to 10; more for slow networks and disks"},
		{"raft_snapshot_threshold", "", "log entries between two snapshots; 1 to 10,000,000"},
		{
			"raft_trailing_logs", "",
			"log entries that a snapshot leaves for slow followers; 1 to 10,000,000",
		},
		{
			"job_max_source_size", "1M",
			"the source of a job that the servers store, with its variables, at most 8MiB; " +
				"a job with a larger one is registered without it, with a warning; 0 stores none",
		},
		{"rpc_max_conns_per_client", "", "RPC connections of one remote address"},
		{"enable_event_broker", "", "the server keeps its newest events for readers of the event stream"},
		{"event_buffer_size", "", "changed rows whose events a server keeps; 1 to 1,000,000"},
		{"event_buffer_bytes", "64MiB", "the memory of these events; 1MiB to 16GiB"},
		{
			"redundancy_zone", "",
			"the zone of the server, at most 64 bytes: one server of each zone votes, see [Redundancy " +
				"zones](../operations/servers.md#redundancy-zones)",
		},
		{
			"non_voting_server", "",
			"the server follows the log and never votes; it needs `bootstrap_expect = 0`",
		},
		{
			"oidc_issuer", "",
			"the URL at which others reach the HTTP API, the same on every server: it names the issuer in " +
				"identities of workloads, and others find the public keys below it, see " +
				"[Identities](../operations/identity.md)",
		},
	}},
	{Block: "server.default_scheduler_config", Intro: "The configuration that the first leader stores, see " +
		"[Configuration of the " +
		"scheduler](../operations/scheduling.md#configuration-of-the-scheduler).", Settings: []settingText{
		{
			"scheduler_algorithm", "",
			"`binpack` prefers the fuller of two nodes, `spread` the emptier",
		},
		{
			"memory_oversubscription_enabled", "",
			"the `memory_max` of tasks counts, see [Memory beyond the " +
				"reservation](../operations/scheduling.md#memory-beyond-the-reservation)",
		},
		{
			"reject_job_registration", "",
			"new jobs and new versions of jobs are rejected with status 403; jobs can be stopped",
		},
		{
			"pause_eval_broker", "",
			"the leader processes no evaluations: nothing is placed, moved or stopped",
		},
	}},
	{Block: "server.default_scheduler_config.preemption_config", Intro: "The types of jobs that may displace allocations of " +
		"jobs with a lower priority, see " +
		"[Preemption](../operations/scheduling.md#preemption).", Settings: []settingText{
		{"system_scheduler_enabled", "", "jobs of type `system`"},
		{"sysbatch_scheduler_enabled", "", "jobs of type `sysbatch`"},
		{"batch_scheduler_enabled", "", "jobs of type `batch`"},
		{"service_scheduler_enabled", "", "jobs of type `service`"},
	}},
	{Block: "server.fencing", Intro: "A device that fences lost nodes, `fencing \"NAME\" { }`; at most 64, which the servers " +
		"try in their order, see [Fence agents](../operations/fencing.md).", Settings: []settingText{
		{
			"agent", "",
			"the program of the device: its name, or its absolute path; required",
		},
		{
			"options", "",
			"a map of options of the agent, besides the action and the plug; a value may refer to pins of the node: " +
				"`\"${pin.bmc}\"`; at most 64 with those of `secret_files`",
		},
		{
			"secret_files", "",
			"a map of options whose values are the contents of files, which only their owner may read, at most 4KiB",
		},
		{
			"match", "all nodes",
			"a map of pins of a node and their values, `\"pin.rack\" = \"r1\"`, or `node.unique.name` or " +
				"`node.unique.id`: the device fences the nodes that have all of them, and the pins of `options` and `plug`",
		},
		{
			"plug", "the pin `plug`, or `${node.unique.name}`",
			"the name of the node at the device, which may refer to pins, and to the name of the node if its join token bound it",
		},
		{
			"scope", "power",
			"`power`: a node that the device has fenced is off; `storage`: it is cut off from `plugins` and `volumes`",
		},
		{"plugins", "", "with `storage`, the IDs of the CSI plugins from whose volumes the device cuts a node off"},
		{"volumes", "", "likewise volumes, each as `\"NAMESPACE/ID\"`"},
		{"timeout", "1m", "the longest time of one action of the agent, 1s to 10m"},
	}},
	{Block: "autopilot", Intro: "The configuration of autopilot that the first leader stores, see " +
		"[Autopilot](../operations/servers.md#autopilot).", Settings: []settingText{
		{"cleanup_dead_servers", "", "servers that have failed are removed, while a majority of the voters stays"},
		{
			"last_contact_threshold", "",
			"a healthy server has heard of the leader within it; times `raft_multiplier`",
		},
		{
			"max_trailing_logs", "",
			"a healthy server is behind the leader by at most this number of log entries; 1 to 10,000,000",
		},
		{"min_quorum", "", "no voter is removed if fewer would stay; at most 1000"},
		{"server_stabilization_time", "", "a new server is healthy for that long before it gets a vote"},
		{
			"enable_redundancy_zones", "",
			"one server of each `redundancy_zone` votes; otherwise all do",
		},
	}},
	{Block: "acl", Intro: "The rights of people and tools, see [Access control](../operations/acl.md).", Settings: []settingText{
		{"enabled", "", "requests need tokens; set it on each agent: a node asks the servers for its own routes"},
		{"mode", "", "`enforce`, or `log`: every request passes, and the servers log those that `enforce` would deny"},
		{
			"keep_deleted", "",
			"how long the restore of an archive does not bring a deleted token back; at least 1h, at most ten years",
		},
	}},
	{Block: "client", Intro: "A node.", Settings: []settingText{
		{"enabled", "", "the agent is a node"},
		{
			"servers", "",
			"RPC addresses of servers, each host:port; not needed if the agent is also a server; *live*",
		},
		{"node_id", "made once", "the ID of the node"},
		{"node_pool", "", "the pool of the node, which jobs name"},
		{"node_class", "", "the class of the node, for constraints; *live*"},
		{"meta", "", "a map for constraints; *live*"},
		{"options", "", "a map with quoted keys, see below"},
		{"first_fingerprint_timeout", "", "how long the first registration waits for running drivers and plugins"},
		{"update_interval", "", "how long changes of allocations are collected"},
		{"volume_stats_interval", "", volumeStatsInterval},
		{"cpu_total_compute", "detected", "the CPU of the node in MHz over all cores"},
		{"memory_total_mb", "detected", "the memory of the node in MiB"},
		{"disk_total_mb", "detected", "the disk of the node in MiB"},
		{
			"network_interface", "that of the default route",
			"the interface whose address has the ports of jobs, see " +
				"[Ports](../operations/networks.md#ports)",
		},
		{
			"cni_path", "",
			"the directories of the plugins of networks, see [Networks of " +
				"allocations](../operations/networks.md#networks-of-allocations)",
		},
		{"cni_config_dir", "", "the configurations of networks with the mode `cni/NAME`"},
		{"bridge_network_name", "", "the interface of networks with the mode `bridge`"},
		{"bridge_network_subnet", "", "the IPv4 addresses of the bridge and its allocations"},
		{
			"bridge_network_hairpin_mode", "",
			"an allocation reaches itself through a port of the node",
		},
		{"min_dynamic_port", "", "the first of the ports that the servers choose"},
		{"max_dynamic_port", "", "the last of them"},
		{
			"max_kill_timeout", "",
			"the most of the `kill_timeout` of tasks on this node: a task with more has this",
		},
		{
			"secrets_size_mb", "",
			"the most memory of the secrets of one task, in MiB, at most 1024; 0 keeps " +
				"them on disk, see [Secrets of " +
				"tasks](../operations/drivers.md#secrets-of-tasks)",
		},
		{"gc_max_allocs", "", "ended allocations whose directories and logs are kept"},
		{"destroy_on_shutdown", "", "stop everything with the agent, as `-dev` does"},
		{"shutdown_timeout", "", "the bound on that"},
	}},
	{Block: "client.reserved", Intro: "The resources that are not available to jobs.", Settings: []settingText{
		{"cpu", "", "in MHz"},
		{"memory", "", "in MiB"},
		{"disk", "", "in MiB"},
		{"reserved_ports", "", "ports such as `\"22,8000-8100\"`"},
	}},
	{Block: "client.host_network", Intro: "A further network for ports; its label is the name, " +
		"see [Ports](../operations/networks.md#ports).", Settings: []settingText{
		{"cidr", "", "the addresses of the network"},
		{"interface", "", "the interface with the address"},
		{"reserved_ports", "", "ports that are not available to jobs there"},
	}},
	{Block: "client.host_volume", Intro: "A directory that jobs may mount; its label is the " +
		"name; *live*, see [Host " +
		"volumes](../storage/host-volumes.md#static-host-volumes).", Settings: []settingText{
		{"path", "", "the absolute path"},
		{"read_only", "", "jobs can only read it"},
	}},
	execTexts,
	{Block: "client.drivers.raw_exec", Intro: "Processes without isolation.", Settings: []settingText{
		{"enabled", "", "the node has the driver"},
		{"cgroup_parent", "", "the cgroup below which each task has its own"},
		{"pids_limit", "", "processes and threads that a task may have; -1 is no limit"},
	}},
	{Block: "client.drivers.docker", Intro: "Containers, see [Containers](../operations/containers.md#containers).", Settings: []settingText{
		{"endpoint", "", "the socket of the docker daemon"},
		{"allow_privileged", "", "jobs may ask for privileges over the host"},
		{
			"allow_caps", "those of container engines, without `net_raw`",
			"the capabilities that containers may have; `all` is every one",
		},
		{"allow_logging", "", "the log drivers of the daemon that jobs may name in `logging`"},
		{
			"extra_labels", "",
			"labels of the dialect that containers get: `job_name`, `job_id`, " +
				"`task_group_name`, `task_name`, `namespace`, `node_name`, `node_id`; `*` stands for any text",
		},
		{
			"allow_runtimes", "the daemon's default one, `nvidia`",
			"the runtimes of the daemon that jobs may name in `runtime`",
		},
		{"pids_limit", "", "processes and threads that a task may have; -1 is no limit"},
		{"pull_activity_timeout", "", "the longest time without progress of a download"},
	}},
	{Block: "client.drivers.docker.volumes", Intro: "", Settings: []settingText{
		{"enabled", "", "jobs may mount paths of the host and use drivers of docker volumes"},
	}},
	{Block: "client.drivers.docker.gc", Intro: "", Settings: []settingText{
		{"image", "", "remove images that no task has used for `image_delay`"},
		{"image_delay", "", "see `image`"},
		{"container", "", "remove the containers of ended tasks"},
	}},
	{Block: "client.drivers.docker.gc.dangling_containers", Intro: "The search for containers of berth without a task.", Settings: []settingText{
		{"enabled", "", "search for them, and remove them"},
		{"dry_run", "", "log them in place of removing them"},
		{"period", "", "the time between two searches"},
		{"creation_grace", "", "the least age of a container that is removed"},
	}},
	{Block: "client.drivers.docker.auth", Intro: "The credentials of registries.", Settings: []settingText{
		{"config", "", "a file in the form of docker's `config.json`"},
		{
			"helper", "",
			"the end of the name of a program `docker-credential-HELPER`, which is asked after the file",
		},
	}},
	{Block: "client.device", Intro: "A group of device files; its label is the name; *live*, see " +
		"[Devices](../operations/drivers.md#devices).", Settings: []settingText{
		{"paths", "", "patterns of the device files"},
		{"permissions", "rw", "any of `rwm`"},
		{"attributes", "", "texts, numbers and flags for constraints"},
	}},
	{Block: "client.users", Intro: "The user IDs for tasks without `user` of drivers that " +
		"take any, see [External " +
		"plugins](../operations/plugins.md#external-plugins).", Settings: []settingText{
		{"dynamic_user_min", "", "the first, from 1 on; -1 turns that off"},
		{"dynamic_user_max", "", "the last, at most 2147483647; -1 turns that off"},
	}},
	{Block: "client.artifact", Intro: "The downloads of artifacts, see " +
		"[Artifacts](../operations/artifacts.md#artifacts).", Settings: []settingText{
		{"http_read_timeout", "", "the time of a download by HTTP, unpacked; at most a week"},
		{"git_timeout", "", "the time of a download by git"},
		{
			"http_max_size", "",
			"the size of one answer of a server, and of a repository on the disk",
		},
		{"decompression_size_limit", "", "the size of the files of an archive"},
		{"decompression_file_count_limit", "", "the entries of an archive"},
		{
			"filesystem_isolation_extra_paths", "",
			"further paths of the machine that downloads may read: `\"d:r:/srv/files\"` " +
				"for a directory, `\"f:r:/etc/x\"` for a file",
		},
		{
			"allow_networks", "",
			"networks from which artifacts may come although a download rejects them, such " +
				"as `\"127.0.0.0/8\"`; at most 256",
		},
		{
			"set_environment_variables", "",
			"the variables of the agent that downloads get, for example " +
				"`\"HTTPS_PROXY,NO_PROXY\"`",
		},
	}},
	{Block: "client.moved_data", Intro: "Data that allocations take over from other nodes; *live*, see [Data of " +
		"allocations](../storage/host-volumes.md#data-of-allocations).", Settings: []settingText{
		{"max_size", "", "the most data that an allocation takes over from another node"},
		{"min_free", "", "the disk space that stays free beside it and beside artifacts"},
		{
			"keep", "",
			"the time after its end for which an allocation of this node keeps data for another node",
		},
	}},
	{Block: "client.drain_on_shutdown", Intro: "With this block the node drains before its agent stops, " +
		"see [Before a machine is switched off](../operations/nodes.md#before-a-machine-is-switched-off).",
		Settings: []settingText{
			{
				"deadline", "1h",
				"the time after which the rest moves at once; the agent stops a minute later, at most",
			},
			{"force", "", "move everything at once; CSI plugins wait for their volumes for 30 seconds at most"},
			{"ignore_system_jobs", "", "leave allocations of system and sysbatch jobs on the node"},
		}},
	{Block: "client.fencing", Intro: "The guard of the node, see " +
		"[What a node ends by itself](../operations/lost-nodes.md#what-a-node-ends-by-itself).",
		Settings: []settingText{
			{
				"watchdog", "none",
				"the watchdog that reboots the machine if the guard cannot end the tasks of a volume in " +
					"time, for example `/dev/watchdog`",
			},
		}},
	{Block: "consul", Intro: "The Consul agent of the machine, see " +
		"[consul.md](../consul.md). An agent that finds no " +
		"Consul at the address works without it.", Settings: []settingText{
		{
			"address", "",
			"host:port, `http://host:port`, `https://host:port` or `unix:///path`; `\"\"` turns Consul off",
		},
		{
			"grpc_address", "the port that Consul names, on the host of `address`",
			"host:port or `unix:///path`, for the proxies of the service mesh",
		},
		{"token", "", "the token of Consul's ACLs"},
		{
			"token_file", "",
			"the file that has it, read for each request, so that a new token counts at once",
		},
		{"auth", "", "`user:password` of HTTP"},
		{"ssl", "", "talk to the address by https"},
		{"verify_ssl", "", "verify Consul's certificate"},
		{"ca_file", "", "the absolute path of a PEM file: the authority of Consul"},
		{"cert_file", "", "the same of the certificate of this agent"},
		{"key_file", "", "the same of its key"},
		{"timeout", "", "the bound on each request, 100ms to 1m"},
		{
			"proxy_path", "`consul` in the PATH of the agent",
			"the absolute path of the program that runs the proxies of the service mesh without Envoy",
		},
		{"envoy_path", "`envoy` in the PATH of the agent", "the absolute path of Envoy"},
		{"auto_advertise", "", "register the agent itself in Consul"},
		{"server_service_name", "", "the name of a server's own service"},
		{"client_service_name", "", "the name of a node's own service"},
		{"tags", "", "further tags of these"},
		{
			"checks_use_advertise", "",
			"Consul checks the advertised addresses of the agent, not those that it listens on",
		},
		{"server_auto_join", "", "a server without `retry_join` looks for servers in Consul"},
		{"client_auto_join", "", "a node without `servers` looks for servers in Consul"},
		{
			"allow_unauthenticated", "",
			"of servers: with false, whoever registers or reverts a job with services in " +
				"Consul needs a Consul token that may write them; set it on all servers",
		},
		{"service_auth_method", "", "the auth method of Consul at which the node logs in for services"},
		{"task_auth_method", "", "the same for tasks"},
	}},
	{Block: "plugin", Intro: "A program of `plugin_dir`; its label is the file, see [External " +
		"plugins](../operations/plugins.md#external-plugins).", Settings: []settingText{
		{"args", "", "the arguments of the program"},
		{"config", "", "the configuration of the driver or device plugin"},
	}},
}
