package consul

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/structs"
	"berth/structs/validate/field"
)

// This file has the form of a service in Consul, and the comparison of the wanted form with the present one.
// Each difference that Consul makes by itself must be known here, or the syncer registers the service at
// every round.

// The prefixes of the IDs that berth gives services and checks in Consul.
const (
	idPrefix    = "_berth-"
	taskPrefix  = idPrefix + "task-"
	checkPrefix = idPrefix + "check-"
)

// MetaSource is an entry of the meta of all that berth registers. Its value is berth.
const MetaSource = "external-source"

// The further entries that berth adds to the meta of a service. validate.ConsulMeta leaves space for
// them. Each agent has its own metaAgent. digestOf gives the value of metaDefinition.
const (
	metaAgent      = "berth-agent"
	metaDefinition = "berth-definition"
)

// sidecarSuffix is the end of the ID and of the name of a sidecar: Consul adds it to the service's.
const sidecarSuffix = "-sidecar-proxy"

// ttlMargin is added to the interval and the timeout of a script for the time until Consul counts its check
// as failed.
const ttlMargin = 30 * time.Second

// Service is a service as Consul is to have it. The syncer adds the meta that says whose it is.
type Service = api.AgentServiceRegistration

// TaskServiceID returns the ID in Consul of a service of an allocation. structs.Service.InstanceID makes its
// own ID.
func TaskServiceID(instanceID string) string {
	return taskPrefix + strings.TrimPrefix(instanceID, idPrefix)
}

// Instance is a service of an allocation with its placeholders replaced.
type Instance struct {
	structs.ServiceInstance
	EnableTagOverride bool
	TaggedAddresses   map[string]string       // see field.SplitAddress
	Weights           *structs.ServiceWeights // nil: Consul's
	Checks            []Check
	Connect           *Connect // nil: it takes no part in the service mesh
	Of                Origin
}

// Check is a check of an instance, with its placeholders replaced.
type Check struct {
	*structs.ServiceCheck
	Address string // host:port, "" for a script
}

// Registration returns the service that Consul is to have, and the IDs of its checks in the order of the
// instance. The error is invalid.
func (i *Instance) Registration() (s *Service, checkIDs []string, err error) {
	s = &Service{
		ID:                TaskServiceID(i.ID),
		Name:              i.ServiceName,
		Tags:              i.Tags,
		Meta:              i.Meta,
		Address:           i.Address,
		Port:              i.Port,
		EnableTagOverride: i.EnableTagOverride,
		Weights:           (*api.AgentWeights)(i.Weights),
	}

	for tag, text := range i.TaggedAddresses {
		if s.TaggedAddresses == nil {
			s.TaggedAddresses = map[string]api.ServiceAddress{}
		}

		host, port, err := field.SplitAddress(text, i.Port)
		if err != nil {
			return nil, nil, structs.Invalidf("tagged_addresses: %w", err)
		}

		s.TaggedAddresses[tag] = api.ServiceAddress{Address: host, Port: port}
	}

	for n, c := range i.Checks {
		check := c.registration()

		// The index tells two equal checks of a service apart.
		check.CheckID = checkID(s.ID, n, check)
		s.Checks = append(s.Checks, check)
		checkIDs = append(checkIDs, check.CheckID)
	}

	i.Connect.addConnect(s, i.Of)
	return s, checkIDs, nil
}

// checkID returns an ID that changes with the definition of the check: Consul does not say how a check is
// defined.
func checkID(serviceID string, index int, c *api.AgentServiceCheck) string {
	return checkPrefix + digestOf(serviceID, index, c)
}

// registration returns the check as Consul is to run it. A script runs in its task, and berth sends the
// results.
func (c Check) registration() *api.AgentServiceCheck {
	out := &api.AgentServiceCheck{
		Name:     c.Name,
		Interval: c.Interval.String(),
		Timeout:  c.Timeout.String(),
		// As in Consul, a check is critical before its first result. A job can set another state.
		Status:                 api.HealthCritical,
		TLSServerName:          c.TLSServerName,
		TLSSkipVerify:          c.TLSSkipVerify,
		SuccessBeforePassing:   c.SuccessBeforePassing,
		FailuresBeforeCritical: c.FailuresBeforeCritical,
	}

	switch c.InitialStatus {
	case structs.CheckPassing:
		out.Status = api.HealthPassing
	case structs.CheckWarning:
		out.Status = api.HealthWarning
	}

	switch c.Type {
	case structs.CheckHTTP:
		out.HTTP = c.Protocol + "://" + c.Address + c.Path
		out.Method = c.Method
		out.Body = c.Body
		out.Header = c.Header

	case structs.CheckTCP:
		out.TCP = c.Address
	case structs.CheckGRPC:
		out.GRPC = c.Address
		if c.GRPCService != "" {
			out.GRPC += "/" + c.GRPCService
		}

		out.GRPCUseTLS = c.GRPCUseTLS

	default: // the results are berth's, with all that they depend on
		return &api.AgentServiceCheck{
			Name:   out.Name,
			Status: out.Status,
			// The TTL is longer than the time between two results, so that only a missing one lets it pass.
			TTL:   (c.Interval + c.Timeout + ttlMargin).String(),
			Notes: "run by berth in task " + c.TaskName,
		}
	}

	return out
}

// ownService returns a copy with the meta of this node.
func ownService(s *Service, node string) *Service {
	owned := *s
	owned.Meta = ownMeta(s.Meta, node, digestOf(s))
	if sidecar := sidecarOf(s); sidecar != nil {
		side := *sidecar
		if len(side.Tags) == 0 { // so does Consul
			side.Tags = s.Tags
		}

		if len(side.Meta) == 0 {
			side.Meta = s.Meta
		}

		side.Meta = ownMeta(side.Meta, node, owned.Meta[metaDefinition])
		side.EnableTagOverride = s.EnableTagOverride
		connect := *s.Connect
		connect.SidecarService = &side
		owned.Connect = &connect
	}

	return &owned
}

// ownMeta returns the meta with berth's entries, which win over the job's.
func ownMeta(given map[string]string, node, definition string) map[string]string {
	meta := maps.Clone(given)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[MetaSource] = "berth"
	meta[metaAgent] = node
	meta[metaDefinition] = definition
	return meta
}

// digestOf returns a digest of values.
func digestOf(values ...any) string {
	text, _ := json.Marshal(values) // all are texts, numbers and structs of them
	sum := sha256.Sum256(text)

	// 80 bits tell the definitions of one Consul apart, and keep the IDs short.
	return hex.EncodeToString(sum[:10])
}

// sidecarOf returns the sidecar of a service, nil if it has none.
func sidecarOf(s *Service) *Service {
	if s.Connect == nil {
		return nil
	}
	return s.Connect.SidecarService
}

// idsOf returns the IDs of a service and of its sidecar.
func idsOf(s *Service) []string {
	if sidecarOf(s) == nil {
		return []string{s.ID}
	}
	return []string{s.ID, s.ID + sidecarSuffix}
}

// keepTags returns the service with the tags that others have given it in Consul. Only a service with
// enable_tag_override keeps them, and only while its definition stays: a new definition replaces them.
func keepTags(s *Service, services map[string]*api.AgentService) *Service {
	now := services[s.ID]
	if !s.EnableTagOverride || now == nil || now.Meta[metaDefinition] != s.Meta[metaDefinition] {
		return s
	}

	// The wanted services are shared with other goroutines, so each level that changes is a copy.
	kept := *s
	kept.Tags = slices.Clone(now.Tags)
	sidecar := sidecarOf(s)
	if beside := services[s.ID+sidecarSuffix]; sidecar != nil && beside != nil {
		side := *sidecar
		side.Tags = slices.Clone(beside.Tags)
		connect := *s.Connect
		connect.SidecarService = &side
		kept.Connect = &connect
	}
	return &kept
}

// differs reports whether Consul has the service or its sidecar otherwise. Missing and empty tags and meta
// are equal.
func differs(s *Service, services map[string]*api.AgentService) bool {
	// The answer of Consul does not say how checks are defined. Their IDs do: see lacksCheck.
	if !sameService(s, services[s.ID]) {
		return true
	}

	sidecar := sidecarOf(s)
	beside := services[s.ID+sidecarSuffix]
	if sidecar == nil { // the sync removes one that is left
		return false
	}

	named := *sidecar
	named.Kind = api.ServiceKindConnectProxy
	if named.Name == "" {
		named.Name = s.Name + sidecarSuffix
	}

	if named.Port == 0 && beside != nil {
		named.Port = beside.Port // Consul has chosen it
	}

	if named.Address == "" && beside != nil {
		named.Address = beside.Address
	}

	named.ID = s.ID + sidecarSuffix
	return !sameService(&named, beside)
}

// sameService compares all that a registration sets, apart from the checks.
func sameService(s *Service, now *api.AgentService) bool {
	return now != nil && s.Kind == now.Kind && s.ID == now.ID && s.Name == now.Service &&
		s.Address == now.Address && s.Port == now.Port &&
		s.EnableTagOverride == now.EnableTagOverride &&
		slices.Equal(s.Tags, now.Tags) && maps.Equal(s.Meta, now.Meta) &&
		weightsOf(s.Weights) == now.Weights && sameAddresses(s.TaggedAddresses, now.TaggedAddresses) &&
		isNative(s.Connect) == isNative(now.Connect) && sameProxy(s.Proxy, now.Proxy)
}

// isNative reports whether a service takes part in the service mesh without a proxy.
func isNative(c *api.AgentServiceConnect) bool { return c != nil && c.Native }

// weightsOf returns the weights that Consul gives a service.
func weightsOf(w *api.AgentWeights) api.AgentWeights {
	if w == nil {
		return api.AgentWeights{Passing: 1, Warning: 1}
	}
	return *w
}

// isOwnTag reports whether Consul adds a tagged address to services. The virtual addresses of services of the
// mesh come some time after the registration.
func isOwnTag(tag string) bool {
	switch tag {
	case "lan_ipv4", "wan_ipv4", "lan_ipv6", "wan_ipv6":
		return true
	}
	return strings.HasPrefix(tag, "consul-virtual")
}

// sameAddresses compares tagged addresses. Those that Consul has added do not count.
func sameAddresses(want, now map[string]api.ServiceAddress) bool {
	for tag, address := range now {
		_, wanted := want[tag]
		if wanted && want[tag] != address || !wanted && !isOwnTag(tag) {
			return false
		}
	}
	for tag := range want {
		if _, there := now[tag]; !there {
			return false
		}
	}
	return true
}
