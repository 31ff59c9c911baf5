package consul

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"berth/structs"
)

// The tags of an agent's own services: the ports of a server, of which a node has the first.
const (
	TagHTTP = "http"
	TagRPC  = "rpc"
	TagSerf = "serf"
)

// metaRegion is the region of an agent in the meta of its own services.
const metaRegion = "berth-region"

// maxFound bounds the servers that Servers returns.
const maxFound = 16

// The pace of the checks of an agent's own services.
const (
	ownInterval = 10 * time.Second
	ownTimeout  = 2 * time.Second
)

// Endpoint is a port of the agent.
type Endpoint struct {
	Service   string // its name in Consul
	Tag       string // TagHTTP and so on
	Addr      string // host:port for others
	CheckAddr string // host:port that Consul checks
	CheckPath string // of a check by HTTP; "" connects by TCP
}

// Advertise registers the ports of the agent once Consul has answered, and removes them when the agent
// ends. It is called before Run.
func (l *Link) Advertise(region string, ports []Endpoint) {
	for _, p := range ports {
		l.advertised = append(l.advertised, l.endpoint(region, p))
	}
}

// endpoint returns the service of a port. Its ID has the agent, because several may use one Consul.
func (l *Link) endpoint(region string, p Endpoint) *Service {
	host, port, _ := net.SplitHostPort(p.Addr)
	number, _ := strconv.Atoi(port)
	s := &Service{
		ID:      idPrefix + "agent-" + l.node + "-" + p.Service + "-" + p.Tag,
		Name:    p.Service,
		Tags:    append([]string{p.Tag}, l.config.Tags...),
		Meta:    map[string]string{metaRegion: region},
		Address: host,
		Port:    number,
	}

	check := &api.AgentServiceCheck{
		Name:     p.Service + " " + p.Tag,
		Interval: ownInterval.String(),
		Timeout:  ownTimeout.String(),
		TCP:      p.CheckAddr,
	}

	// A check by HTTP asks the part behind the port, and not only whether somebody listens.
	if p.CheckPath != "" {
		check.TCP = ""
		check.HTTP = "http://" + p.CheckAddr + p.CheckPath
	}

	check.CheckID = checkID(s.ID, 0, check)
	s.Checks = api.AgentServiceChecks{check}
	return s
}

// advertise waits for the first answer of Consul, so that an agent without one stays silent.
func (l *Link) advertise(ctx context.Context) {
	if len(l.advertised) == 0 {
		return
	}
	select {
	case <-l.fingerprint.available:
		l.PutUntilEnd("agent", l.advertised)
	case <-ctx.Done():
	}
}

// Servers returns the addresses of the servers of a region that Consul knows by a tag, the ones that pass
// their checks first. The error is unavailable or denied.
func (l *Link) Servers(ctx context.Context, region, tag string) (addrs []string, err error) {
	query := (&api.QueryOptions{}).WithContext(ctx)

	// Instances with failing checks count, too: a cluster that starts has no leader, and its checks fail.
	found, _, err := l.client.Health().Service(l.config.ServerServiceName, tag, false, query)
	if err != nil {
		return nil, plain("looking for servers in Consul", err)
	}

	// The registrations of others are not to be trusted: a wrong port would only fail later.
	found = slices.DeleteFunc(found, func(e *api.ServiceEntry) bool {
		return e.Service == nil || e.Node == nil || e.Service.Meta[metaRegion] != region ||
			e.Service.Port < 1 || e.Service.Port > structs.MaxPort
	})

	// Those that pass are tried first. The others may be all that there are.
	slices.SortStableFunc(found, func(a, b *api.ServiceEntry) int { return cmp.Compare(rank(a), rank(b)) })
	for _, e := range found[:min(len(found), maxFound)] {
		// A service without an address has the address of its node.
		host := cmp.Or(e.Service.Address, e.Node.Address)
		addrs = append(addrs, net.JoinHostPort(host, strconv.Itoa(e.Service.Port)))
	}
	return addrs, nil
}

// rank sorts instances by the state of their checks.
func rank(e *api.ServiceEntry) int {
	if e.Checks.AggregatedStatus() == api.HealthPassing {
		return 0
	}
	return 1
}
