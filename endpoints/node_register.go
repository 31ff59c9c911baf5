package endpoints

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/codec"
	"berth/structs"
)

// registration checks what a node says of itself and fills in what it leaves out, in a copy that shares what
// it holds. old is the node as it is known, nil for a new one.
func registration(req *structs.NodeRegisterRequest, old *structs.Node) (*structs.Node, error) {
	if req.Node == nil {
		return nil, structs.Errorf(structs.KindInvalid, "Node: nothing is given; expected the node to register")
	}
	said := *req.Node
	node := &said
	for _, required := range []struct{ path, value string }{
		{"ID", node.ID}, {"SecretID", node.SecretID}, {"Name", node.Name},
	} {
		if required.value == "" {
			return nil, structs.Errorf(structs.KindInvalid, "Node.%s: nothing is given; expected a text", required.path)
		}
	}
	node.DropServerFields()
	if old != nil {
		node.SchedulingEligibility = old.SchedulingEligibility
	}
	if err := checkInstances(node.ID, "CSI", req.CSI); err != nil {
		return nil, err
	}
	if strings.ContainsAny(node.HTTPAddr, "/\\?#@\"<> \t\r\n") { // requests for logs are passed on to it
		return nil, structs.Errorf(structs.KindInvalid, "Node.HTTPAddr is %.40q; expected host:port", node.HTTPAddr)
	}
	for _, d := range []struct {
		field *string
		value string
	}{
		{&node.Datacenter, "dc1"}, {&node.NodePool, structs.DefaultNodePool},
		{&node.Status, structs.NodeInit}, {&node.SchedulingEligibility, structs.NodeEligible},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if node.Status != structs.NodeInit && node.Status != structs.NodeReady {
		return nil, structs.Errorf(structs.KindInvalid, "Node.Status is %.40q; expected %q or %q", node.Status, structs.NodeInit, structs.NodeReady)
	}
	if old == nil && node.SchedulingEligibility != structs.NodeEligible && node.SchedulingEligibility != structs.NodeIneligible {
		return nil, structs.Errorf(structs.KindInvalid, "Node.SchedulingEligibility is %.40q; expected %q or %q",
			node.SchedulingEligibility, structs.NodeEligible, structs.NodeIneligible)
	}
	if err := node.Validate(); err != nil {
		return nil, err
	}
	if node.ComputedClass = knownClass(old, node); node.ComputedClass == "" {
		node.ComputedClass = computedClass(node)
	}
	return node, nil
}

// knownClass is the class of a node that is what it was in all that its class is made of, "" of another one.
func knownClass(old, node *structs.Node) string {
	if old == nil || !strings.HasPrefix(old.ComputedClass, classVersion) || old.Datacenter != node.Datacenter ||
		old.NodeClass != node.NodeClass || old.NodePool != node.NodePool ||
		!maps.Equal(old.Attributes, node.Attributes) || !maps.Equal(old.Meta, node.Meta) {
		return ""
	}
	return old.ComputedClass
}

// checkInstances refuses instances that are not whole, are said to be on another node, or are too many or too large.
func checkInstances(nodeID, path string, instances []*structs.CSIPluginInstance) error {
	for i, c := range instances {
		if c == nil || c.PluginID == "" || c.NodeID != nodeID ||
			c.Kind != structs.CSIKindController && c.Kind != structs.CSIKindNode {
			return structs.Errorf(structs.KindInvalid, "%s[%d]: expected an instance on the node itself, with PluginID and Kind", path, i)
		}
	}
	return structs.ValidateInstances(nodeID, instances)
}

// classVersion begins every class. It changes with what a class is made of.
const classVersion = "v1:"

// computedClass is a digest of all that a constraint can look at except what is unique to a node: nodes
// with the same class need not be tried twice.
func computedClass(n *structs.Node) string {
	shared := func(m map[string]string) map[string]string {
		m = maps.Clone(m)
		for _, key := range slices.Collect(maps.Keys(m)) {
			if strings.HasPrefix(key, "unique.") {
				delete(m, key)
			}
		}
		return m
	}
	b, err := codec.Encode([]any{n.Datacenter, n.NodeClass, n.NodePool, shared(n.Attributes), shared(n.Meta)})
	if err != nil {
		panic(err) // texts and maps of texts always encode
	}
	return fmt.Sprintf("%s%x", classVersion, sha256.Sum256(b))[:len(classVersion)+32]
}
