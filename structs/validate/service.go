package validate

import (
	"slices"
	"strconv"
	"strings"

	"berth/structs"
	"berth/structs/validate/field"
	"berth/structs/validate/taskfiles"
)

// checkServices checks the services of the group and of its tasks.
func checkServices(f field.Errors, g *structs.TaskGroup) {
	total := 0
	size := 0
	seen := map[string]bool{}
	signed := map[[2]string]bool{} // names of services and of their identities
	numbers := map[string]int{}    // of services by their owner
	f.Require(!slices.Contains(g.Services, nil), "a service is null")
	for _, t := range g.Tasks {
		f.Require(t == nil || !slices.Contains(t.Services, nil), "a service of a task is null")
	}

	for s := range g.AllServices() {
		f := f
		if s.Owner != "" {
			f = f.At("task %q", s.Owner)
		}

		numbers[s.Owner]++
		f = f.At("service %d", numbers[s.Owner])
		total++

		// The rest is only counted: one fault tells that there are too many.
		if total > structs.MaxServices {
			continue
		}

		// Instances of one ID would replace each other at their provider.
		id := s.InstanceID("", s.Owner)
		f.Require(!seen[id], "the service is there twice with the same port")
		seen[id] = true
		// A node asks for a token by these names.
		if s.Identity != nil {
			names := [2]string{s.Name, s.Identity.Name}
			f.Require(!signed[names], "identity: another service %q has the identity %q; give one another name",
				structs.Cut(s.Name, structs.MaxQuoted), structs.Cut(s.Identity.Name, structs.MaxQuoted))
			signed[names] = true
		}
		size += serviceBytes(s.Service)
		checkService(f, &s, g)
	}

	if f.AtMost("services", total, structs.MaxServices) == total {
		checkMesh(f, g)
	}

	f.CheckBytes("services: all names, tags and meta", size, structs.MaxServiceBytes)
}

// serviceBytes returns the size of all texts of the service that its instances may have.
func serviceBytes(s *structs.Service) int {
	n := len(s.Name) + len(s.Address)
	for _, tag := range append(slices.Clone(s.Tags), s.CanaryTags...) {
		n += len(tag)
	}

	if c := s.Connect; c != nil && c.SidecarService != nil {
		for _, tag := range c.SidecarService.Tags {
			n += len(tag)
		}

		n += structs.PairBytes(c.SidecarService.Meta)
	}

	return n + structs.PairBytes(s.Meta) + structs.PairBytes(s.CanaryMeta) + structs.PairBytes(s.TaggedAddresses)
}

// checkService checks a service of a group or a task: its name, its addresses, and its checks. Some settings
// are for Consul alone.
func checkService(f field.Errors, s *structs.OwnedService, g *structs.TaskGroup) {
	f.Require(field.IsServiceName(s.Name) ||
		structs.HasPlaceholder(s.Name) && len(s.Name) <= structs.MaxName,
		"name %q must be 1 to 63 letters, digits and dashes, and neither begin nor end with a dash", s.Name)
	f.CheckOneOf("provider", s.Provider,
		[]string{structs.ServiceProviderConsul, structs.ServiceProviderBerth})
	if s.Provider == structs.ServiceProviderConsul {
		checkConsulMeta(f, "meta", s.Meta)
		checkConsulMeta(f, "canary_meta", s.CanaryMeta)
	}

	f.Require(!s.EnableTagOverride || s.Provider == structs.ServiceProviderConsul,
		"enable_tag_override is for services with provider = %q", structs.ServiceProviderConsul)
	checkConnect(f, s, g)
	f.Require(len(s.TaggedAddresses) == 0 && s.Weights == nil || s.Provider == structs.ServiceProviderConsul,
		"tagged_addresses and weights are for services with provider = %q", structs.ServiceProviderConsul)
	checkTaggedAddresses(f, s.TaggedAddresses)
	checkWeights(f.At("weights"), s.Weights)
	taskfiles.CheckServiceIdentity(f, s.Service)
	f.CheckOneOf("on_update", s.OnUpdate,
		[]string{structs.OnUpdateRequireHealthy, structs.OnUpdateIgnoreWarnings, structs.OnUpdateIgnore})
	checkAddressMode(f, s, g, s.AddressMode)
	f.CheckString("address", s.Address, structs.MaxName)
	f.Require(s.Address == "" || s.AddressMode == structs.AddressModeAuto,
		"address: address_mode %q is for a service without an address", s.AddressMode)
	checkServicePort(f, g, "port", s.PortLabel)
	checkTags(f, s)
	if s.Owner != "" {
		f.Require(s.TaskName == "" || s.TaskName == s.Owner,
			"task %q: the service is that of task %q", s.TaskName, s.Owner)
	} else {
		checkServiceTask(f, g, s.TaskName)
	}

	checkCheckRestart(f.At("check_restart"), s.CheckRestart)
	for i, c := range field.FirstOf(f, "checks", s.Checks, structs.MaxServiceChecks) {
		if c == nil {
			f.Addf("check %d is null", i+1)
			continue
		}

		checkCheck(f.At("check %d", i+1), c, s, g)
	}
}

// checkTags checks the tags and the meta of a service, and what its canaries have instead.
func checkTags(f field.Errors, s *structs.OwnedService) {
	for _, tag := range field.FirstOf(f, "tags", s.Tags, structs.MaxServiceTags) {
		f.CheckString("tags: tag", tag, structs.MaxName)
	}

	for _, tag := range field.FirstOf(f, "canary_tags", s.CanaryTags, structs.MaxServiceTags) {
		f.CheckString("canary_tags: tag", tag, structs.MaxName)
	}

	f.CheckMeta("meta", s.Meta)
	f.CheckMeta("canary_meta", s.CanaryMeta)
}

// checkServicePort checks the label of a port of the group, or a number.
func checkServicePort(f field.Errors, g *structs.TaskGroup, name, label string) {
	if label == "" || strings.Contains(label, structs.Placeholder) {
		f.CheckBytes(name, len(label), structs.MaxName)
		return
	}

	// A number is a port of the task, which the group need not know.
	n, err := strconv.Atoi(label)
	if err == nil {
		f.CheckRange(name, n, field.Between(1, structs.MaxPort))
		return
	}

	has := func(p structs.Port) bool { return p.Label == label }
	f.Require(slices.ContainsFunc(g.PortDemands(), has),
		"%s %q: the network of the group has no port with this label", name, label)
}

// checkServiceTask checks the name of a task that offers a service or runs a check.
func checkServiceTask(f field.Errors, g *structs.TaskGroup, task string) {
	has := func(t *structs.Task) bool { return t != nil && t.Name == task }
	f.Require(task == "" || slices.ContainsFunc(g.Tasks, has), "task %q: the group has no such task", task)
}

// insideModes are the modes of addresses and ports that are not the node's.
var insideModes = []string{structs.AddressModeAlloc, structs.AddressModeDriver}

// checkAddressMode checks the address mode of a service or of a check.
func checkAddressMode(f field.Errors, s *structs.OwnedService, g *structs.TaskGroup, mode string) {
	switch mode {
	case structs.AddressModeAlloc:
		n := g.Network()
		f.Require(n.Isolated() && n.Mode != structs.NetworkModeNone,
			"address_mode %q: the allocations of the group have no addresses of their own; "+
				"give its network the mode %q", mode, structs.NetworkModeBridge)
	case structs.AddressModeDriver:
		f.Require(s.Owner != "", "address_mode %q is for a service of a task: write the service in the task",
			mode)
	default:
		f.CheckOneOf("address_mode", mode, append([]string{structs.AddressModeAuto, structs.AddressModeHost},
			insideModes...))
	}
}

// maxWeight is the highest weight of a record in the domain name system.
const maxWeight = 65535

// checkWeights checks the shares that an instance gets of requests by DNS, by its health. nil is the default.
func checkWeights(f field.Errors, w *structs.ServiceWeights) {
	if w == nil {
		return
	}
	f.CheckRange("passing", w.Passing, field.Between(1, maxWeight))
	f.CheckRange("warning", w.Warning, field.Between(1, maxWeight))
}

// consulMetaForm is the form of a key of Consul's meta.
var consulMetaForm = field.Pattern(`^[A-Za-z0-9_-]{1,128}$`)

// The bounds of Consul on the meta of a service. berth adds three entries.
const (
	maxConsulMeta      = 64 - 3
	maxConsulMetaValue = 512
)

// checkConsulMeta checks the bounds of Consul on meta, so that a job learns of them before it runs.
func checkConsulMeta(f field.Errors, name string, meta map[string]string) {
	f.AtMost(name+" of a service in Consul", len(meta), maxConsulMeta)
	for k, v := range meta {
		f.Require(structs.HasPlaceholder(k) || consulMetaForm().MatchString(k),
			"%s: key %q: Consul takes 1 to 128 letters, digits, - and _", name,
			structs.Cut(k, structs.MaxQuoted))
		f.Require(!strings.HasPrefix(k, "consul-") && !strings.HasPrefix(k, "berth-") &&
			k != "external-source",
			"%s: key %q is one of Consul or berth", name, structs.Cut(k, structs.MaxQuoted))
		f.CheckBytes(name+": the value of "+strconv.Quote(structs.Cut(k, structs.MaxQuoted)), len(v),
			maxConsulMetaValue)
	}
}

// ConsulMeta checks the meta of a service in Consul, once the node has replaced its placeholders.
func ConsulMeta(meta map[string]string) error {
	f := field.New("")
	checkConsulMeta(f, "meta", meta)
	return f.Err()
}

// checkTaggedAddresses leaves texts with placeholders to the node.
func checkTaggedAddresses(f field.Errors, all map[string]string) {
	const name = "tagged_addresses"
	f.CheckMeta(name, all)
	for tag, text := range all {
		f.Require(structs.HasPlaceholder(tag) || consulMetaForm().MatchString(tag),
			"%s: %q: expected 1 to 128 letters, digits, - and _", name, structs.Cut(tag, structs.MaxQuoted))
		if structs.HasPlaceholder(text) {
			continue
		}

		_, _, err := field.SplitAddress(text, 0)
		f.Require(err == nil, "%s: %v", name, err)
	}
}
