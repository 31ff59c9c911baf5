package acl

import "slices"

// kind is a kind of objects that have no names in policies.
type kind string

const (
	kindNode     kind = "node"
	kindAgent    kind = "agent"
	kindOperator kind = "operator"
	kindQuota    kind = "quota"
	kindPlugin   kind = "plugin"
)

// policies are the values of policy that a block of the kind may have. Each but deny includes those before
// it.
func (k kind) policies() []string {
	if k == kindPlugin {
		return []string{"list", "read", "deny"}
	}
	return []string{"read", "write", "deny"}
}

// ACL decides about a caller. It never changes, so many goroutines may ask it. The zero ACL denies
// everything.
type ACL struct {
	management  bool
	namespaces  grants
	hostVolumes grants
	nodePools   grants
	levels      map[kind]string // deny wins, then the higher one
	own         *own            // of a workload, otherwise nil
}

// Management allows everything.
var Management = &ACL{management: true}

// New merges policies.
func New(policies ...*Policy) *ACL {
	a := &ACL{levels: map[kind]string{}}
	for _, p := range policies {
		a.add(p)
	}

	a.namespaces.sort()
	a.hostVolumes.sort()
	a.nodePools.sort()
	for _, n := range a.namespaces {
		n.inner.volumes.sort()
		n.inner.paths.sort()
	}
	return a
}

func (a *ACL) add(p *Policy) {
	for _, r := range p.Namespaces {
		merged := a.namespaces.add(namespaceFamily, &r.Rule)
		if merged.inner == nil {
			merged.inner = &inner{}
		}
		merged.inner.add(r)
	}

	for _, r := range p.HostVolumes {
		a.hostVolumes.add(hostVolumeFamily, r)
	}
	for _, r := range p.NodePools {
		a.nodePools.add(nodePoolFamily, r)
	}

	for k, l := range p.levels() {
		if l == nil {
			continue
		}
		policies := k.policies()
		if slices.Index(policies, l.Policy) > slices.Index(policies, a.levels[k]) {
			a.levels[k] = l.Policy
		}
	}
}

func (i *inner) add(r *NamespaceRule) {
	for _, v := range r.Volumes {
		i.volumes.add(volumeFamily, v)
	}
	if r.Variables == nil {
		return
	}
	for _, p := range r.Variables.Paths {
		i.paths.add(variablesFamily, p)
	}
}

// IsManagement reports whether the caller may do everything.
func (a *ACL) IsManagement() bool {
	return a.management
}

// Namespace reports whether the caller has a capability in a namespace.
func (a *ACL) Namespace(namespace string, c Capability) bool {
	return a.management || a.namespaces.allows(namespace, c)
}

// AnyNamespace reports whether the caller has a capability in some namespace, which need not exist.
func (a *ACL) AnyNamespace(c Capability) bool {
	return a.management || slices.ContainsFunc(a.namespaces, func(g *grant) bool { return g.allows(c) })
}

// SeesNamespace reports whether the caller may know that a namespace exists: it has some right there.
func (a *ACL) SeesNamespace(namespace string) bool {
	if a.management {
		return true
	}

	found := a.namespaces.find(namespace)
	return found != nil && found.givesAny()
}

// SeesAnyNamespace reports whether the caller has some right in some namespace, which need not exist.
func (a *ACL) SeesAnyNamespace() bool {
	return a.management || slices.ContainsFunc(a.namespaces, (*grant).givesAny)
}

// givesAny reports whether a rule of a namespace gives something.
func (g *grant) givesAny() bool {
	return !g.denied && (len(g.given) > 0 || len(g.inner.volumes) > 0 || len(g.inner.paths) > 0)
}

// Volume reports whether the caller has a right on a volume: by the volume rule that decides about its ID, or
// without one by the csi capabilities of the namespace. A rule that denies the namespace denies its volumes.
func (a *ACL) Volume(namespace, id string, right Capability) bool {
	if a.management {
		return true
	}

	found := a.namespaces.find(namespace)
	if found == nil || found.denied {
		return false
	}

	volume := found.inner.volumes.find(id)
	if volume != nil {
		return volume.allows(right)
	}
	return found.given[csiCapability[right]]
}

// AllVolumes reports whether the caller has a right on all volumes of all namespaces, also of namespaces that
// do not exist: what it learns of a namespace then depends on no rule.
func (a *ACL) AllVolumes(right Capability) bool {
	if a.management {
		return true
	}

	everywhere := false
	for _, n := range a.namespaces {
		lacks := func(volume *grant) bool { return !volume.allows(right) }
		if !n.allows(csiCapability[right]) || slices.ContainsFunc(n.inner.volumes, lacks) {
			return false
		}
		everywhere = everywhere || n.pattern == "*"
	}
	return everywhere
}

// Variable reports whether the caller has a right on the variable of a path. The right to read a variable
// includes its name in lists.
func (a *ACL) Variable(namespace, path string, right Capability) bool {
	if a.management {
		return true
	}

	found := a.namespaces.find(namespace)
	if found == nil {
		return a.ownsVariable(namespace, path, right)
	}
	if found.denied {
		return false
	}

	rule := found.inner.paths.find(path)
	switch {
	case rule == nil:
		return a.ownsVariable(namespace, path, right)
	case rule.denied:
		return false
	case rule.allows(right) || right == VariablesList && rule.allows(VariablesRead):
		return true
	}
	return a.ownsVariable(namespace, path, right)
}

// HostVolume reports whether jobs of the caller may mount a host volume: MountReadOnly or MountReadWrite,
// which includes the former.
func (a *ACL) HostVolume(name string, c Capability) bool {
	if a.management {
		return true
	}

	found := a.hostVolumes.find(name)
	if found == nil {
		return false
	}
	return found.allows(c) || c == MountReadOnly && found.allows(MountReadWrite)
}

// NodePool reports whether the caller has a right on a node pool.
func (a *ACL) NodePool(name string, c Capability) bool {
	return a.management || a.nodePools.allows(name, c)
}

// AnyNodePool reports whether the caller has a right on some node pool, which need not exist.
func (a *ACL) AnyNodePool(c Capability) bool {
	return a.management || slices.ContainsFunc(a.nodePools, func(g *grant) bool { return g.allows(c) })
}

// level reports whether the caller has a level on a kind, or one that includes it.
func (a *ACL) level(k kind, wanted string) bool {
	if a.management {
		return true
	}

	policies := k.policies()
	has := a.levels[k]
	return has != string(Deny) && slices.Index(policies, has) >= slices.Index(policies, wanted)
}

// NodeRead reports whether the caller may read nodes.
func (a *ACL) NodeRead() bool { return a.level(kindNode, "read") }

// NodeWrite reports whether the caller may drain, fence, delete and change nodes.
func (a *ACL) NodeWrite() bool { return a.level(kindNode, "write") }

// AgentRead reports whether the caller may read the state of agents.
func (a *ACL) AgentRead() bool { return a.level(kindAgent, "read") }

// AgentWrite reports whether the caller may change agents.
func (a *ACL) AgentWrite() bool { return a.level(kindAgent, "write") }

// OperatorRead reports whether the caller may read the state of the servers.
func (a *ACL) OperatorRead() bool { return a.level(kindOperator, "read") }

// OperatorWrite reports whether the caller may change the servers and their settings.
func (a *ACL) OperatorWrite() bool { return a.level(kindOperator, "write") }

// QuotaRead reports whether the caller may read quotas.
func (a *ACL) QuotaRead() bool { return a.level(kindQuota, "read") }

// QuotaWrite reports whether the caller may change quotas.
func (a *ACL) QuotaWrite() bool { return a.level(kindQuota, "write") }

// PluginList reports whether the caller may list plugins.
func (a *ACL) PluginList() bool { return a.level(kindPlugin, "list") }

// PluginRead reports whether the caller may read plugins.
func (a *ACL) PluginRead() bool { return a.level(kindPlugin, "read") }
