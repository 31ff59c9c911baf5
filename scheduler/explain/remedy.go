package explain

import (
	"strings"

	"berth/structs"
)

// command returns a command on an object of a namespace, which it names if it is not the default one.
func command(namespace, verb string, args ...string) string {
	if namespace != structs.DefaultNamespace {
		verb += " -namespace " + namespace
	}
	return "berth " + verb + " " + strings.Join(args, " ")
}

// The scheduler's filters of volumes and of plugins: the reasons of those follow them.
const (
	volumeFilter = "csi-volume"
	pluginFilter = "csi-plugin"
)

// remedies has for each filter of the scheduler the next thing that an operator can do.
var remedies = map[string]string{
	"eligibility": "start the agents of nodes that are down; else berth node eligibility -enable NODE, " +
		"or berth node drain -disable NODE",
	"datacenter": "set datacenters in the job, or datacenter in the client block of the nodes",
	"node-pool":  "set node_pool in the job, or in the client block of the nodes",
	"protocol":   "update the agents of these nodes",
	"driver": "berth node status NODE shows the drivers; enable the driver in the client block " +
		"of the nodes",
	"constraint": "berth node status -verbose NODE shows the attributes; change the constraint or the nodes",
	"device":     "berth node status NODE shows the devices; ask for fewer, or add nodes that have them",
	"network":    "choose another static port, or a host_network that the nodes have",
	"host-volume": "offer the volume in the client block of the nodes, " +
		"or wait for the end of its writer",
	"distinct-hosts": "add nodes, lower the count, or remove distinct_hosts",
	"distinct-property": "add nodes with other values of the property, raise its limit, " +
		"or lower the count",
	pluginFilter: "run the plugin's job on these nodes: berth plugin status PLUGIN",
	volumeFilter: "berth volume status VOLUME shows who uses it and from where it is reachable",
	"csi-limit":  "add nodes, or end allocations that use volumes of the plugin on these nodes",
	"resources":  "add nodes, end other allocations, or ask for less in the resources block",
}
