package csitrace

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
)

// OK is the code of a call that succeeded.
const OK = "OK"

// PowerLoss is the RPC of an event that is no call: a node has lost its power, and with it all mounts.
const PowerLoss = "power loss"

// Call is one call that an instance of a plugin received.
type Call struct {
	// Instance names the process that was called, and Node the node on which it runs, as the plugin calls it
	// (CSI spec, NodeGetInfoResponse.node_id).
	Instance string
	Node     string
	RPC      string
	Request  proto.Message
	Answer   proto.Message // nil after an error
	// Code is the name of the gRPC code that the caller got, "" while the call is in flight.
	Code string
	// Start and End are positions in the order of all starts and ends of a trace. The first position is 1.
	// End is 0 while the call is in flight.
	Start int
	End   int
}

// String describes the call with its objects and its outcome.
func (c *Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s(%s)", c.RPC, strings.Join(c.objects(), ", "))
	outcome := c.Code
	if outcome == "" {
		outcome = "in flight"
	}
	fmt.Fprintf(&b, " at %s [%d-%d %s]", c.Instance, c.Start, c.End, outcome)
	return b.String()
}

// objects lists the volume, the node, the path and the snapshot of a request, as far as it has them.
func (c *Call) objects() (all []string) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+" "+value)
		}
	}
	add("name", nameOf(c))
	add("volume", volumeOf(c))
	add("snapshot", snapshotOf(c))
	add("node", nodeOf(c))
	add("path", pathOf(c))
	return all
}

// The accessors below return "" for a request without such a field.

func volumeOf(c *Call) string {
	switch r := c.Request.(type) {
	case interface{ GetVolumeId() string }:
		return r.GetVolumeId()
	case interface{ GetSourceVolumeId() string }:
		return r.GetSourceVolumeId()
	}
	return ""
}

// nameOf returns the name of a volume or a snapshot that is created.
func nameOf(c *Call) string {
	r, ok := c.Request.(interface{ GetName() string })
	if !ok {
		return ""
	}
	return r.GetName()
}

func snapshotOf(c *Call) string {
	r, ok := c.Request.(interface{ GetSnapshotId() string })
	if !ok {
		return ""
	}
	return r.GetSnapshotId()
}

// nodeOf returns the node that a call is about: the one of the request, else the one that is called.
func nodeOf(c *Call) string {
	if r, ok := c.Request.(interface{ GetNodeId() string }); ok {
		return r.GetNodeId()
	}
	if strings.HasPrefix(c.RPC, "Node") {
		return c.Node
	}
	return ""
}

// pathOf returns the path that a call of the node half is about.
func pathOf(c *Call) string {
	if r, ok := c.Request.(interface{ GetTargetPath() string }); ok {
		return r.GetTargetPath()
	}
	if r, ok := c.Request.(interface{ GetVolumePath() string }); ok {
		return r.GetVolumePath()
	}
	return stagingOf(c)
}

func stagingOf(c *Call) string {
	r, ok := c.Request.(interface{ GetStagingTargetPath() string })
	if !ok {
		return ""
	}
	return r.GetStagingTargetPath()
}
