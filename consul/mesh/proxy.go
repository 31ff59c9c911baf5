package mesh

// ProxyDriver is the name in jobs of the driver that starts proxies. ProxyEnvoy is the kind of a node's
// proxy, as the fingerprint of the driver has it, if it is Envoy.
const (
	ProxyDriver = "connect"
	ProxyEnvoy  = "envoy"
)

// Proxy is the work of a task that is a proxy of Consul's service mesh. Addresses are host:port in the
// network of the allocation.
type Proxy struct {
	Service string // the name in Consul of the service that the proxy stands for
	// Gateway says that the proxy is one of a gateway, which has none of the fields below: it gets its work
	// from Consul.
	Gateway   bool
	Listen    string // where the proxies of other services connect
	Local     string // where the service itself listens
	Upstreams []ProxyUpstream
	// EnvoyOnly names a setting of the proxy that only Envoy has, "" if there is none.
	EnvoyOnly string
}

// ProxyUpstream is a service that a proxy leads to.
type ProxyUpstream struct {
	Name  string
	Query bool   // Name is a prepared query's
	Bind  string // where the tasks of the group connect
}
