package structs

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The kinds of tasks that take part in Consul's service mesh. The name of their service follows the colon.
const (
	KindConnectProxy       = "connect-proxy"       // the sidecar proxy of a service
	KindConnectNative      = "connect-native"      // the task takes part by itself
	KindConnectIngress     = "connect-ingress"     // the proxy of an ingress gateway
	KindConnectTerminating = "connect-terminating" // the proxy of a terminating gateway
	KindConnectMesh        = "connect-mesh"        // the proxy of a mesh gateway
)

// The default resources of the task of a proxy, as in the dialect.
const (
	DefaultProxyCPU      = 250 // MHz
	DefaultProxyMemoryMB = 128
)

// The default protocols of an ingress listener and of an exposed path, as in the dialect.
const (
	DefaultListenerProtocol = "tcp"
	DefaultExposeProtocol   = "http"
)

// TaskKind is the part of a task in Consul's service mesh, KIND:SERVICE, or "".
type TaskKind string

// NewTaskKind returns the kind of a task of a service.
func NewTaskKind(kind, service string) TaskKind { return TaskKind(kind + ":" + service) }

// Kind returns one of the constants, or "".
func (k TaskKind) Kind() string {
	kind, _, _ := strings.Cut(string(k), ":")
	return kind
}

// Service returns the name of the service, or "".
func (k TaskKind) Service() string {
	_, service, _ := strings.Cut(string(k), ":")
	return service
}

// PortLabel returns the label of the port that berth gives the proxy of the kind.
func (k TaskKind) PortLabel() string { return k.Kind() + "-" + k.Service() }

// MeshLANPort returns the label of the port at which proxies of the own datacenter reach a mesh gateway.
func MeshLANPort(service string) string {
	return NewTaskKind(KindConnectMesh, service).PortLabel() + "-lan"
}

// IsGateway reports whether the task is the proxy of a gateway.
func (k TaskKind) IsGateway() bool {
	switch k.Kind() {
	case KindConnectIngress, KindConnectTerminating, KindConnectMesh:
		return true
	}
	return false
}

// IsProxy reports whether the task is a proxy, of a service or of a gateway.
func (k TaskKind) IsProxy() bool { return k.Kind() == KindConnectProxy || k.IsGateway() }

// UsesConnect reports whether the task takes part in the service mesh: with Consul's ACLs it needs a token.
func (k TaskKind) UsesConnect() bool { return k.Kind() == KindConnectNative || k.IsProxy() }

// Connect is the `connect {}` of a service: its part in Consul's service mesh. One of Native, SidecarService
// and Gateway is set.
type Connect struct {
	Native         bool            `json:",omitempty" codec:",omitempty"` // its task takes part by itself
	SidecarService *SidecarService `json:",omitempty" codec:",omitempty"`
	SidecarTask    *SidecarTask    `json:",omitempty" codec:",omitempty"` // changes the task of the proxy
	Gateway        *Gateway        `json:",omitempty" codec:",omitempty"`
}

// SidecarService is the service of a proxy beside its service.
type SidecarService struct {
	Tags                   []string          `json:",omitempty" codec:",omitempty"` // default: of its service
	Port                   string            `json:",omitempty" codec:",omitempty"` // a label of the group
	Proxy                  *ConnectProxy     `json:",omitempty" codec:",omitempty"`
	DisableDefaultTCPCheck bool              `json:",omitempty" codec:",omitempty"`
	Meta                   map[string]string `json:",omitempty" codec:",omitempty"`
}

// SidecarTask has the fields of a proxy's task that differ from berth's own.
type SidecarTask struct {
	Name          string            `json:",omitempty" codec:",omitempty"`
	Driver        string            `json:",omitempty" codec:",omitempty"`
	User          string            `json:",omitempty" codec:",omitempty"`
	Config        map[string]any    `json:",omitempty" codec:",omitempty"` // the driver's own
	Env           map[string]string `json:",omitempty" codec:",omitempty"`
	Resources     *Resources        `json:",omitempty" codec:",omitempty"`
	Meta          map[string]string `json:",omitempty" codec:",omitempty"`
	KillTimeout   *time.Duration    `json:",omitempty" codec:",omitempty"`
	LogConfig     *LogConfig        `json:",omitempty" codec:",omitempty"`
	ShutdownDelay *time.Duration    `json:",omitempty" codec:",omitempty"`
	KillSignal    string            `json:",omitempty" codec:",omitempty"`
	VolumeMounts  []*VolumeMount    `json:",omitempty" codec:",omitempty"`
}

// ConnectProxy has the settings of a sidecar's proxy.
type ConnectProxy struct {
	LocalServiceAddress string             `json:",omitempty" codec:",omitempty"` // "" is 127.0.0.1
	LocalServicePort    int                `json:",omitempty" codec:",omitempty"` // 0: the service's
	Expose              *ConnectExpose     `json:",omitempty" codec:",omitempty"`
	Upstreams           []*ConnectUpstream `json:",omitempty" codec:",omitempty"`
	Config              map[string]any     `json:",omitempty" codec:",omitempty"` // the proxy's own
	// ExposeConfig is the former name of Expose; no row has it.
	ExposeConfig *ConnectExpose `json:",omitempty" codec:",omitempty"`
}

// ConnectUpstream is another service that the tasks of a group reach by a local port of the proxy.
type ConnectUpstream struct {
	DestinationName      string
	DestinationNamespace string              `json:",omitempty" codec:",omitempty"`
	DestinationPeer      string              `json:",omitempty" codec:",omitempty"`
	DestinationType      string              `json:",omitempty" codec:",omitempty"`
	LocalBindPort        int                 `json:",omitempty" codec:",omitempty"`
	Datacenter           string              `json:",omitempty" codec:",omitempty"`
	LocalBindAddress     string              `json:",omitempty" codec:",omitempty"`
	LocalBindSocketPath  string              `json:",omitempty" codec:",omitempty"`
	LocalBindSocketMode  string              `json:",omitempty" codec:",omitempty"`
	MeshGateway          *ConnectMeshGateway `json:",omitempty" codec:",omitempty"`
	Config               map[string]any      `json:",omitempty" codec:",omitempty"` // the proxy's own
}

// ConnectMeshGateway says how a proxy reaches an upstream in another datacenter: local, remote, none, or ""
// for the default of Consul.
type ConnectMeshGateway struct {
	Mode string `json:",omitempty" codec:",omitempty"`
}

// ConnectExpose has the paths of a service that are reached by HTTP without the service mesh.
type ConnectExpose struct {
	Paths []*ConnectExposePath `json:",omitempty" codec:",omitempty"`
	Path  []*ConnectExposePath `json:",omitempty" codec:",omitempty"` // the former name; no row has it
}

// ConnectExposePath is a path that a proxy serves without the service mesh.
type ConnectExposePath struct {
	Path          string
	Protocol      string `json:",omitempty" codec:",omitempty"` // http, http2
	LocalPathPort int
	ListenerPort  string // a label of the group
}

// Gateway is a service that is a gateway of the service mesh. At most one of Ingress, Terminating and Mesh is
// set.
type Gateway struct {
	Proxy       *GatewayProxy `json:",omitempty" codec:",omitempty"`
	Ingress     *GatewayIngress
	Terminating *GatewayTerminating
	Mesh        *GatewayMesh
}

// HasEntry reports whether the gateway has a configuration entry in Consul: not a mesh gateway.
func (g *Gateway) HasEntry() bool { return g != nil && (g.Ingress != nil || g.Terminating != nil) }

// GatewayProxy has the settings of the proxy of a gateway.
type GatewayProxy struct {
	ConnectTimeout                  *time.Duration                 `json:",omitempty" codec:",omitempty"`
	EnvoyGatewayBindTaggedAddresses bool                           `json:",omitempty" codec:",omitempty"`
	EnvoyGatewayBindAddresses       map[string]*GatewayBindAddress `json:",omitempty" codec:",omitempty"`
	EnvoyGatewayNoDefaultBind       bool                           `json:",omitempty" codec:",omitempty"`
	EnvoyDNSDiscoveryType           string                         `json:",omitempty" codec:",omitempty"`
	Config                          map[string]any                 `json:",omitempty" codec:",omitempty"`
}

// GatewayBindAddress is an address on which a gateway listens.
type GatewayBindAddress struct {
	Name    string `json:",omitempty" codec:",omitempty"`
	Address string
	Port    int
}

// DynamicBind is the port of an address of a gateway that the node gets from the ports of the group.
const DynamicBind = -1

// GatewayIngress is the configuration entry of an ingress gateway.
type GatewayIngress struct {
	TLS       *GatewayTLS        `json:",omitempty" codec:",omitempty"`
	Listeners []*GatewayListener `json:",omitempty" codec:",omitempty"`
}

// GatewayTLS has the TLS settings of an ingress gateway.
type GatewayTLS struct {
	Enabled       bool
	TLSMinVersion string   `json:",omitempty" codec:",omitempty"`
	TLSMaxVersion string   `json:",omitempty" codec:",omitempty"`
	CipherSuites  []string `json:",omitempty" codec:",omitempty"`
}

// GatewayListener is a port of an ingress gateway.
type GatewayListener struct {
	Port     int
	Protocol string // tcp, http, http2, grpc
	Services []*GatewayIngressService
}

// GatewayIngressService is a service behind a port of an ingress gateway. * is each service of an HTTP port.
type GatewayIngressService struct {
	Name  string
	Hosts []string `json:",omitempty" codec:",omitempty"`
}

// GatewayTerminating is the configuration entry of a terminating gateway.
type GatewayTerminating struct {
	Services []*GatewayLinkedService
}

// GatewayLinkedService is a service outside of the service mesh that a terminating gateway leads to.
type GatewayLinkedService struct {
	Name     string
	CAFile   string `json:",omitempty" codec:",omitempty"`
	CertFile string `json:",omitempty" codec:",omitempty"`
	KeyFile  string `json:",omitempty" codec:",omitempty"`
	SNI      string `json:",omitempty" codec:",omitempty"`
}

// GatewayMesh is a mesh gateway. It has no settings.
type GatewayMesh struct{}

// LocalPort returns the port of the service inside the network namespace of the group, if the job has it.
func (g *TaskGroup) LocalPort(s *Service) (port int, known bool) {
	p := s.Connect.SidecarService.Proxy
	if p != nil && p.LocalServicePort > 0 {
		return p.LocalServicePort, true
	}

	port, err := strconv.Atoi(s.PortLabel)
	if err == nil {
		return port, port > 0
	}

	for _, p := range g.PortDemands() {
		if p.Label != s.PortLabel {
			continue
		}

		if p.To > 0 {
			return p.To, true
		}
		return p.Value, p.Static()
	}

	return 0, false
}

// TaskKind returns the kind of the task by which the service takes part in the service mesh, "" for a service
// that does not.
func (s *Service) TaskKind() TaskKind {
	c := s.Connect
	kind := ""
	switch {
	case c == nil:
	case c.Native:
		kind = KindConnectNative
	case c.SidecarService != nil:
		kind = KindConnectProxy
	case c.Gateway != nil:
		kind = c.Gateway.kind()
	}
	if kind == "" {
		return ""
	}
	return NewTaskKind(kind, s.Name)
}

func (g *Gateway) kind() string {
	switch {
	case g.Ingress != nil:
		return KindConnectIngress
	case g.Terminating != nil:
		return KindConnectTerminating
	case g.Mesh != nil:
		return KindConnectMesh
	}
	return ""
}

// UsesConnect reports whether a service or a task of the group is in the service mesh.
func (g *TaskGroup) UsesConnect() bool {
	for s := range g.AllServices() {
		if s.Connect != nil {
			return true
		}
	}
	return slices.ContainsFunc(g.Tasks, func(t *Task) bool { return t != nil && t.Kind != "" })
}

// HasGateway reports whether a service of the group is a gateway, whose task the servers add.
func (g *TaskGroup) HasGateway() bool {
	return slices.ContainsFunc(g.Services, func(s *Service) bool {
		return s != nil && s.Connect != nil && s.Connect.Gateway != nil
	})
}
