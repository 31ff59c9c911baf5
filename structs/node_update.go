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

// NodeUpdateRequest carries the difference between a node and its last acknowledged version. Fields that are
// left out stay the same. Plugin instances have a request of their own.
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

// Settings returns the settings of the node. It shares their values.
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

// Digest returns a digest of everything that a node reports, except the times at which its drivers were seen.
// A node and servers with different digests have different versions of the node.
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

// NodeChanges returns the request that turns the node that the servers know into the current one; nil if only
// the times at which drivers were seen differ. Its Digest is that of the current node.
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

// SameDriver compares the reports of a driver, except their times.
func SameDriver(a, b *DriverInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.UpdateTime, y.UpdateTime = time.Time{}, time.Time{}
	return reflect.DeepEqual(&x, &y)
}

// mapChanges returns the difference between two maps.
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

// applyMapChanges applies a difference to a copy of a shared map.
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
