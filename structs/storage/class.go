package storage

import (
	"cmp"
	"time"

	"berth/structs"
)

// The reclaim rules: the fate of a volume that the servers created for a job, once its owner is gone.
const (
	ReclaimRetain = "retain" // it stays; the default
	ReclaimDelete = "delete" // it is deleted at its plugin, DeleteAfter later
)

// The binding rules: when a volume for a job is created.
const (
	BindImmediate     = "immediate"      // with the request; the default
	BindFirstConsumer = "first-consumer" // once an allocation that uses it has its node
)

// The values of fields that are not given.
const (
	DefaultDeleteAfter = 24 * time.Hour
	DefaultClassWeight = 1
)

// MaxClassWeight is the largest QuotaWeight.
const MaxClassWeight = 1000

// VolumeClass is the row of a volume class. Key: Name. Classes are in no namespace. A volume copies the
// values when it is created, so a later change of the class changes no volume.
type VolumeClass struct {
	Name        string
	Description string
	PluginID    string
	// Default marks the class of the volumes that name neither a class nor a plugin. At most one has it.
	Default           bool
	Parameters        map[string]string // opaque, for CreateVolume
	MutableParameters map[string]string // for plugins that modify volumes; a volume may have others
	// SecretsFrom is the path of the variable with the secrets, in the namespace of the volume, "" for none.
	// {namespace} and {id} in it stand for the volume's.
	SecretsFrom string
	// MountOptions are redacted in answers: flags may hold secrets.
	MountOptions *structs.CSIMountOptions
	// AllowedTopologies are the only ones in which a volume may be requested, none for all that the plugin
	// has.
	AllowedTopologies []*structs.CSITopology
	OnNodeLoss        string         // as in structs.CSIVolume
	Reclaim           string         // ReclaimRetain or ReclaimDelete
	DeleteAfter       *time.Duration // of ReclaimDelete; 0: at once
	Binding           string         // BindImmediate or BindFirstConsumer
	QuotaWeight       int            // quotas count each byte so many times
	// Grow is when its volumes grow by themselves, nil for never.
	Grow *structs.CSIGrow `json:",omitempty" codec:",omitempty"`
	Trim *time.Duration   `json:",omitempty" codec:",omitempty"` // as in structs.CSIVolume
	structs.Indexes
}

// Canonicalize fills in the defaults. It is idempotent.
func (c *VolumeClass) Canonicalize() {
	c.Reclaim = cmp.Or(c.Reclaim, ReclaimRetain)
	c.Binding = cmp.Or(c.Binding, BindImmediate)
	c.QuotaWeight = cmp.Or(c.QuotaWeight, DefaultClassWeight)
	if c.DeleteAfter == nil {
		c.DeleteAfter = new(DefaultDeleteAfter)
	}
}

// Redacted returns a copy for output, without mount flags; nil stays nil. The copy shares all other parts.
func (c *VolumeClass) Redacted() *VolumeClass {
	if c == nil {
		return nil
	}
	r := *c
	r.MountOptions = c.MountOptions.Redacted()
	return &r
}

// ClassStub is a class in lists.
type ClassStub struct {
	Name        string
	Description string
	PluginID    string
	Default     bool
	Reclaim     string
	Binding     string
	structs.Indexes
}

// Stub returns the class as lists have it.
func (c *VolumeClass) Stub() *ClassStub {
	return &ClassStub{
		Name:        c.Name,
		Description: c.Description,
		PluginID:    c.PluginID,
		Default:     c.Default,
		Reclaim:     c.Reclaim,
		Binding:     c.Binding,
		Indexes:     c.Indexes,
	}
}

// ClassList lists the classes by name.
var ClassList = structs.Read[structs.QueryRequest, ClassListResponse]("VolumeClass.List")

// ClassListResponse has the classes by name.
type ClassListResponse struct {
	Classes []*ClassStub
	structs.QueryMeta
}

// ClassGet reads a class. The error is not-found if it does not exist.
var ClassGet = structs.Read[ClassGetRequest, ClassGetResponse]("VolumeClass.Get")

// ClassGetRequest names the class.
type ClassGetRequest struct {
	Name string
	structs.QueryOptions
}

// ClassGetResponse has the class without its mount flags.
type ClassGetResponse struct {
	Class *VolumeClass
	structs.QueryMeta
}

// ClassPut creates or replaces a class. The plugin and the parameters of a class that volumes name cannot
// change. The error is a conflict then, and also if another class is the default already.
var ClassPut = structs.Write[ClassPutRequest, structs.Empty]("VolumeClass.Put")

// ClassPutRequest has the class as it is to be. Redacted mount flags keep the stored ones.
type ClassPutRequest struct {
	Class *VolumeClass
	structs.WriteOptions
}

// ClassDelete deletes a class. The error is a precondition while volumes name it.
var ClassDelete = structs.Write[ClassDeleteRequest, structs.Empty]("VolumeClass.Delete")

// ClassDeleteRequest names the class.
type ClassDeleteRequest struct {
	Name string
	structs.WriteOptions
}
