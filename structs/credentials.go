package structs

// Credentials returns the node that the request claims to be from, and its secret. Without a secret the
// request is not a node's own. Every request that a node makes for itself has them.

// Credentials names the calling node.
func (r *NodeHeartbeatRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *NodeUpdateCSIRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *NodeLeaveRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node. An operator reads a node without its secret.
func (r *NodeGetRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *AllocsClientUpdateRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the caller, if it is a node.
func (r *AllocsGetRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *CSIVolumeClaimRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *CSIVolumeUnpublishRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *CSIClaimGetRequest) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}

// Credentials names the calling node.
func (r *CSINodeExpandOutcome) Credentials() (nodeID, secretID string) {
	return r.NodeID, r.SecretID
}
