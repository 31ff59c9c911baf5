package nodecalls

// NodeMeta is the metadata of a node with its parts, in the dialect's shape.
type NodeMeta struct {
	Meta    map[string]string  // of both parts: placements see it
	Dynamic map[string]*string // that requests have set; nil hides a key of Static
	Static  map[string]string  // of the configuration
}

// NodeMetaApply changes the metadata of a node. A key with nil is removed.
type NodeMetaApply struct {
	NodeID string // "" is the node of the called agent
	Meta   map[string]*string
}
