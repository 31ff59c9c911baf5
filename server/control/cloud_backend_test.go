package control

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"berth/structs"
	"berth/structs/nodecalls"
)

// cloud is a fake back end of two plugins: a pool of a bounded size for each zone and type of disk. It is the
// truth about its volumes, whatever the servers know.
type cloud struct {
	w       *cloudWorld
	pools   map[string]*cloudPool
	volumes map[string]*cloudVolume // by ID
	named   map[string]*cloudVolume // by name
	made    int                     // of all time; no ID is used twice
	full    int                     // answers RESOURCE_EXHAUSTED
}

type cloudPool struct {
	zone        string
	bytes, used int64
}

type cloudVolume struct {
	id, name   string
	pool       *cloudPool
	bytes      int64
	attachedTo string          // the node, "" for none
	mounts     map[string]bool // allocations that write
	writer     string          // the namespace and job whose data it has, "" for none
	writers    map[string]bool // all allocations that have written
}

// cloudZones are the zones of the cloud.
var cloudZones = []string{"a", "b", "c"}

func poolKey(kind, zone string) string { return kind + " in " + zone }

func newCloud(w *cloudWorld, bytes int64) *cloud {
	c := &cloud{
		w:       w,
		pools:   map[string]*cloudPool{},
		volumes: map[string]*cloudVolume{},
		named:   map[string]*cloudVolume{},
	}
	for i, zone := range cloudZones {
		for _, kind := range []string{"ssd", "hdd"} {
			c.pools[poolKey(kind, zone)] = &cloudPool{zone: zone, bytes: bytes * int64(i+1) / 2}
		}
	}
	return c
}

// serve performs a call of a controller.
func (c *cloud) serve(req any) (answer any, err error) {
	switch r := req.(type) {
	case *nodecalls.ClientCSICreateRequest:
		return c.create(r), nil
	case *nodecalls.ClientCSIDeleteRequest:
		return &structs.Empty{}, c.remove(r.ExternalID)
	case *nodecalls.ClientCSIExpandRequest:
		return c.expand(r), nil
	case *nodecalls.ClientCSIAttachRequest:
		return &nodecalls.ClientCSIAttachResponse{}, c.attach(r)
	case *nodecalls.ClientCSIDetachRequest:
		return &structs.Empty{}, c.detach(r)
	}
	return nil, structs.Internalf("the cloud has no call for %T", req)
}

// create makes a volume in a zone of the request with space. The same name is the same volume.
func (c *cloud) create(r *nodecalls.ClientCSICreateRequest) *nodecalls.ClientCSICreateResponse {
	bytes := r.Capacity.RequiredBytes
	v := c.named[r.Name]
	if v == nil {
		pool := c.poolFor(r)
		if pool == nil {
			c.full++
			return &nodecalls.ClientCSICreateResponse{Exhausted: "the pools are full"}
		}
		c.made++
		v = &cloudVolume{
			id:     fmt.Sprint("vol-", c.made),
			name:   r.Name,
			pool:   pool,
			bytes:  bytes,
			mounts: map[string]bool{},

			writers: map[string]bool{},
		}
		c.take(pool, bytes)
		c.volumes[v.id] = v
		c.named[v.name] = v
	}
	return &nodecalls.ClientCSICreateResponse{
		ExternalID: v.id,
		Capacity:   v.bytes,
		Topologies: []*structs.CSITopology{inZone(v.pool.zone)},
	}
}

// poolFor returns the pool for a new volume: the one with the most space of those that the request allows.
func (c *cloud) poolFor(r *nodecalls.ClientCSICreateRequest) *cloudPool {
	var best *cloudPool
	for _, zone := range cloudZones {
		p := c.pools[poolKey(r.Parameters["type"], zone)]
		fits := p.free() >= r.Capacity.RequiredBytes && allows(r.Topologies, zone)
		if fits && (best == nil || p.free() > best.free()) {
			best = p
		}
	}
	return best
}

func (p *cloudPool) free() int64 { return p.bytes - p.used }

func (c *cloud) take(p *cloudPool, bytes int64) {
	p.used += bytes
	if p.used > p.bytes || p.used < 0 {
		c.w.fail("the pool in zone %s has %d of %d bytes in use", p.zone, p.used, p.bytes)
	}
}

// allows reports whether a volume with a request may be in a zone.
func allows(t *structs.CSITopologyRequest, zone string) bool {
	inIt := func(t *structs.CSITopology) bool { return t.Segments["zone"] == zone }
	return t == nil || len(t.Required) == 0 || slices.ContainsFunc(t.Required, inIt)
}

func (c *cloud) remove(id string) error {
	v := c.volumes[id]
	switch {
	case v == nil:
		return nil
	case v.attachedTo != "" || len(v.mounts) > 0:
		c.w.fail("the deletion of %s, which node %q and %d allocations have", v.name, v.attachedTo, len(v.mounts))
	}
	c.take(v.pool, -v.bytes)
	delete(c.volumes, id)
	delete(c.named, v.name)
	return nil
}

func (c *cloud) expand(r *nodecalls.ClientCSIExpandRequest) *nodecalls.ClientCSIExpandResponse {
	v := c.volumes[r.ExternalID]
	if v == nil {
		c.w.fail("the expansion of %s, which is gone", r.ExternalID)
		return &nodecalls.ClientCSIExpandResponse{}
	}
	more := max(r.Capacity.RequiredBytes-v.bytes, 0)
	if more > v.pool.free() {
		c.full++
		return &nodecalls.ClientCSIExpandResponse{Exhausted: "the pool is full"}
	}
	c.take(v.pool, more)
	v.bytes += more
	return &nodecalls.ClientCSIExpandResponse{Capacity: v.bytes}
}

func (c *cloud) attach(r *nodecalls.ClientCSIAttachRequest) error {
	v := c.volumes[r.ExternalID]
	if v == nil {
		return &structs.Error{Kind: structs.KindNotFound, Code: "NotFound", Text: "no volume " + r.ExternalID}
	}
	zone := c.w.agents[r.ExternalNodeID].zone
	switch {
	case zone != v.pool.zone:
		c.w.fail("volume %s in zone %s is attached to a node in zone %s", v.name, v.pool.zone, zone)
	case v.attachedTo != "" && v.attachedTo != r.ExternalNodeID:
		c.w.fail("volume %s is attached to %s and %s", v.name, v.attachedTo, r.ExternalNodeID)
	}
	v.attachedTo = r.ExternalNodeID
	return nil
}

func (c *cloud) detach(r *nodecalls.ClientCSIDetachRequest) error {
	v := c.volumes[r.ExternalID]
	if v == nil || v.attachedTo != r.ExternalNodeID {
		return nil
	}
	if len(v.mounts) > 0 {
		c.w.fail("volume %s is detached from %s while it is mounted", v.name, v.attachedTo)
	}
	v.attachedTo = ""
	return nil
}

// mount lets an allocation write.
func (c *cloud) mount(id string, a *structs.Allocation, zone string) {
	v := c.volumes[id]
	job := a.Namespace + "/" + a.JobID
	switch {
	case v == nil:
		c.w.fail("allocation %s of %s mounts %q, which is gone", a.Name, job, id)
		return
	case v.pool.zone != zone:
		c.w.fail("allocation %s in zone %s mounts a volume of zone %s", a.Name, zone, v.pool.zone)
	case cmp.Or(v.writer, job) != job:
		c.w.fail("job %s mounts %s with the data of %s", job, v.name, v.writer)
	case len(v.mounts) > 0 && !v.mounts[a.ID]:
		c.w.fail("allocation %s mounts %s beside another one", a.Name, v.name)
	}
	v.writer = job
	v.mounts[a.ID] = true
	v.writers[a.ID] = true
}

func (c *cloud) unmount(id, alloc string) {
	v := c.volumes[id]
	if v != nil {
		delete(v.mounts, alloc)
	}
}

// byID returns the volumes in a fixed order.
func (c *cloud) byID() (all []*cloudVolume) {
	for _, id := range slices.Sorted(maps.Keys(c.volumes)) {
		all = append(all, c.volumes[id])
	}
	return all
}
