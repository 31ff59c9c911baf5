package taskrunner

import (
	"cmp"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/client/drivers/driver"
	"berth/consul/mesh"
	"berth/structs"
)

// envPrefixes are the names under which a task finds each of its variables: berth's own and the dialect's,
// which existing jobs and images know.
var envPrefixes = []string{"BERTH_", "NOMAD_"}

// variables are the values that a task's strings may refer to as ${name}.
type variables map[string]string

// taskFacts are the facts from which a task's variables are made.
type taskFacts struct {
	alloc  *structs.Allocation
	group  *structs.TaskGroup
	task   *structs.Task
	node   *structs.Node
	dirs   driver.Dirs // as the task sees them
	region string
	// network is the allocation's, nil if it has none of its own.
	network *structs.AllocNetworkStatus
}

// variables returns the task's environment and everything that may be referred to, the environment included.
func (f taskFacts) variables() (env map[string]string, vars variables) {
	alloc, t := f.alloc, f.task
	own := f.named()
	addPorts(own, alloc.Ports, structs.VariableName)
	f.addInside(own, structs.VariableName)
	f.addUpstreams(own, structs.VariableName)
	env = make(map[string]string, len(envPrefixes)*len(own)+len(t.Env))
	setPrefixed(env, own)
	vars = nodeVariables(f.node)
	vars["node.region"] = f.region

	// The names in an environment have no characters that a shell rejects. A reference may also have the
	// label as it is written.
	labelled := map[string]string{}
	asWritten := func(label string) string { return label }
	addPorts(labelled, alloc.Ports, asWritten)
	f.addInside(labelled, asWritten)
	f.addUpstreams(labelled, asWritten)
	setPrefixed(vars, labelled)
	vars.addEnv(env)

	// The meta may refer to the environment so far, and the task's own variables to both.
	setPrefixed(env, f.meta(vars))
	vars.addEnv(env)
	for k, v := range t.Env { // its values may refer to all above, not to each other
		env[k] = vars.expand(v)
	}

	vars.addEnv(env)
	return env, vars
}

// named returns the task's variables without their prefixes, except the variables of ports and metadata.
func (f taskFacts) named() map[string]string {
	alloc, t := f.alloc, f.task
	own := map[string]string{
		"ALLOC_ID":       alloc.ID,
		"SHORT_ALLOC_ID": structs.ShortID(alloc.ID),
		"ALLOC_NAME":     alloc.Name,
		"ALLOC_INDEX":    strconv.Itoa(alloc.Index()),
		"TASK_NAME":      t.Name,
		"GROUP_NAME":     f.group.Name,
		"JOB_ID":         alloc.JobID,
		"JOB_NAME":       alloc.Job.Name,
		"NAMESPACE":      structs.NamespaceOr(alloc.Namespace),
		"DC":             f.node.Datacenter,
		"REGION":         f.region,
		"ALLOC_DIR":      f.dirs.AllocShared,
		"TASK_DIR":       f.dirs.Local,
		"SECRETS_DIR":    f.dirs.Secrets,
	}

	if parent := alloc.Job.ParentID; parent != "" {
		own["JOB_PARENT_ID"] = parent
	}

	if r := t.Resources; r != nil {
		own["CPU_LIMIT"] = strconv.Itoa(r.CPU)
		own["MEMORY_LIMIT"] = strconv.Itoa(r.MemoryMB)
		if r.MemoryMaxMB > 0 && !alloc.NoMemoryMax {
			own["MEMORY_MAX_LIMIT"] = strconv.Itoa(r.MemoryMaxMB)
		}
	}

	return own
}

// meta returns the variables of the job's, the group's and the task's meta: the nearer wins, and the last of
// equal keys of one meta. Its keys and values may refer to all in vars, not to each other.
func (f taskFacts) meta(vars variables) map[string]string {
	own := map[string]string{}
	for _, meta := range []map[string]string{f.alloc.Job.Meta, f.group.Meta, f.task.Meta} {
		// The order makes the winner of equal keys the same one at each start.
		for _, written := range slices.Sorted(maps.Keys(meta)) {
			k := vars.expand(written)
			value := vars.expand(meta[written])
			own["META_"+structs.VariableName(k)] = value
			own["META_"+structs.VariableName(strings.ToUpper(k))] = value
		}
	}
	return own
}

// addEnv adds variables of an environment, each also with "env." before its name.
func (v variables) addEnv(env map[string]string) {
	for name, value := range env {
		v[name] = value
		v["env."+name] = value
	}
}

// setPrefixed sets each variable under each of its names.
func setPrefixed(vars, own map[string]string) {
	for _, p := range envPrefixes {
		for k, v := range own {
			vars[p+k] = v
		}
	}
}

// addPorts adds the variables of ports. nameOf returns the end of a port's names for its label. PORT and
// ALLOC_PORT are the port at which the task listens, the others are of the node.
func addPorts(own map[string]string, ports []structs.AllocatedPort, nameOf func(label string) string) {
	for _, p := range ports {
		name := nameOf(p.Label)
		inside := strconv.Itoa(p.Inside())
		own["PORT_"+name] = inside
		own["ALLOC_PORT_"+name] = inside
		own["IP_"+name] = p.HostIP
		own["ADDR_"+name] = p.HostAddr()
		own["HOST_IP_"+name] = p.HostIP
		own["HOST_PORT_"+name] = strconv.Itoa(p.Value)
		own["HOST_ADDR_"+name] = p.HostAddr()
	}
}

// addInside adds the variables of ports in the network of the allocation, if it has an address of its own.
func (f taskFacts) addInside(own map[string]string, nameOf func(label string) string) {
	if f.network == nil || f.network.Address == "" {
		return
	}
	for i := range f.alloc.Ports {
		p := &f.alloc.Ports[i]
		name := nameOf(p.Label)
		own["ALLOC_INTERFACE_"+name] = f.network.InterfaceName
		own["ALLOC_IP_"+name] = f.network.Address
		own["ALLOC_ADDR_"+name] = net.JoinHostPort(f.network.Address, strconv.Itoa(p.Inside()))
	}
}

// addUpstreams adds the variables of the services that the proxies of the group lead to.
func (f taskFacts) addUpstreams(own map[string]string, nameOf func(label string) string) {
	for _, u := range mesh.Upstreams(f.group) {
		if u.LocalBindPort == 0 { // it has a socket
			continue
		}
		name := nameOf(u.DestinationName)
		host := cmp.Or(u.LocalBindAddress, mesh.Loopback)
		port := strconv.Itoa(u.LocalBindPort)
		own["UPSTREAM_IP_"+name] = host
		own["UPSTREAM_PORT_"+name] = port
		own["UPSTREAM_ADDR_"+name] = net.JoinHostPort(host, port)
	}
}

// nodeVariables returns the node's facts under the names that constraints use.
func nodeVariables(node *structs.Node) variables {
	v := variables{
		"node.unique.id":   node.ID,
		"node.unique.name": node.Name,
		"node.datacenter":  node.Datacenter,
		"node.class":       node.NodeClass,
		"node.pool":        node.NodePool,
	}
	for k, a := range node.Attributes {
		v["attr."+k] = a
	}
	for k, m := range node.Meta {
		v["meta."+k] = m
	}
	return v
}

// reference matches ${name}, and the forms ${env["name"]} and ${env "name"} of ${env.name}.
var reference = regexp.MustCompile(`\$\{\s*(?:([^{}\s"]+)|env(?:\["([^{}\s"]+)"\]|\s+"([^{}\s"]+)"))\s*\}`)

// expand replaces the known references in s. Others stay as they are: a shell in the task may expand them.
func (v variables) expand(s string) string {
	if !strings.Contains(s, "${") {
		return s
	}
	return reference.ReplaceAllStringFunc(s, func(ref string) string {
		m := reference.FindStringSubmatch(ref)
		name := m[1]
		// At most one of the two forms has matched.
		if variable := m[2] + m[3]; variable != "" {
			name = "env." + variable
		}
		value, ok := v[name]
		if ok {
			return value
		}
		return ref
	})
}
