package structs

import (
	"slices"
	"strconv"
	"strings"
)

// serviceNameForm is the form of a label of the domain name system, so that every consumer knows it.
var serviceNameForm = pattern(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// IsServiceName reports whether a name without placeholders is valid for a service.
func IsServiceName(name string) bool { return serviceNameForm().MatchString(name) }

// validateServices checks the services of the group and of its tasks.
func (g *TaskGroup) validateServices(f fieldErrors) {
	total := 0
	size := 0
	seen := map[string]bool{}
	numbers := map[string]int{} // of services by their owner
	f.require(!slices.Contains(g.Services, nil), "a service is null")
	for _, t := range g.Tasks {
		f.require(t == nil || !slices.Contains(t.Services, nil), "a service of a task is null")
	}

	for s := range g.AllServices() {
		f := f
		if s.Owner != "" {
			f = f.at("task %q", s.Owner)
		}

		numbers[s.Owner]++
		f = f.at("service %d", numbers[s.Owner])
		total++
		if total > MaxServices {
			continue
		}

		id := s.InstanceID("", s.Owner)
		f.require(!seen[id], "the service is there twice with the same port")
		seen[id] = true
		size += s.bytes()
		s.validate(f, g)
	}

	if f.atMost("services", total, MaxServices) == total {
		g.validateConnect(f)
	}

	f.checkBytes("services: all names, tags and meta", size, MaxServiceBytes)
}

// bytes returns the size of all texts of the service that its instances may have.
func (s *Service) bytes() int {
	n := len(s.Name) + len(s.Address)
	for _, tag := range append(slices.Clone(s.Tags), s.CanaryTags...) {
		n += len(tag)
	}
	if c := s.Connect; c != nil && c.SidecarService != nil {
		for _, tag := range c.SidecarService.Tags {
			n += len(tag)
		}
		n += PairBytes(c.SidecarService.Meta)
	}
	return n + PairBytes(s.Meta) + PairBytes(s.CanaryMeta) + PairBytes(s.TaggedAddresses)
}

func (s *OwnedService) validate(f fieldErrors, g *TaskGroup) {
	f.require(IsServiceName(s.Name) || strings.Contains(s.Name, Placeholder) && len(s.Name) <= MaxName,
		"name %q must be 1 to 63 letters, digits and dashes, and neither begin nor end with a dash", s.Name)
	f.checkOneOf("provider", s.Provider, []string{ServiceProviderConsul, ServiceProviderBerth})
	if s.Provider == ServiceProviderConsul {
		f.checkConsulMeta("meta", s.Meta)
		f.checkConsulMeta("canary_meta", s.CanaryMeta)
	}

	f.require(!s.EnableTagOverride || s.Provider == ServiceProviderConsul,
		"enable_tag_override is for services with provider = %q", ServiceProviderConsul)
	s.validateConnect(f, g)
	f.require(len(s.TaggedAddresses) == 0 && s.Weights == nil || s.Provider == ServiceProviderConsul,
		"tagged_addresses and weights are for services with provider = %q", ServiceProviderConsul)
	f.checkTaggedAddresses(s.TaggedAddresses)
	s.Weights.validate(f.at("weights"))
	f.checkOneOf("on_update", s.OnUpdate,
		[]string{OnUpdateRequireHealthy, OnUpdateIgnoreWarnings, OnUpdateIgnore})
	s.checkAddressMode(f, g, s.AddressMode)
	f.checkString("address", s.Address, MaxName)
	f.require(s.Address == "" || s.AddressMode == AddressModeAuto,
		"address: address_mode %q is for a service without an address", s.AddressMode)
	g.checkServicePort(f, "port", s.PortLabel)
	for _, tag := range firstOf(f, "tags", s.Tags, MaxServiceTags) {
		f.checkString("tags: tag", tag, MaxName)
	}

	for _, tag := range firstOf(f, "canary_tags", s.CanaryTags, MaxServiceTags) {
		f.checkString("canary_tags: tag", tag, MaxName)
	}

	f.checkMeta("meta", s.Meta)
	f.checkMeta("canary_meta", s.CanaryMeta)
	if s.Owner != "" {
		f.require(s.TaskName == "" || s.TaskName == s.Owner,
			"task %q: the service is that of task %q", s.TaskName, s.Owner)
	} else {
		g.checkServiceTask(f, s.TaskName)
	}

	s.CheckRestart.validate(f.at("check_restart"))
	for i, c := range firstOf(f, "checks", s.Checks, MaxServiceChecks) {
		if c == nil {
			f.addf("check %d is null", i+1)
			continue
		}

		c.validate(f.at("check %d", i+1), s, g)
	}
}

// consulMetaForm is the form of a key of Consul's meta.
var consulMetaForm = pattern(`^[A-Za-z0-9_-]{1,128}$`)

// The bounds of Consul on the meta of a service. berth adds three entries.
const (
	maxConsulMeta      = 64 - 3
	maxConsulMetaValue = 512
)

// checkConsulMeta checks the bounds of Consul on meta, so that a job learns of them before it runs.
func (f fieldErrors) checkConsulMeta(name string, meta map[string]string) {
	f.atMost(name+" of a service in Consul", len(meta), maxConsulMeta)
	for k, v := range meta {
		f.require(HasPlaceholder(k) || consulMetaForm().MatchString(k),
			"%s: key %q: Consul takes 1 to 128 letters, digits, - and _", name, Cut(k, MaxQuoted))
		f.require(!strings.HasPrefix(k, "consul-") && !strings.HasPrefix(k, "berth-") && k != "external-source",
			"%s: key %q is one of Consul or berth", name, Cut(k, MaxQuoted))
		f.checkBytes(name+": the value of "+strconv.Quote(Cut(k, MaxQuoted)), len(v), maxConsulMetaValue)
	}
}

// CheckConsulMeta checks the meta of a service in Consul, once the node has replaced its placeholders.
func CheckConsulMeta(meta map[string]string) error {
	f := newFieldErrors("")
	f.checkConsulMeta("meta", meta)
	return f.err()
}

// checkServicePort checks the label of a port of the group, or a number.
func (g *TaskGroup) checkServicePort(f fieldErrors, name, label string) {
	if label == "" || strings.Contains(label, Placeholder) {
		f.checkBytes(name, len(label), MaxName)
		return
	}
	n, err := strconv.Atoi(label)
	if err == nil {
		f.checkRange(name, n, intRange{1, MaxPort, ""})
		return
	}
	has := func(p Port) bool { return p.Label == label }
	f.require(slices.ContainsFunc(g.PortDemands(), has),
		"%s %q: the network of the group has no port with this label", name, label)
}

// checkServiceTask checks the name of a task that offers a service or runs a check.
func (g *TaskGroup) checkServiceTask(f fieldErrors, task string) {
	has := func(t *Task) bool { return t != nil && t.Name == task }
	f.require(task == "" || slices.ContainsFunc(g.Tasks, has), "task %q: the group has no such task", task)
}

func (c *ServiceCheck) validate(f fieldErrors, s *OwnedService, g *TaskGroup) {
	for _, t := range []boundedText{
		{"name", c.Name, MaxName},
		{"path", c.Path, MaxText},
		{"protocol", c.Protocol, MaxName},
		{"method", c.Method, MaxName},
		{"body", c.Body, MaxText},
		{"port", c.PortLabel, MaxName},
		{"address_mode", c.AddressMode, MaxName},
	} {
		f.checkString(t.name, t.text, t.most)
	}

	f.require(c.Type == CheckHTTP || len(c.Header) == 0, "header is that of a check of type http")
	f.checkOneOf("type", c.Type, []string{CheckHTTP, CheckTCP, CheckGRPC, CheckScript})
	f.checkOneOf("on_update", c.OnUpdate,
		[]string{OnUpdateRequireHealthy, OnUpdateIgnoreWarnings, OnUpdateIgnore})
	f.require(c.Interval >= MinCheckInterval, "interval must be at least %s", MinCheckInterval)
	f.checkDuration("interval", c.Interval, MaxTaskWait)
	f.require(c.Timeout >= MinCheckInterval, "timeout must be at least %s", MinCheckInterval)
	f.checkDuration("timeout", c.Timeout, MaxTaskWait)
	f.require(slices.Contains([]string{"", CheckPassing, CheckWarning, CheckPending}, c.InitialStatus),
		"initial_status %q must be one of passing, warning, critical, pending", c.InitialStatus)
	f.checkRange("success_before_passing", c.SuccessBeforePassing, intRange{0, MaxRestarts, ""})
	f.checkRange("failures_before_critical", c.FailuresBeforeCritical, intRange{0, MaxRestarts, ""})
	f.checkText("tls_server_name", c.TLSServerName)
	f.checkText("grpc_service", c.GRPCService)
	g.checkServiceTask(f, c.TaskName)
	c.CheckRestart.validate(f.at("check_restart"))
	if c.Expose {
		c.validateExpose(f, s, g)
	}

	if c.Type == CheckScript {
		c.validateScript(f)
		return
	}

	f.require(c.Command == "" && len(c.Args) == 0, "command and args are those of a check of type script")
	if c.AddressMode != "" {
		s.checkAddressMode(f, g, c.AddressMode)
	}

	port := c.PortLabel
	g.checkServicePort(f, "port", port)
	f.require(port != "" || s.PortLabel != "", "a port is required, in the check or in its service")
	if c.Type == CheckHTTP {
		c.validateHTTP(f)
		return
	}

	f.require(c.Path == "" && len(c.Header) == 0 && c.Body == "" && c.Method == "",
		"path, method, header and body are those of a check of type http")
}

func (c *ServiceCheck) validateScript(f fieldErrors) {
	f.require(c.Command != "", "command is required")
	f.checkText("command", c.Command)
	size := len(c.Command)
	for _, arg := range firstOf(f, "args", c.Args, MaxExecArgs) {
		f.checkText("args: an argument", arg)
		size += len(arg)
	}
	f.checkBytes("command and args", size, MaxExecBytes)
	f.require(c.TaskName != "", "task is required: the task in which the script runs")
}

// ValidateExpanded checks the texts of a check, once the node has replaced their placeholders.
func (c *ServiceCheck) ValidateExpanded() error {
	f := newFieldErrors("")
	if c.Type == CheckHTTP {
		c.validateHTTP(f)
	}
	return f.err()
}

// validateHTTP leaves texts with placeholders to the node.
func (c *ServiceCheck) validateHTTP(f fieldErrors) {
	if !HasPlaceholder(c.Protocol) {
		f.checkOneOf("protocol", c.Protocol, []string{"http", "https"})
	}

	f.require(strings.HasPrefix(c.Path, "/") || strings.HasPrefix(c.Path, Placeholder),
		"path %q must begin with /", c.Path)
	f.checkText("path", c.Path)
	f.checkText("body", c.Body)
	if !HasPlaceholder(c.Method) {
		f.checkOneOf("method", c.Method,
			[]string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
	}

	size := 0
	for name, values := range c.Header {
		f.require(HasPlaceholder(name) || headerForm().MatchString(name),
			"header: %q is not the name of a header", name)
		for _, v := range values {
			f.require(inHeader().MatchString(v), "header: the value of %q must be one line", name)
			size += len(name) + len(v)
		}
	}

	f.checkBytes("header", size, MaxText)
}

func (r *CheckRestart) validate(f fieldErrors) {
	if r == nil {
		return
	}
	f.checkRange("limit", r.Limit, intRange{0, MaxRestarts, ""})
	if r.Grace != nil {
		f.checkDuration("grace", *r.Grace, MaxTaskWait)
	}
}

// CheckInstances checks the instances of an allocation before the node reports them.
func CheckInstances(all []*ServiceInstance) error {
	f := newFieldErrors("")
	f.checkInstances(all)
	return f.err()
}

// checkInstances checks the services that a node reports of an allocation.
func (f fieldErrors) checkInstances(list []*ServiceInstance) {
	size := 0
	seen := map[string]bool{}
	for _, i := range firstOf(f, "services", list, MaxServices) {
		if i == nil {
			f.addf("a service is null")
			continue
		}

		f := f.at("service %q", i.ServiceName)
		f.require(!seen[i.ID], "the ID %q is there twice", i.ID)
		seen[i.ID] = true
		f.require(IsServiceName(i.ServiceName), "the name is not that of a service")
		f.checkString("ID", i.ID, 4*MaxName)
		f.checkString("Address", i.Address, MaxName)
		f.checkRange("Port", i.Port, intRange{0, MaxPort, ""})
		f.checkOneOf("Status", i.Status, []string{"", CheckPending, CheckPassing, CheckWarning, CheckFailing})
		for _, tag := range firstOf(f, "tags", i.Tags, MaxServiceTags) {
			f.checkString("a tag", tag, MaxText)
			size += len(tag)
		}

		f.checkMeta("meta", i.Meta)
		size += PairBytes(i.Meta)
	}

	f.checkBytes("services: all tags and meta", size, 2*MaxServiceBytes)
}

// validateExpose checks an exposed check.
func (c *ServiceCheck) validateExpose(f fieldErrors, s *OwnedService, g *TaskGroup) {
	sidecar := s.Owner == "" && s.Connect != nil && s.Connect.SidecarService != nil
	f.require(sidecar, "expose is for services of groups with connect { sidecar_service {} }")
	f.require(c.Type == CheckHTTP && c.Protocol == "http",
		"expose is for checks of type http with protocol http; for others write expose in the proxy")
	if !sidecar {
		return
	}
	_, known := g.LocalPort(s.Service)
	f.require(known, "expose: the port of the service inside the network namespace is not known; "+
		"write port = NUMBER in the service, or to in its port of the group")
}
