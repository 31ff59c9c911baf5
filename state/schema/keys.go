package schema

import (
	"strings"

	"berth/internal/mvcc"
	"berth/structs"
)

// The parts of keys by which indexes keep allocations apart: allocations that run or start, ones that are to
// end and whose node has not reported the end, and the others.
const (
	LiveRow   = "live"
	endingRow = "ending"
	DoneRow   = "done"
)

// liveOrDone returns the part of a key of an allocation that is done or is not.
func liveOrDone(done bool) string {
	if done {
		return DoneRow
	}
	return LiveRow
}

// The parts of keys by which indexes keep evaluations apart: evaluations to process, waiting for a time, and
// ended.
const (
	OpenEval  = "open"
	LaterEval = "later"
	DoneEval  = "done"

	staysEval = "stays"
	MayGoEval = "may go" // an ended evaluation that the next one of its node and job may delete
)

// retention returns whether deleteDone of package state may delete a finished evaluation, as a part of a key.
func retention(e *structs.Evaluation) string {
	if e.Status == structs.EvalComplete &&
		e.TriggeredBy == structs.TriggerNodeUpdate && !e.Placed {
		return MayGoEval
	}
	return staysEval
}

// byPriority returns an evaluation's priority as a part of a key. The highest priority comes first.
func byPriority(e *structs.Evaluation) string {
	return mvcc.Ordered(uint64(1<<32 - int64(e.Priority)))
}

// orderedTime returns a time, in nanoseconds or seconds, as a part of a key.
func orderedTime(t int64) string {
	return mvcc.Ordered(uint64(max(t, 0)))
}

// ClassKey returns the class as a part of a key.
func ClassKey(k structs.ClaimClass) string {
	access := string(k.AccessMode)
	attachment := string(k.AttachmentMode)
	letters := modeLetters[access] + modeLetters[attachment] + modeLetters[k.Mode]
	if len(letters) < 3 { // a mode is unknown
		return "?" + string(mvcc.KeyOf(access, attachment, k.Mode))
	}
	return letters
}

// modeLetters has a letter for each access mode, attachment mode and claim mode.
var modeLetters = map[string]string{
	string(structs.CSISingleNodeReader):        "r",
	string(structs.CSISingleNodeWriter):        "w",
	string(structs.CSISingleNodeSingleWriter):  "s",
	string(structs.CSISingleNodeMultiWriter):   "m",
	string(structs.CSIMultiNodeReader):         "R",
	string(structs.CSIMultiNodeSingleWriter):   "S",
	string(structs.CSIMultiNodeMultipleWriter): "M",

	string(structs.CSIFileSystem):  "f",
	string(structs.CSIBlockDevice): "b",

	structs.ClaimRead:  "r",
	structs.ClaimWrite: "w",
}

// IsQueued reports whether an evaluation waits for keys, or was unblocked and is not processed yet.
func IsQueued(e *structs.Evaluation) bool {
	return e.Status == structs.EvalBlocked ||
		e.Status == structs.EvalPending &&
			len(e.BlockedOn) > 0
}

// QueueKey identifies the queue of a key, in the order of unblocking: the highest priority first.
func QueueKey(e *structs.Evaluation) string {
	if e.Shape == "" {
		return byPriority(e) + "=" + e.ID
	}
	return byPriority(e) + "~" + e.Shape
}

// ownSegments returns the segments, key and value, that only one node has: the value is the ID of the node,
// or its ID at the plugin. The keys are in lower case, because keys compare without regard to case.
func ownSegments(i *structs.CSIPluginInstance) (own [][2]string) {
	if i.Kind != structs.CSIKindNode ||
		i.NodeInfo == nil ||
		i.NodeInfo.AccessibleTopology == nil {
		return nil
	}
	for k, v := range i.NodeInfo.AccessibleTopology.Segments {
		if v != "" &&
			(v == i.NodeInfo.ID || v == i.NodeID) {
			own = append(own, [2]string{strings.ToLower(k), v})
		}
	}
	return own
}
