package structs

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// The providers of services.
const (
	ServiceProviderBerth  = "berth"  // the servers keep the instances
	ServiceProviderConsul = "consul" // the default: the node registers the instances in its Consul
)

// The address modes of services and checks.
const (
	AddressModeAuto   = "auto"   // its own, the address of an advertising driver, or AddressModeHost
	AddressModeHost   = "host"   // the address of the port, or of the node
	AddressModeDriver = "driver" // the task's in a network of its driver, with the port there
	AddressModeAlloc  = "alloc"  // the allocation's in its own network, with the port there
)

// The values of on_update: whether a check must pass before its allocation counts as healthy in a deployment.
const (
	OnUpdateRequireHealthy = "require_healthy"
	OnUpdateIgnoreWarnings = "ignore_warnings" // a warning is enough
	OnUpdateIgnore         = "ignore"
)

// The types of checks.
const (
	CheckHTTP   = "http"
	CheckTCP    = "tcp"
	CheckGRPC   = "grpc"
	CheckScript = "script"
)

// The states of checks, and of instances of services. An instance has the worst one of its checks.
const (
	CheckPending = "pending" // it has not run yet
	CheckPassing = "success"
	CheckWarning = "warning" // only a script: it ended with exit code 1
	CheckFailing = "failure"
)

// The defaults of checks.
const (
	DefaultCheckGrace = time.Second
	MinCheckInterval  = time.Second // of interval and timeout
)

// Service is a `service {}` of a group or a task: a name under which others find each allocation of the
// group. Its texts may hold placeholders.
type Service struct {
	Name         string
	TaskName     string `json:",omitempty" codec:",omitempty"` // of a group: the task that offers it, "" for all
	PortLabel    string // a port of the group, or a number; "" for a service without a port
	AddressMode  string // auto, host, alloc, driver
	Address      string `json:",omitempty" codec:",omitempty"` // instead of the port's or the node's
	Provider     string // consul, berth
	OnUpdate     string // the default of its checks
	Tags         []string
	CanaryTags   []string          `json:",omitempty" codec:",omitempty"` // Tags of a canary
	Meta         map[string]string `json:",omitempty" codec:",omitempty"`
	CanaryMeta   map[string]string `json:",omitempty" codec:",omitempty"` // Meta of a canary
	Checks       []*ServiceCheck   `json:",omitempty" codec:",omitempty"`
	CheckRestart *CheckRestart     `json:",omitempty" codec:",omitempty"` // the default of its checks
	// EnableTagOverride lets others change the tags of an instance in Consul until the next definition.
	EnableTagOverride bool     `json:",omitempty" codec:",omitempty"`
	Connect           *Connect `json:",omitempty" codec:",omitempty"` // nil: not in the service mesh
	// TaggedAddresses are other addresses of an instance in Consul, by name: see field.SplitAddress.
	TaggedAddresses map[string]string `json:",omitempty" codec:",omitempty"`
	Weights         *ServiceWeights   `json:",omitempty" codec:",omitempty"` // nil: Consul's
	// Identity is the one with which the node registers the service; nil: it uses its own token of Consul.
	Identity *WorkloadIdentity `json:",omitempty" codec:",omitempty"`
}

// ServiceCheck is a `check {}` of a service. The node runs it while the service is offered.
type ServiceCheck struct {
	Name          string
	Type          string              // http, tcp, grpc, script
	Command       string              `json:",omitempty" codec:",omitempty"` // of a script in TaskName
	Args          []string            `json:",omitempty" codec:",omitempty"`
	Path          string              `json:",omitempty" codec:",omitempty"` // of a request by HTTP
	Protocol      string              `json:",omitempty" codec:",omitempty"` // http, https
	Method        string              `json:",omitempty" codec:",omitempty"`
	Header        map[string][]string `json:",omitempty" codec:",omitempty"`
	Body          string              `json:",omitempty" codec:",omitempty"`
	PortLabel     string              `json:",omitempty" codec:",omitempty"` // "": the service's
	AddressMode   string              `json:",omitempty" codec:",omitempty"`
	Interval      time.Duration
	Timeout       time.Duration
	InitialStatus string `json:",omitempty" codec:",omitempty"` // success or warning; "" is pending
	TLSServerName string `json:",omitempty" codec:",omitempty"`
	TLSSkipVerify bool   `json:",omitempty" codec:",omitempty"`
	GRPCService   string `json:",omitempty" codec:",omitempty"`
	GRPCUseTLS    bool   `json:",omitempty" codec:",omitempty"`
	TaskName      string `json:",omitempty" codec:",omitempty"`
	Expose        bool   `json:",omitempty" codec:",omitempty"` // its path is exposed, see ConnectExpose
	// The results in a row that change its state, at least 1.
	SuccessBeforePassing   int `json:",omitempty" codec:",omitempty"`
	FailuresBeforeCritical int `json:",omitempty" codec:",omitempty"`

	OnUpdate     string
	CheckRestart *CheckRestart `json:",omitempty" codec:",omitempty"` // nil: it restarts no task
}

// CheckRestart restarts the tasks of a service whose check has failed Limit times in a row. Results within
// Grace after the start of the task do not count.
type CheckRestart struct {
	Limit          int
	Grace          *time.Duration
	IgnoreWarnings bool
}

// ServiceInstance is a service that an allocation offers, as its node reports it.
type ServiceInstance struct {
	ID          string // see Service.InstanceID
	ServiceName string
	Tags        []string          `codec:",omitempty"`
	Meta        map[string]string `codec:",omitempty"`
	Address     string
	Port        int    // 0 for a service without a port
	Status      string `codec:",omitempty"` // the worst one of its checks, "" without checks
	Indexes            // the servers set them
}

// CheckResult is the last result of a check of a service.
type CheckResult struct {
	ID        string
	Check     string
	Group     string // the name of the allocation, as in the dialect
	Task      string `json:",omitempty"` // that has the service, "" for the group
	Service   string
	Mode      string // healthiness
	Status    string // CheckPending and so on
	Output    string
	Timestamp int64 // in seconds, 0 while it is pending
}

// CheckHealthiness is the mode of checks that count for the health of their allocations.
const CheckHealthiness = "healthiness"

// ServiceRegistration is an instance of a service as answers have it.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      string
	Datacenter  string
	JobID       string
	AllocID     string
	Tags        []string
	Meta        map[string]string `json:",omitempty"`
	Address     string
	Port        int
	Status      string `json:",omitempty"`
	Indexes
}

// ServiceStub is a service in a list: Tags has the tags of all its instances.
type ServiceStub struct {
	ServiceName string
	Tags        []string
	Instances   int
	Passing     int // instances without a check that fails, warns or has not run yet
}

// ServiceListStub has the services of a namespace in the order of their names.
type ServiceListStub struct {
	Namespace string
	Services  []*ServiceStub
}

// The methods that read services.
var (
	ServiceList = Read[QueryRequest, ServiceListResponse]("ServiceRegistration.List")
	ServiceGet  = Read[ServiceGetRequest, ServiceGetResponse]("ServiceRegistration.GetService")
	AllocOffers = Read[AllocGetRequest, ServiceGetResponse]("Alloc.Services")
	JobOffers   = Read[JobGetRequest, ServiceGetResponse]("Job.GetServiceRegistrations")
)

// ServiceListResponse has the services by their namespaces.
type ServiceListResponse struct {
	Services []*ServiceListStub
	QueryMeta
}

// ServiceGetRequest names a service. With Choose, "N|KEY", the answer has at most N instances: the same ones
// for the same key as long as they are there.
type ServiceGetRequest struct {
	ServiceName string
	Choose      string `json:",omitempty" codec:",omitempty"`
	QueryOptions
}

// ServiceGetResponse has instances in the order of their IDs.
type ServiceGetResponse struct {
	Services []*ServiceRegistration
	QueryMeta
}

// Registration returns an instance of a service of the allocation with its place. dc is the datacenter of the
// node.
func (i *ServiceInstance) Registration(a *Allocation, dc string) *ServiceRegistration {
	return &ServiceRegistration{
		ID:          i.ID,
		ServiceName: i.ServiceName,
		Namespace:   a.Namespace,
		NodeID:      a.NodeID,
		Datacenter:  dc,
		JobID:       a.JobID,
		AllocID:     a.ID,
		Tags:        i.Tags,
		Meta:        i.Meta,
		Address:     i.Address,
		Port:        i.Port,
		Status:      i.Status,
		Indexes:     i.Indexes,
	}
}

// Offered reports whether others may find the allocation's services: it is to run and has not ended.
func (a *Allocation) Offered() bool { return len(a.Services) > 0 && !a.Terminal() }

// ServiceNames yields the name of each service that the allocation offers, once.
func (a *Allocation) ServiceNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n, i := range a.Services {
			same := func(o *ServiceInstance) bool { return o.ServiceName == i.ServiceName }
			if !slices.ContainsFunc(a.Services[:n], same) && !yield(i.ServiceName) {
				return
			}
		}
	}
}

// InstanceID returns the ID of the service in an allocation. owner is the task that has the service, "" for
// the group.
func (s *Service) InstanceID(allocID, owner string) string {
	return "_berth-" + allocID + "-" + cmp.Or(owner, "group") + "-" + s.Name + "-" + s.PortLabel
}

// OwnedService is a service with the task that has it, "" for the group.
type OwnedService struct {
	Owner string
	*Service
}

// AllServices yields the services of the group and of its tasks.
func (g *TaskGroup) AllServices() iter.Seq[OwnedService] {
	return func(yield func(OwnedService) bool) {
		for _, s := range g.Services {
			if s != nil && !yield(OwnedService{"", s}) {
				return
			}
		}

		for _, t := range g.Tasks {
			if t == nil {
				continue
			}

			for _, s := range t.Services {
				if s != nil && !yield(OwnedService{t.Name, s}) {
					return
				}
			}
		}
	}
}

// HasServices reports whether the group or one of its tasks has a service.
func (g *TaskGroup) HasServices() bool {
	for range g.AllServices() {
		return true
	}
	return false
}

// HasConsulServices reports whether the group or one of its tasks has a service in Consul.
func (g *TaskGroup) HasConsulServices() bool {
	for s := range g.AllServices() {
		if s.Provider == ServiceProviderConsul {
			return true
		}
	}
	return false
}

// OfferedBy returns the task that offers the service, "" for all main tasks of the group.
func (s *OwnedService) OfferedBy() string { return cmp.Or(s.Owner, s.TaskName) }

// SameAs reports whether two instances are equal. Empty and missing tags are the same. Either may be nil.
func (i *ServiceInstance) SameAs(o *ServiceInstance) bool {
	if i == nil || o == nil {
		return i == o
	}
	return i.ID == o.ID && i.ServiceName == o.ServiceName && i.Address == o.Address &&
		i.Port == o.Port && i.Status == o.Status &&
		slices.Equal(i.Tags, o.Tags) && maps.Equal(i.Meta, o.Meta)
}

// SameInstances reports whether two lists have the same instances in the same order.
func SameInstances(a, b []*ServiceInstance) bool {
	return slices.EqualFunc(a, b, (*ServiceInstance).SameAs)
}

// ServiceWeights are the weights of an instance in Consul's answers by DNS, while its checks pass and while
// one of them warns.
type ServiceWeights struct {
	Passing int
	Warning int
}

// ServiceDelete deletes an instance that is left of a node which is down.
var ServiceDelete = Write[ServiceDeleteRequest, Empty]("ServiceRegistration.DeleteByID")

// ServiceDeleteRequest names an instance by its service and its ID.
type ServiceDeleteRequest struct {
	ServiceName string
	ID          string
	WriteOptions
}
