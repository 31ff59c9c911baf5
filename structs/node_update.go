package structs

import "maps"

// NodeUpdate is the method by which nodes of earlier versions report changes of themselves. The servers
// reject it, and such a node registers instead.
var NodeUpdate = write[NodeUpdateRequest, Empty]("Node.Update")

// NodeUpdateRequest is a log entry of earlier versions. It has the difference between a node and its last
// acknowledged version. Omitted fields stay the same. Plugin instances have a separate request.
type NodeUpdateRequest struct {
	NodeID         string
	SecretID       string
	Attributes     map[string]string // new or with another value
	AttributesGone []string
	Meta           map[string]string // likewise
	MetaGone       []string
	Drivers        map[string]*DriverInfo // likewise, each whole
	DriversGone    []string
	Settings       *NodeSettings // nil: as they were
	Digest         string        // of the node as it was then; not read

	// The oldest entries have a class that a server computed. The entry is a conflict if the row has changed
	// since then.
	ComputedClass string
	Was           uint64 // the row's ModifyIndex; 0: any
	WriteOptions
}

// NodeSettings are the fields of a node that depend on its configuration only. They change together.
type NodeSettings struct {
	Datacenter        string
	Name              string
	HTTPAddr          string
	TLSEnabled        bool
	NodeClass         string
	NodePool          string
	NodeResources     *NodeResources
	ReservedResources *NodeReservedResources
}

// Changed returns the node that results from the request. It shares unchanged values with n.
func (p *NodeUpdateRequest) Changed(n *Node) *Node {
	c := *n
	applyMapChanges(&c.Attributes, p.Attributes, p.AttributesGone)
	applyMapChanges(&c.Meta, p.Meta, p.MetaGone)
	applyMapChanges(&c.Drivers, p.Drivers, p.DriversGone)
	if s := p.Settings; s != nil {
		c.Datacenter = s.Datacenter
		c.Name = s.Name
		c.HTTPAddr = s.HTTPAddr
		c.TLSEnabled = s.TLSEnabled
		c.NodeClass = s.NodeClass
		c.NodePool = s.NodePool
		c.NodeResources = s.NodeResources
		c.ReservedResources = s.ReservedResources
	}
	return &c
}

// applyMapChanges applies a difference to a copy of a shared map.
func applyMapChanges[V any](m *map[string]V, news map[string]V, gone []string) {
	if len(news)+len(gone) == 0 {
		return
	}
	changed := maps.Clone(*m)
	if changed == nil && len(news) > 0 {
		changed = map[string]V{}
	}
	for _, k := range gone {
		delete(changed, k)
	}
	maps.Copy(changed, news)
	*m = changed
}
