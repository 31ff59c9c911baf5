package consul

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/hashicorp/consul/api"

	"berth/consul/mesh"
)

// sameProxy reports whether Consul has the settings of a proxy. A setting that berth leaves empty may have a
// value there: Consul adds its defaults and its central configuration (proxy-defaults, service-defaults).
// These do not replace a setting of the registration.
func sameProxy(want, now *api.AgentServiceConnectProxyConfig) bool {
	if want == nil {
		return true
	}
	if now == nil {
		now = &api.AgentServiceConnectProxyConfig{}
	}

	// Upstreams of Consul's central configuration are not in the job.
	upstreams := slices.DeleteFunc(slices.Clone(now.Upstreams), func(u api.Upstream) bool {
		return u.CentrallyConfigured
	})

	// Each registration that is not needed makes Consul send the proxy its configuration again.
	return filled(want.DestinationServiceName, now.DestinationServiceName) &&
		filled(want.DestinationServiceID, now.DestinationServiceID) &&
		filled(want.LocalServiceAddress, now.LocalServiceAddress) &&
		filled(want.LocalServicePort, now.LocalServicePort) &&
		hasConfig(want.Config, now.Config) &&
		slices.EqualFunc(want.Upstreams, upstreams, sameUpstream) &&
		(len(want.Expose.Paths) == 0 || slices.EqualFunc(want.Expose.Paths, now.Expose.Paths, samePath))
}

// filled reports whether two values are equal, or the wanted one is left to Consul.
func filled[T comparable](want, now T) bool {
	var empty T
	return want == empty || want == now
}

// sameUpstream compares an upstream. One without a type is a service, and one without an address is at the
// loopback interface. Consul's open edition has no namespace but the default.
func sameUpstream(want, now api.Upstream) bool {
	const namespace = "default"
	return cmp.Or(want.DestinationType, api.UpstreamDestTypeService) ==
		cmp.Or(now.DestinationType, api.UpstreamDestTypeService) &&
		cmp.Or(want.DestinationNamespace, namespace) == cmp.Or(now.DestinationNamespace, namespace) &&
		want.DestinationPeer == now.DestinationPeer &&
		want.DestinationName == now.DestinationName &&
		want.Datacenter == now.Datacenter &&
		cmp.Or(want.LocalBindAddress, mesh.Loopback) == cmp.Or(now.LocalBindAddress, mesh.Loopback) &&
		want.LocalBindPort == now.LocalBindPort &&
		want.LocalBindSocketPath == now.LocalBindSocketPath &&
		filled(want.LocalBindSocketMode, now.LocalBindSocketMode) &&
		filled(want.MeshGateway.Mode, now.MeshGateway.Mode) &&
		hasConfig(want.Config, now.Config)
}

func samePath(want, now api.ExposePath) bool {
	return want.Path == now.Path && want.Protocol == now.Protocol &&
		want.LocalPathPort == now.LocalPathPort && want.ListenerPort == now.ListenerPort
}

// hasConfig reports whether Consul has all entries of a configuration, also of maps in it. It may have more.
func hasConfig(want, now map[string]any) bool {
	if len(want) == 0 {
		return true
	}

	// The job's numbers are integers, the numbers in Consul's answer are floats.
	text, err := json.Marshal(want)
	if err != nil {
		return true // a registration could not bring it to Consul either
	}
	var plain any // as JSON has it: numbers of one type
	err = json.Unmarshal(text, &plain)
	return err != nil || hasValue(plain, now)
}

// hasValue compares maps entry by entry, and other values as a whole. Lists have no defaults to be added.
func hasValue(want, now any) bool {
	entries, isMap := want.(map[string]any)
	if !isMap {
		return reflect.DeepEqual(want, now)
	}
	there, isMap := now.(map[string]any)
	for key, value := range entries {
		if !hasValue(value, there[key]) {
			return false
		}
	}
	return isMap
}
