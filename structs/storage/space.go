package storage

import (
	"fmt"
	"time"

	"berth/structs"
)

// SpaceRetryAfter is the time after which a place that had no space is tried again. A deletion of a volume of
// the plugin ends it earlier.
const SpaceRetryAfter = 5 * time.Minute

// Exhaustion is the row with the answers of a plugin about the space for volumes of a class in a place.
// Bytes and Time come from RESOURCE_EXHAUSTED, the answer to a creation (CSI spec, CreateVolume). The fields
// after them come from GetCapacity. Key: (PluginID, Class, Place).
type Exhaustion struct {
	PluginID string
	Class    string
	Place    string // see TopologyText
	Bytes    int64  // of the smallest volume that found no space
	Time     int64  // UnixNano of the last such answer, 0 for none

	Left      int64 `json:",omitempty" codec:",omitempty"` // bytes, as GetCapacity has answered
	MaxVolume int64 `json:",omitempty" codec:",omitempty"` // bytes of the largest volume; 0: not known
	// LeftTime is the UnixNano of the answer that changed Left or MaxVolume, 0 if the plugin has given
	// none.
	LeftTime int64 `json:",omitempty" codec:",omitempty"`
	structs.Indexes
}

// Holds reports whether a volume of a size is not to be tried at a time (UnixNano), because a creation has
// found no space. The row may be nil.
func (e *Exhaustion) Holds(bytes, now int64) bool {
	return e != nil && bytes >= e.Bytes && now < e.Time+int64(SpaceRetryAfter)
}

// Lacks reports whether a volume of a size is not to be tried at a time (UnixNano), because the plugin has
// answered that there is less space. A figure that is older than SpaceRetryAfter prevents nothing: it may be
// wrong, and the answer to a creation decides. The row may be nil.
func (e *Exhaustion) Lacks(bytes, now int64) bool {
	if e == nil || e.LeftTime == 0 || now >= e.LeftTime+int64(SpaceRetryAfter) {
		return false
	}
	return bytes > e.Left || e.MaxVolume > 0 && bytes > e.MaxVolume
}

// Reason returns the reason for which a volume of a size is not to be tried at a time (UnixNano), "" if it
// is to be tried. The row may be nil.
func (e *Exhaustion) Reason(bytes, now int64) string {
	switch {
	case e.Lacks(bytes, now) && bytes > e.Left:
		return fmt.Sprintf("class %s has %s left%s, %s are asked", e.Class, structs.FormatBytes(e.Left),
			e.inPlace(), structs.FormatBytes(bytes))
	case e.Lacks(bytes, now):
		return fmt.Sprintf("class %s has volumes of at most %s%s, %s are asked", e.Class,
			structs.FormatBytes(e.MaxVolume), e.inPlace(), structs.FormatBytes(bytes))
	case e.Holds(bytes, now):
		return fmt.Sprintf("plugin %s had no space for %s at %s%s; it is tried again %s later",
			e.PluginID, structs.FormatBytes(e.Bytes), time.Unix(0, e.Time).UTC().Format(time.TimeOnly),
			e.inPlace(), SpaceRetryAfter)
	}
	return ""
}

func (e *Exhaustion) inPlace() string {
	if e.Place == "" {
		return ""
	}
	return " in " + e.Place
}

// MaxSpaceAnswers is the most answers of a SpaceRequest.
const MaxSpaceAnswers = 256

// SpaceRequest records answers of plugins to GetCapacity.
type SpaceRequest struct {
	Answers []*SpaceAnswer // at most MaxSpaceAnswers
	structs.WriteOptions
}

// SpaceAnswer is the space for volumes of a class in a place.
type SpaceAnswer struct {
	PluginID  string
	Class     string
	Place     string // see TopologyText
	Left      int64  // bytes, at least 0
	MaxVolume int64  // bytes of the largest volume; 0: not known
}

// SaysMore reports whether an answer is to be stored over a row, nil for none: a rounded figure differs. So
// a pool whose space changes a little in each minute writes no entry in each.
func (a *SpaceAnswer) SaysMore(e *Exhaustion) bool {
	return e == nil || e.LeftTime == 0 || roundedSpace(a.Left) != roundedSpace(e.Left) ||
		roundedSpace(a.MaxVolume) != roundedSpace(e.MaxVolume)
}

// coarseSpace is the number of binary digits that rounded keeps: a change below a sixteenth may be left out.
const coarseSpace = 5

// roundedSpace returns a number of bytes with its first digits.
func roundedSpace(bytes int64) int64 {
	digits := 0
	for n := bytes; n > 0; n >>= 1 {
		digits++
	}
	drop := max(digits-coarseSpace, 0)
	return bytes >> drop << drop
}

// Spaces lists the space for volumes of a class, by place. It has the places about which the plugin has
// answered.
var Spaces = structs.Read[SpacesRequest, SpacesResponse]("VolumeClass.Spaces")

// SpacesRequest names the class.
type SpacesRequest struct {
	Class string
	structs.QueryOptions
}

// SpacesResponse has the places of a class.
type SpacesResponse struct {
	Places []*Exhaustion
	structs.QueryMeta
}
