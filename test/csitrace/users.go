package csitrace

import (
	"fmt"
	"strings"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// capable is a request with the use that it is for.
type capable interface {
	GetVolumeCapability() *spec.VolumeCapability
	GetReadonly() bool
}

// modeOf returns the access mode of a request, and whether the use is read-only.
func modeOf(c *Call) (mode string, readOnly bool) {
	r, ok := c.Request.(capable)
	if !ok {
		return "", false
	}
	return r.GetVolumeCapability().GetAccessMode().GetMode().String(), r.GetReadonly()
}

func isSingleNode(mode string) bool { return strings.HasPrefix(mode, "SINGLE_NODE_") }

// attachedTwice: a volume that is attached to one node in a mode for one node is, or may be, attached to no
// other node.
func attachedTwice(l *ledger, c *Call) string {
	if c.RPC != "ControllerPublishVolume" {
		return ""
	}
	mode, _ := modeOf(c)
	for at, e := range l.attached {
		if at.volume != volumeOf(c) || at.node == nodeOf(c) {
			continue
		}
		other, _ := modeOf(e.last)
		if isSingleNode(mode) || isSingleNode(other) {
			return fmt.Sprintf("volume %s may be attached to node %s, and is for one node: %s",
				at.volume, at.node, e.last)
		}
	}
	return ""
}

// publishedTwice: a publication excludes others as its access mode says.
func publishedTwice(l *ledger, c *Call) string {
	if c.RPC != "NodePublishVolume" {
		return ""
	}
	mode, readOnly := modeOf(c)
	if strings.HasSuffix(mode, "_READER_ONLY") && !readOnly {
		return fmt.Sprintf("volume %s is published for writing in the mode %s", volumeOf(c), mode)
	}
	here := place{volumeOf(c), c.Node, pathOf(c)}
	for at, e := range l.published {
		if at.volume == here.volume && at != here && excludes(c, e.last, at.node == here.node) {
			return fmt.Sprintf("volume %s may be published on node %s, and the mode %s excludes that: %s",
				at.volume, at.node, mode, e.last)
		}
	}
	return ""
}

// excludes reports whether two publications of a volume at two paths exclude each other.
func excludes(a, b *Call, sameNode bool) bool {
	modeA, readOnlyA := modeOf(a)
	modeB, readOnlyB := modeOf(b)
	for _, mode := range []string{modeA, modeB} {
		switch {
		case isSingleNode(mode) && !sameNode:
			return true
		case mode == "SINGLE_NODE_WRITER" || mode == "SINGLE_NODE_SINGLE_WRITER":
			return true
		case mode == "MULTI_NODE_SINGLE_WRITER" && !readOnlyA && !readOnlyB:
			return true
		}
	}
	return false
}
