package rights

import (
	"fmt"
	"strings"

	"berth/acl"
	"berth/internal/mvcc"
)

// Question is a request about which a Right decides.
type Question struct {
	Caller
	Tx  mvcc.Reader // finds the rows that the request names
	Req any         // a pointer to the request
}

// Right is what the caller of a method needs.
type Right struct {
	needs  string // for people: the capability and what it is about
	allows func(q Question) bool
	// sees, if not nil, makes structs.QueryOptions.Sees of a list that shows what its caller may see.
	sees filter
	// open rights are for callers without a token: what they give is no secret, or the method has a check of
	// its own.
	open bool
	by   sender
	// deferred: the handler asks the gate itself.
	deferred bool
	forced   bool
	machine  bool
}

// Deferred returns the right of a handler that asks the gate itself, with the state from which it answers.
func (r Right) Deferred() Right {
	r.deferred = true
	return r
}

// sender says who alone may call a method, whatever its token gives.
type sender int

const (
	anybody sender = iota
	aNode
	aSocket
)

// Node is the right of a node that acts for itself: by its ID and secret, and by its certificate.
var Node = Right{
	needs: "the node itself, by its ID and secret",
	open:  true,
	by:    aNode,
}

// Socket is the right of root on the server that leads: of methods that assert a fact of which the servers
// have no proof.
var Socket = Right{
	needs: "the operator socket of the server that leads",
	open:  true,
	by:    aSocket,
}

// NeedsNode reports whether only a node may call the method.
func (r Right) NeedsNode() bool { return r.by == aNode }

// NeedsSocket reports whether only the operator socket of the leader takes the method.
func (r Right) NeedsSocket() bool { return r.by == aSocket }

// String says what a caller needs, as in the reference of methods.
func (r Right) String() string { return r.needs }

// Forced returns the right of a method that acts without the proof that it is safe: see IsForced.
func (r Right) Forced() Right {
	r.forced = true
	return r
}

// IsForced reports whether the method acts without the proof that it is safe, or on the word of root alone.
// The audit log marks its requests.
func (r Right) IsForced() bool { return r.forced || r.by == aSocket }

// IsOfMachines reports whether machines alone call the method, for themselves. Their requests are no changes
// by people.
func (r Right) IsOfMachines() bool { return r.machine || r.by == aNode }

// IsOpen reports whether the method needs no token.
func (r Right) IsOpen() bool { return r.open }

// IsSet reports whether the Right was made by a function of this package. The zero Right allows nothing.
func (r Right) IsSet() bool { return r.open || r.allows != nil }

// None is the right of methods that anybody may call. reason says why, in the reference of methods.
func None(reason string) Right {
	return Right{needs: "no token: " + reason, open: true}
}

// Machine is the right of methods that machines call for themselves. reason says why they need no token.
func Machine(reason string) Right {
	r := None(reason)
	r.machine = true
	return r
}

// The rights on objects that have no names in policies.
var (
	Management    = ofCluster("a management token", (*acl.ACL).IsManagement)
	NodeRead      = ofCluster("node: read", (*acl.ACL).NodeRead)
	NodeWrite     = ofCluster("node: write", (*acl.ACL).NodeWrite)
	AgentRead     = ofCluster("agent: read", (*acl.ACL).AgentRead)
	AgentWrite    = ofCluster("agent: write", (*acl.ACL).AgentWrite)
	OperatorRead  = ofCluster("operator: read", (*acl.ACL).OperatorRead)
	OperatorWrite = ofCluster("operator: write", (*acl.ACL).OperatorWrite)
	PluginList    = ofCluster("plugin: list", (*acl.ACL).PluginList)
	PluginRead    = ofCluster("plugin: read", (*acl.ACL).PluginRead)
	QuotaWrite    = ofCluster("quota: write", (*acl.ACL).QuotaWrite)
)

func ofCluster(needs string, has func(*acl.ACL) bool) Right {
	return Right{
		needs:  needs,
		allows: func(q Question) bool { return has(q.ACL) },
	}
}

// namespaced is a request with a namespace among its options.
type namespaced interface{ RequestNamespace() string }

// Namespace is a capability in the namespace of the request.
func Namespace(c acl.Capability) Right {
	return Right{
		needs: fmt.Sprintf("namespace: %s", c),
		allows: func(q Question) bool {
			ns, one := oneNamespace(q)
			return one && q.ACL.Namespace(ns, c)
		},
	}
}

// oneNamespace returns the namespace of a request. one is false for a request that names all: only a list
// shows several namespaces, and leaves rows out. A pattern of a policy would match the name of all.
func oneNamespace(q Question) (namespace string, one bool) {
	ns := q.Req.(namespaced).RequestNamespace()
	return ns, ns != allNamespaces || q.ACL.IsManagement()
}

// NamespaceOf is a capability in the namespaces that find returns, of the rows that the request names.
// A row that does not exist has none, and then the namespace of the request counts, so that a caller without
// rights there does not learn which rows exist.
func NamespaceOf[Req any](c acl.Capability, find func(tx mvcc.Reader, req *Req) []string) Right {
	return Right{
		needs: fmt.Sprintf("namespace: %s", c),
		allows: func(q Question) bool {
			found := find(q.Tx, q.Req.(*Req))
			if len(found) == 0 {
				ns, one := oneNamespace(q)
				return one && q.ACL.Namespace(ns, c)
			}
			for _, ns := range found {
				if !q.ACL.Namespace(ns, c) {
					return false
				}
			}
			return true
		},
	}
}

// List is a capability in the namespace of a list, or in any namespace for a list of all (*). The list shows
// the rows of namespaces in which the caller has the capability.
func List(c acl.Capability) Right {
	return Right{
		needs: fmt.Sprintf("namespace: %s", c),
		allows: func(q Question) bool {
			ns := q.Req.(namespaced).RequestNamespace()
			if ns == allNamespaces {
				return q.ACL.AnyNamespace(c)
			}
			return q.ACL.Namespace(ns, c)
		},
		sees: func(q Question) func(namespace, id string) bool {
			return func(namespace, _ string) bool { return q.ACL.Namespace(namespace, c) }
		},
	}
}

// Services is the right of a list of services: as List with read-job, and besides for the identities of
// workloads in their own namespace.
var Services = Right{
	needs: fmt.Sprintf("namespace: %s, or an identity of a workload there", acl.ReadJob),
	allows: func(q Question) bool {
		ns := q.Req.(namespaced).RequestNamespace()
		if ns == allNamespaces {
			return q.ACL.AnyServices()
		}
		return q.ACL.Services(ns)
	},
	sees: func(q Question) func(namespace, id string) bool {
		return func(namespace, _ string) bool { return q.ACL.Services(namespace) }
	},
}

// allNamespaces is the namespace of lists of all.
const allNamespaces = "*"

// Volume is a right on the volumes that ids returns, in the namespace of the request.
func Volume[Req any](right acl.Capability, ids func(req *Req) []string) Right {
	return Right{
		needs: fmt.Sprintf("volume: %s", right),
		allows: func(q Question) bool {
			ns, one := oneNamespace(q)
			for _, id := range ids(q.Req.(*Req)) {
				if !one || !q.ACL.Volume(ns, id, right) {
					return false
				}
			}
			return true
		},
	}
}

// Variable is a right on the variable whose path the request names.
func Variable[Req any](right acl.Capability, path func(req *Req) string) Right {
	return Right{
		needs: fmt.Sprintf("variables: %s", right),
		allows: func(q Question) bool {
			ns, one := oneNamespace(q)
			return one && q.ACL.Variable(ns, path(q.Req.(*Req)), right)
		},
	}
}

// NodePool is a right on the pool that the request names.
func NodePool[Req any](right acl.Capability, pool func(req *Req) string) Right {
	return Right{
		needs: fmt.Sprintf("node_pool: %s", right),
		allows: func(q Question) bool {
			return q.ACL.NodePool(pool(q.Req.(*Req)), right)
		},
	}
}

// Where is a right that a function decides. needs is for people.
func Where(needs string, allows func(q Question) bool) Right {
	return Right{needs: needs, allows: allows}
}

// Seen is the right of a list that anybody may ask for, and that shows only what its caller may see. The list
// asks structs.QueryOptions.Sees about each row. namespace is "" for rows without one.
func Seen(needs string, sees func(q Question, namespace, id string) bool) Right {
	return SeenBy(needs, func(q Question) func(namespace, id string) bool {
		return func(namespace, id string) bool { return sees(q, namespace, id) }
	})
}

// SeenBy is Seen for a list whose filter is made once for all rows of an answer.
func SeenBy(needs string, sees func(q Question) func(namespace, id string) bool) Right {
	return Right{
		needs:  needs,
		allows: func(Question) bool { return true },
		sees:   sees,
	}
}

// Both needs two rights. A list shows the rows that both let its caller see.
func Both(a, b Right) Right {
	return Right{
		needs:  strings.Trim(a.needs+"; "+b.needs, "; "),
		allows: func(q Question) bool { return a.Allows(q) && b.Allows(q) },
		sees:   bothSee(a.sees, b.sees),
	}
}

type filter = func(q Question) func(namespace, id string) bool

func bothSee(a, b filter) filter {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(q Question) func(namespace, id string) bool {
		first := a(q)
		second := b(q)
		return func(namespace, id string) bool {
			return first(namespace, id) && second(namespace, id)
		}
	}
}

// Allows reports whether a caller may send a request.
func (r Right) Allows(q Question) bool {
	return r.open || r.allows != nil && r.allows(q)
}
