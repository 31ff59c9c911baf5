package cluster

import (
	"berth/structs"
	"maps"
	"slices"
)

// Namespace describes a namespace of jobs and volumes.
type Namespace struct {
	Name        string
	Description string
	Meta        map[string]string
	// Quota names the quota that bounds what is in the namespace, "" for none.
	Quota string
	// Capabilities bound the jobs that may be registered in the namespace. nil bounds nothing.
	Capabilities *NamespaceCapabilities
	structs.Indexes
}

// NamespaceCapabilities are bounds on the jobs of a namespace. Empty lists bound nothing.
type NamespaceCapabilities struct {
	EnabledTaskDrivers  []string // tasks use one of these
	DisabledTaskDrivers []string // tasks use none of these
}

// Allows reports whether tasks may use a driver.
func (c *NamespaceCapabilities) Allows(driver string) bool {
	if c == nil {
		return true
	}
	enabled := len(c.EnabledTaskDrivers) == 0 ||
		slices.Contains(c.EnabledTaskDrivers, driver)
	return enabled && !slices.Contains(c.DisabledTaskDrivers, driver)
}

// Copy copies the namespace with its maps and lists.
func (n *Namespace) Copy() *Namespace {
	c := *n
	c.Meta = maps.Clone(n.Meta)
	if n.Capabilities != nil {
		c.Capabilities = &NamespaceCapabilities{
			EnabledTaskDrivers:  slices.Clone(n.Capabilities.EnabledTaskDrivers),
			DisabledTaskDrivers: slices.Clone(n.Capabilities.DisabledTaskDrivers),
		}
	}
	return &c
}

// NamespaceList lists the namespaces.
var NamespaceList = structs.Read[structs.QueryRequest, NamespaceListResponse]("Namespace.ListNamespaces")

// NamespaceListResponse has the namespaces by name.
type NamespaceListResponse struct {
	Namespaces []*Namespace
	structs.QueryMeta
}

// NamespaceGet reads a namespace. The error is not-found if it does not exist.
var NamespaceGet = structs.Read[NamespaceGetRequest, NamespaceGetResponse]("Namespace.GetNamespace")

// NamespaceGetRequest names the namespace.
type NamespaceGetRequest struct {
	Name string
	structs.QueryOptions
}

// NamespaceGetResponse has the namespace.
type NamespaceGetResponse struct {
	Namespace *Namespace
	structs.QueryMeta
}

// NamespaceApply creates a namespace, or replaces its description, meta, quota and capabilities.
var NamespaceApply = structs.Write[NamespaceApplyRequest, structs.Empty]("Namespace.ApplyNamespace")

// NamespaceApplyRequest has the namespace as it is to be.
type NamespaceApplyRequest struct {
	Definition *Namespace
	structs.WriteOptions
}

// NamespaceDelete deletes a namespace in which no volume is, and no job that is not dead.
var NamespaceDelete = structs.Write[NamespaceDeleteRequest, structs.Empty]("Namespace.DeleteNamespace")

// NamespaceDeleteRequest names the namespace.
type NamespaceDeleteRequest struct {
	Name string
	structs.WriteOptions
}
