package state

import (
	"maps"
	"slices"
	"strings"

	"berth/structs"
)

// pool holds texts and small maps that many rows have in common, so that they have them once: names of
// plugins and classes, states, topologies, parameters. It belongs to the store's writer. Rows never change,
// so sharing is safe; what two servers share differs and does not matter.
type pool struct {
	texts map[string]string
	maps  map[string]map[string]string
}

// largestPool is how many entries of each sort are kept: beyond it the pool begins anew.
const largestPool = 1 << 16

func newPool() *pool { return &pool{map[string]string{}, map[string]map[string]string{}} }

// share makes each text the one that equal texts share.
func (p *pool) share(texts ...*string) {
	for _, t := range texts {
		*t = p.text(*t)
	}
}

func (p *pool) text(t string) string {
	if known, ok := p.texts[t]; ok {
		return known
	}
	if len(p.texts) >= largestPool {
		clear(p.texts)
	}
	t = strings.Clone(t) // not a part of something larger
	p.texts[t] = t
	return t
}

// small returns the map that equal maps share, unless it is empty.
func (p *pool) small(m map[string]string) map[string]string {
	if len(m) == 0 {
		return m
	}
	parts := make([]string, 0, 2*len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, k, m[k])
	}
	content := string(keyOf(parts...))
	if known, ok := p.maps[content]; ok {
		return known
	}
	if len(p.maps) >= largestPool {
		clear(p.maps)
	}
	p.maps[content] = p.names(m)
	return p.maps[content]
}

// names is the map made of texts that others share, for one that is nobody else's as a whole.
func (p *pool) names(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	own := make(map[string]string, len(m))
	for k, v := range m {
		own[p.text(k)] = p.text(v)
	}
	return own
}

func (p *pool) topology(t *structs.CSITopology) {
	if t != nil {
		t.Segments = p.small(t.Segments)
	}
}

func shareClaim(p *pool, c *structs.CSIClaim) {
	p.share(&c.Namespace, &c.VolumeID, &c.NodeID, &c.AllocID, &c.PluginID, &c.JobID, &c.TaskGroup, &c.Mode, &c.State,
		(*string)(&c.AccessMode), (*string)(&c.AttachmentMode))
}

func shareInstance(p *pool, i *structs.CSIPluginInstance) {
	p.share(&i.PluginID, &i.NodeID, &i.Provider, &i.ProviderVersion, &i.HealthDescription, (*string)(&i.Kind))
	if i.NodeInfo != nil {
		p.topology(i.NodeInfo.AccessibleTopology)
	}
}

func shareVolume(p *pool, v *structs.CSIVolume) {
	p.share(&v.Namespace, &v.PluginID, &v.State)
	if v.Name == v.ID {
		v.Name = v.ID
	}
	v.Parameters, v.Context = p.small(v.Parameters), p.small(v.Context)
	for _, t := range v.Topologies {
		p.topology(t)
	}
	for _, c := range v.RequestedCapabilities {
		if c != nil {
			p.share((*string)(&c.AccessMode), (*string)(&c.AttachmentMode))
		}
	}
}

func shareNode(p *pool, n *structs.Node) {
	p.share(&n.ID, &n.Datacenter, &n.NodeClass, &n.NodePool, &n.ComputedClass, &n.Status, &n.SchedulingEligibility)
	n.Attributes, n.Meta = p.names(n.Attributes), p.names(n.Meta)
}

func shareAlloc(p *pool, a *structs.Allocation) {
	p.share(&a.Namespace, &a.EvalID, &a.NodeID, &a.NodeName, &a.JobID, &a.TaskGroup, &a.DesiredStatus, &a.ClientStatus,
		&a.DesiredDescription, &a.ClientDescription)
}
