package quota

import (
	"encoding/base64"
	"slices"

	"berth/structs"
)

// Spec is the row of a quota: bounds on what all namespaces that name it have together. Key: Name.
type Spec struct {
	Name        string
	Description string
	Limits      []*Limit // one, of the region of the cluster
	structs.Indexes
}

// Limit bounds the use in a region. In a Usage it has the use instead.
type Limit struct {
	Region      string
	RegionLimit *Bounds // never nil in a row
	Hash        []byte  // tells limits apart: see Digest
}

// BoundsStorage reports whether a quota, or nil, bounds the volumes of its namespaces.
func (s *Spec) BoundsStorage() bool {
	return s != nil && slices.ContainsFunc(s.Limits, func(l *Limit) bool {
		return l != nil && l.RegionLimit != nil && l.RegionLimit.Storage != nil
	})
}

// Bounds are the bounds of a region. 0 is no bound, and a negative number allows nothing.
type Bounds struct {
	CPU         int // MHz
	MemoryMB    int // MiB that tasks reserve
	MemoryMaxMB int // MiB that tasks may use at most
	Allocations int // that have not ended and are not to end
	Devices     []*DeviceBound
	Storage     *StorageBound // nil bounds nothing
}

// DeviceBound bounds the devices that a name selects, as it does in a job: "type", "vendor/type" or
// "vendor/type/name".
type DeviceBound struct {
	Name  string
	Count int
}

// StorageBound bounds the volumes.
type StorageBound struct {
	Volumes     int
	VolumeBytes int64          // of their capacities
	Of          []*VolumeBound // of the volumes of one kind and name
}

// VolumeBound bounds the volumes of one plugin or of one class.
type VolumeBound struct {
	Kind    string // OfPlugin or OfClass
	Name    string
	Volumes int
	Bytes   int64
}

// The kinds of bounds on some volumes.
const (
	OfPlugin = "plugin"
	OfClass  = "class"
)

// Kinds are the kinds of bounds on some volumes.
var Kinds = []string{OfPlugin, OfClass}

// Copy copies the specification with its limits.
func (s *Spec) Copy() *Spec {
	c := *s
	c.Limits = nil
	for _, l := range s.Limits {
		c.Limits = append(c.Limits, l.copy())
	}
	return &c
}

func (l *Limit) copy() *Limit {
	if l == nil {
		return nil
	}
	c := *l
	if l.RegionLimit != nil {
		c.RegionLimit = l.RegionLimit.copy()
	}
	return &c
}

func (b *Bounds) copy() *Bounds {
	c := *b
	c.Devices = copyAll(b.Devices)
	if b.Storage != nil {
		storage := *b.Storage
		storage.Of = copyAll(b.Storage.Of)
		c.Storage = &storage
	}
	return &c
}

// copyAll copies a list with its elements. A null element stays one.
func copyAll[T any](all []*T) []*T {
	var copies []*T
	for _, v := range all {
		if v != nil {
			v = new(*v)
		}
		copies = append(copies, v)
	}
	return copies
}

// Key returns the hash as the usage of a quota names the limit.
func (l *Limit) Key() string { return base64.StdEncoding.EncodeToString(l.Hash) }

// UnblockKey returns the unblock key of a quota: its use has fallen, or its bounds have changed.
func UnblockKey(name string) string { return unblockPrefix + name }

const unblockPrefix = "quota:"

// Usage is the use of a quota by all namespaces that name it.
type Usage struct {
	Name string
	// Used has for each limit, by its Key, a limit with the use in place of the bounds.
	Used map[string]*Limit
	// Namespaces are the names of the namespaces that name the quota, sorted.
	Namespaces []string
	structs.Indexes
}

// SpecList lists the quotas.
var SpecList = structs.Read[structs.QueryRequest, SpecListResponse]("Quota.List")

// SpecListResponse has the quotas by name.
type SpecListResponse struct {
	Quotas []*Spec
	structs.QueryMeta
}

// SpecGet reads a quota. The error is not-found if it does not exist.
var SpecGet = structs.Read[SpecGetRequest, SpecGetResponse]("Quota.Read")

// SpecGetRequest names the quota.
type SpecGetRequest struct {
	Name string
	structs.QueryOptions
}

// SpecGetResponse has the quota.
type SpecGetResponse struct {
	Quota *Spec
	structs.QueryMeta
}

// SpecPut creates or replaces a quota. Allocations and volumes beyond new bounds stay.
var SpecPut = structs.Write[SpecPutRequest, structs.Empty]("Quota.Apply")

// SpecPutRequest has the quota as it is to be.
type SpecPutRequest struct {
	Quota *Spec
	structs.WriteOptions
}

// SpecDelete deletes a quota that no namespace names. The error is not-found, or of kind precondition.
var SpecDelete = structs.Write[SpecDeleteRequest, structs.Empty]("Quota.Delete")

// SpecDeleteRequest names the quota.
type SpecDeleteRequest struct {
	Name string
	structs.WriteOptions
}

// UsageList lists the use of all quotas.
var UsageList = structs.Read[structs.QueryRequest, UsageListResponse]("Quota.ListUsages")

// UsageListResponse has the use by the names of the quotas.
type UsageListResponse struct {
	Usages []*Usage
	structs.QueryMeta
}

// UsageGet reads the use of a quota. The error is not-found if the quota does not exist.
var UsageGet = structs.Read[SpecGetRequest, UsageGetResponse]("Quota.ReadUsage")

// UsageGetResponse has the use of the quota.
type UsageGetResponse struct {
	Usage *Usage
	structs.QueryMeta
}
