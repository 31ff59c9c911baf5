package jobtext

// block has fields of a block in which one package replaces placeholders.
type block struct {
	typ, name, by string
	arguments     [][2]string // the names in structs and in a job file
}

// blocks are the blocks with placeholders, in the order of the documentation.
var blocks = []block{
	{"Job", "job", "client/allocrunner", [][2]string{
		{"Meta", "meta"},
	}},
	{"TaskGroup", "group", "client/allocrunner", [][2]string{
		{"Meta", "meta"},
	}},
	{"Task", "task", "client/allocrunner", [][2]string{
		{"Meta", "meta"},
		{"Config", "config"},
		{"Env", "env"},
		{"User", "user"},
		{"KillSignal", "kill_signal"},
	}},
	{"Action", "action", "client/allocrunner", [][2]string{
		{"Command", "command"},
		{"Args", "args"},
	}},
	{"VolumeMount", "volume_mount", "client/allocrunner", [][2]string{
		{"Volume", "volume"},
		{"Destination", "destination"},
		{"PropagationMode", "propagation_mode"},
		{"SubPath", "sub_path"},
	}},
	{"SnapshotCommands", "snapshot", "client/csi/csihooks", [][2]string{
		{"Pre", "pre"},
		{"Post", "post"},
	}},
	{"TaskArtifact", "artifact", "client/hooks/artifact", [][2]string{
		{"GetterSource", "source"},
		{"RelativeDest", "destination"},
		{"GetterMode", "mode"},
		{"GetterOptions", "options"},
		{"GetterHeaders", "headers"},
	}},
	{"Template", "template", "client/hooks/template", [][2]string{
		{"SourcePath", "source"},
		{"DestPath", "destination"},
	}},
	{"ChangeScript", "change_script", "client/hooks/template", [][2]string{
		{"Command", "command"},
		{"Args", "args"},
	}},
	{"NetworkResource", "network", "client/hooks/network", [][2]string{
		{"Hostname", "hostname"},
	}},
	{"DNSConfig", "dns", "client/hooks/network", [][2]string{
		{"Servers", "servers"},
		{"Searches", "searches"},
		{"Options", "options"},
	}},
	{"Service", "service", "client/mesh/services", [][2]string{
		{"Name", "name"},
		{"PortLabel", "port"},
		{"Address", "address"},
		{"Tags", "tags"},
		{"CanaryTags", "canary_tags"},
		{"Meta", "meta"},
		{"CanaryMeta", "canary_meta"},
		{"TaggedAddresses", "tagged_addresses"},
	}},
	{"ServiceCheck", "check", "client/mesh/services", [][2]string{
		{"Name", "name"},
		{"PortLabel", "port"},
		{"Protocol", "protocol"},
		{"Method", "method"},
		{"Path", "path"},
		{"Header", "header"},
		{"Body", "body"},
		{"Command", "command"},
		{"Args", "args"},
		{"GRPCService", "grpc_service"},
		{"TLSServerName", "tls_server_name"},
	}},
	{"SidecarService", "sidecar_service", "consul/mesh", [][2]string{
		{"Tags", "tags"},
		{"Meta", "meta"},
	}},
	{"ConnectProxy", "proxy", "consul/mesh", [][2]string{
		{"LocalServiceAddress", "local_service_address"},
		{"Config", "config"},
	}},
	{"ConnectUpstream", "upstreams", "consul/mesh", [][2]string{
		{"DestinationName", "destination_name"},
		{"DestinationPeer", "destination_peer"},
		{"Datacenter", "datacenter"},
		{"LocalBindAddress", "local_bind_address"},
		{"LocalBindSocketPath", "local_bind_socket_path"},
		{"Config", "config"},
	}},
	{"ConnectExposePath", "expose.path", "consul/mesh", [][2]string{
		{"Path", "path"},
	}},
	{"GatewayProxy", "gateway.proxy", "consul/mesh", [][2]string{
		{"Config", "config"},
	}},
	{"GatewayBindAddress", "envoy_gateway_bind_addresses", "consul/mesh", [][2]string{
		{"Address", "address"},
	}},
	{"Constraint", "constraint", Scheduler, [][2]string{
		{"LTarget", "attribute"},
		{"RTarget", "value"},
	}},
	{"Affinity", "affinity", Scheduler, [][2]string{
		{"LTarget", "attribute"},
		{"RTarget", "value"},
	}},
	{"Spread", "spread", Scheduler, [][2]string{
		{"Attribute", "attribute"},
	}},
}

// literal has the fields in which nothing replaces placeholders, by the reason.
var literal = map[string]map[string][]string{
	"it tells the job and its parts apart, before a node has them": {
		"Job":             {"Region", "Namespace", "ID", "Name", "ParentID", "DispatchIdempotencyToken"},
		"JobVersionTag":   {"Name"},
		"TaskGroup":       {"Name"},
		"Task":            {"Name"},
		"Action":          {"Name"},
		"Port":            {"Label"},
		"Service":         {"TaskName"},
		"ServiceCheck":    {"TaskName"},
		"CSIPluginConfig": {"ID"},
		"ScalingPolicy":   {"ID", "Namespace"},
		"VolumeRequest":   {"Name"},

		"SidecarService":     {"Port"}, // the servers hand out ports by their labels
		"ConnectExposePath":  {"ListenerPort"},
		"GatewayBindAddress": {"Name"},
	},
	"the servers write it": {
		"Job": {"Status", "StatusDescription", "ConsulToken"},

		"JobVersionTag": {"Description"},

		"Task": {"Kind"},
	},
	"it becomes a field of the task of the proxy, which takes placeholders": {
		"SidecarTask": {"Name", "Driver", "User", "Config", "Env", "Meta", "KillSignal"},
	},
	"the servers write it into a configuration entry of Consul": {
		"GatewayTLS":            {"TLSMinVersion", "TLSMaxVersion", "CipherSuites"},
		"GatewayListener":       {"Protocol"},
		"GatewayIngressService": {"Name", "Hosts"},
		"GatewayLinkedService":  {"Name", "CAFile", "CertFile", "KeyFile", "SNI"},
	},
	"the choice of a node depends on it": {
		"Job":             {"Datacenters", "NodePool"},
		"Task":            {"Driver"},
		"Constraint":      {"Operand"},
		"Affinity":        {"Operand"},
		"SpreadTarget":    {"Value"},
		"RequestedDevice": {"Name"},
		"NetworkResource": {"Mode", "CIDR", "Device", "IP"},
		"Port":            {"HostNetwork"},
		"VolumeRequest": {"Type", "Source", "Class", "Lifecycle", "AccessMode", "AttachmentMode", "OnDeadMount",
			"PluginID", "Parameters"},
	},
	"the servers act by it": {
		"Job":                    {"Type"},
		"PeriodicConfig":         {"Spec", "Specs", "SpecType", "TimeZone"},
		"ParameterizedJobConfig": {"Payload", "MetaRequired", "MetaOptional"},
		"ReschedulePolicy":       {"DelayFunction"},
		"UpdateStrategy":         {"HealthCheck"},
		"MigrateStrategy":        {"HealthCheck"},
		"DisconnectStrategy":     {"Reconcile"},
		"Service":                {"Provider"},
	},
	"an autoscaler reads it": {
		"ScalingPolicy": {"Type", "Target", "Policy"},
	},
	"it is one of a few words, by which the other fields are checked": {
		"RestartPolicy":   {"Mode"},
		"TaskLifecycle":   {"Hook"},
		"Template":        {"ChangeMode", "ChangeSignal", "Perms"},
		"Service":         {"AddressMode", "OnUpdate"},
		"ServiceCheck":    {"Type", "AddressMode", "OnUpdate", "InitialStatus"},
		"CSIPluginConfig": {"Type", "TokensIn"},

		"WorkloadIdentity": {"ChangeMode", "ChangeSignal"},
		"Vault":            {"ChangeMode", "ChangeSignal"},

		"ConnectUpstream":    {"DestinationNamespace", "DestinationType", "LocalBindSocketMode"},
		"ConnectMeshGateway": {"Mode"},
		"ConnectExposePath":  {"Protocol"},
		"GatewayProxy":       {"EnvoyDNSDiscoveryType"},
	},
	"it has a syntax of its own, which reads variables": {
		"Template": {"EmbeddedTmpl", "LeftDelim", "RightDelim"},
	},
	"the node keeps a volume or a socket by it, beyond one start of the task": {
		"CSIMountOptions": {"FSType", "MountFlags"},
		"VolumeOwnership": {"Owner", "Group", "Mode", "Policy"},
		"CSIPluginConfig": {"MountDir", "StagePublishBaseDir", "FormerProvider"},
	},
	"the servers sign it": {
		"WorkloadIdentity": {"Name", "Audience", "ServiceName"},
		"CSIToken":         {"Audience"},
	},
	"the node logs in by it": {
		"Vault":  {"Role", "Namespace", "Cluster"},
		"Consul": {"Namespace", "Cluster"},
	},
	"the dialect takes it as it is": {
		"DispatchPayloadConfig": {"File"},
		"WorkloadIdentity":      {"Filepath"},
	},
}

// Taking returns the fields with placeholders, in the order of the documentation.
func Taking() []Field {
	var list []Field
	for _, b := range blocks {
		for _, a := range b.arguments {
			list = append(list, Field{
				Type:     b.typ,
				Name:     a[0],
				Block:    b.name,
				Argument: a[1],
				By:       b.by,
			})
		}
	}

	return list
}

func literals() []Field {
	var list []Field
	for _, types := range literal {
		for typ, names := range types {
			for _, name := range names {
				list = append(list, Field{
					Type: typ,
					Name: name,
					By:   Literal,
				})
			}
		}
	}

	return list
}
