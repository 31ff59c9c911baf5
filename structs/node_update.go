package structs

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"berth/internal/codec"
)

// NodeUpdate reports changes of a node that is registered.
var NodeUpdate = write[NodeUpdateRequest, Empty]("Node.Update")

// NodeUpdateRequest carries what a node has to say of itself that differs from what the servers have
// acknowledged. What is left out stays as it is. Plugin instances have a request of their own.
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
	Digest         string        // of the node as it is then (see Node.Digest); "": not said

	// Of entries of earlier versions. A row got the class that an entry carries, if the row had not changed
	// since the class was worked out.
	ComputedClass string
	Was           uint64 // the row's ModifyIndex; 0: whatever it is
	WriteOptions
}

// NodeSettings are what changes of a node only with its configuration. They go together.
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

// Settings are those of the node, which shares what they hold.
func (n *Node) Settings() *NodeSettings {
	return &NodeSettings{
		Datacenter:        n.Datacenter,
		Name:              n.Name,
		HTTPAddr:          n.HTTPAddr,
		TLSEnabled:        n.TLSEnabled,
		NodeClass:         n.NodeClass,
		NodePool:          n.NodePool,
		NodeResources:     n.NodeResources,
		ReservedResources: n.ReservedResources,
	}
}

// Digest stands for all that a node says of itself, but for the times at which its drivers were seen. A node
// and servers that do not agree on it know different things of the node.
func (n *Node) Digest() string {
	said := *n
	said.dropServersPart()
	said.ComputedClass = ""
	said.Unaccounted = false
	said.Attributes = orNil(n.Attributes)
	said.Meta = orNil(n.Meta)
	said.Drivers = nil
	for name, d := range n.Drivers {
		if d != nil {
			timeless := *d
			timeless.Attributes, timeless.UpdateTime = orNil(d.Attributes), time.Time{}
			d = &timeless
		}
		copyInto(&said.Drivers, name, d)
	}
	b, err := codec.Encode(&said)
	if err != nil {
		panic(err) // a node always encodes
	}
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

func orNil[V any](m map[string]V) map[string]V {
	if len(m) == 0 {
		return nil
	}
	return m
}

// NodeChanges is what makes of the node that the servers know the one there is; nil when nothing differs but
// the times at which drivers were seen. It says in Digest what must come of it.
func NodeChanges(known, is *Node) *NodeUpdateRequest {
	p := &NodeUpdateRequest{NodeID: is.ID, SecretID: is.SecretID, Digest: is.Digest()}
	if known.Digest() == p.Digest {
		return nil
	}
	sameText := func(a, b string) bool { return a == b }
	p.Attributes, p.AttributesGone = mapChanges(known.Attributes, is.Attributes, sameText)
	p.Meta, p.MetaGone = mapChanges(known.Meta, is.Meta, sameText)
	p.Drivers, p.DriversGone = mapChanges(known.Drivers, is.Drivers, SameDriver)
	if s := is.Settings(); !reflect.DeepEqual(s, known.Settings()) {
		p.Settings = s
	}
	return p
}

// Changed is the node as the request makes it. It shares with the one before what the request does not
// change.
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

// SameDriver compares what a driver says of itself, but for the time of it.
func SameDriver(a, b *DriverInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.UpdateTime, y.UpdateTime = time.Time{}, time.Time{}
	return reflect.DeepEqual(&x, &y)
}

// mapChanges is what makes one map of the other.
func mapChanges[V any](old, is map[string]V, same func(a, b V) bool) (news map[string]V, gone []string) {
	for k, v := range is {
		if was, known := old[k]; !known || !same(was, v) {
			copyInto(&news, k, v)
		}
	}
	for k := range old {
		if _, there := is[k]; !there {
			gone = append(gone, k)
		}
	}
	slices.Sort(gone)
	return news, gone
}

// applyMapChanges is what changes says, done to a map that others have, too.
func applyMapChanges[V any](m *map[string]V, news map[string]V, gone []string) {
	if len(news)+len(gone) == 0 {
		return
	}
	*m = maps.Clone(*m)
	for _, k := range gone {
		delete(*m, k)
	}
	for k, v := range news {
		copyInto(m, k, v)
	}
}

// copyInto makes the map if need be.
func copyInto[V any](m *map[string]V, k string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[k] = v
}
