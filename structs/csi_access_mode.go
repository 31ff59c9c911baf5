package structs

import "slices"

// CSIAccessMode is the number of nodes and writers that may use a volume at once (CSI spec, AccessMode).
type CSIAccessMode string

// The access modes. A host volume may have single-node modes, or none: CSISingleNodeMultiWriter.
const (
	CSISingleNodeReader        CSIAccessMode = "single-node-reader-only"
	CSISingleNodeWriter        CSIAccessMode = "single-node-writer"
	CSISingleNodeSingleWriter  CSIAccessMode = "single-node-single-writer" // for servers CSISingleNodeWriter
	CSISingleNodeMultiWriter   CSIAccessMode = "single-node-multi-writer"
	CSIMultiNodeReader         CSIAccessMode = "multi-node-reader-only"
	CSIMultiNodeSingleWriter   CSIAccessMode = "multi-node-single-writer"
	CSIMultiNodeMultipleWriter CSIAccessMode = "multi-node-multi-writer"
)

// CSIAccessModes lists every access mode that a specification may name.
var CSIAccessModes = []CSIAccessMode{
	CSISingleNodeReader,
	CSISingleNodeWriter,
	CSISingleNodeSingleWriter,
	CSISingleNodeMultiWriter,
	CSIMultiNodeReader,
	CSIMultiNodeSingleWriter,
	CSIMultiNodeMultipleWriter,
}

// Valid reports whether the mode is one of the seven.
func (m CSIAccessMode) Valid() bool {
	return slices.Contains(CSIAccessModes, m)
}

// SingleNode reports whether the mode allows the volume on one node only.
func (m CSIAccessMode) SingleNode() bool {
	return m.SingleUse() || m == CSISingleNodeMultiWriter
}

// NoMultiWriter is the fault of a plugin for CSISingleNodeMultiWriter, after the name of the plugin.
const NoMultiWriter = "has no SINGLE_NODE_MULTI_WRITER, which access_mode single-node-multi-writer needs: " +
	"use single-node-single-writer or a mode of several nodes, or another plugin"

// SingleUse reports whether the mode allows one allocation only.
func (m CSIAccessMode) SingleUse() bool {
	return m == CSISingleNodeReader || m == CSISingleNodeWriter || m == CSISingleNodeSingleWriter
}

// ReaderOnly reports whether the mode allows no writer.
func (m CSIAccessMode) ReaderOnly() bool {
	return m == CSISingleNodeReader || m == CSIMultiNodeReader
}
