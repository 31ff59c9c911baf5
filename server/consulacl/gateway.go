package consulacl

import (
	"context"
	"maps"
	"net/http"
	"reflect"

	"github.com/hashicorp/consul/api"

	"berth/consul"
	"berth/structs"
)

// SetGateway gives Consul the configuration entry of an ingress or a terminating gateway. It keeps the
// settings of an entry that a job does not have, such as its defaults, and writes nothing without a change.
// The error is denied or unavailable.
func (c *Client) SetGateway(ctx context.Context, service string, g *structs.Gateway) error {
	const doing = "writing the configuration entry of a gateway to Consul"
	if err := c.enter(ctx, doing); err != nil {
		return err
	}
	defer c.permits.Leave()

	var change func(api.ConfigEntry) api.ConfigEntry
	kind := api.IngressGateway
	if g.Ingress != nil {
		change = func(old api.ConfigEntry) api.ConfigEntry { return ingressEntry(service, g.Ingress, old) }
	} else {
		kind = api.TerminatingGateway
		change = func(old api.ConfigEntry) api.ConfigEntry {
			return terminatingEntry(service, g.Terminating,
				old)
		}
	}

	err := c.setEntry(ctx, kind, service, change)
	if err != nil {
		return consul.Explain(doing, err)
	}

	return nil
}

// setEntry writes the changed entry. It does not compare the index of what it read: the primary datacenter of
// Consul takes all writes, and its index differs from a replica's.
func (c *Client) setEntry(
	ctx context.Context, kind, name string, change func(old api.ConfigEntry) api.ConfigEntry,
) error {
	entries := c.conn.ConfigEntries()

	// A stale read would bring back the settings that somebody has just changed.
	read := &api.QueryOptions{RequireConsistent: true}
	old, _, err := entries.Get(kind, name, read.WithContext(ctx))
	if err != nil && !consul.IsRejected(err, http.StatusNotFound) {
		return err
	}
	if err != nil {
		old = nil
	}
	entry := change(old)

	// Each write makes Consul send the gateway its configuration again.
	if old != nil && reflect.DeepEqual(entry, old) {
		return nil
	}
	_, _, err = entries.Set(entry, (&api.WriteOptions{}).WithContext(ctx))
	return err
}

// ingressEntry returns the entry of a gateway. old is nil if Consul has none.
func ingressEntry(name string, g *structs.GatewayIngress, old api.ConfigEntry) api.ConfigEntry {
	entry := &api.IngressGatewayConfigEntry{Kind: api.IngressGateway, Name: name}
	if was, ok := old.(*api.IngressGatewayConfigEntry); ok {
		*entry = *was
	}

	entry.Meta = ownMeta(entry.Meta)
	entry.TLS.Enabled = g.TLS != nil && g.TLS.Enabled
	if g.TLS != nil {
		entry.TLS.TLSMinVersion = g.TLS.TLSMinVersion
		entry.TLS.TLSMaxVersion = g.TLS.TLSMaxVersion
		entry.TLS.CipherSuites = g.TLS.CipherSuites
	}

	// The listeners are the job's as a whole: one that the job no longer has must go.
	entry.Listeners = nil
	for _, l := range g.Listeners {
		listener := api.IngressListener{Port: l.Port, Protocol: l.Protocol}
		for _, s := range l.Services {
			listener.Services = append(listener.Services, api.IngressService{Name: s.Name, Hosts: s.Hosts})
		}

		entry.Listeners = append(entry.Listeners, listener)
	}

	return entry
}

// terminatingEntry is ingressEntry for a terminating gateway.
func terminatingEntry(name string, g *structs.GatewayTerminating, old api.ConfigEntry) api.ConfigEntry {
	entry := &api.TerminatingGatewayConfigEntry{Kind: api.TerminatingGateway, Name: name}
	if was, ok := old.(*api.TerminatingGatewayConfigEntry); ok {
		*entry = *was
	}
	entry.Meta = ownMeta(entry.Meta)
	entry.Services = nil
	for _, s := range g.Services {
		entry.Services = append(entry.Services, api.LinkedService{
			Name:     s.Name,
			CAFile:   s.CAFile,
			CertFile: s.CertFile,
			KeyFile:  s.KeyFile,
			SNI:      s.SNI,
		})
	}
	return entry
}

// ownMeta marks the entry as berth's, and keeps what others have added.
func ownMeta(given map[string]string) map[string]string {
	meta := maps.Clone(given)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[consul.MetaSource] = "berth"
	return meta
}
