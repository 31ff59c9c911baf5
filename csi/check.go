package csi

import (
	"fmt"
	"path/filepath"
	"strconv"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/structs/validate/field"
)

// Requests keep to the size limits of the specification. Answers may exceed them where real plugins do: IDs
// that are whole resource paths are passed back byte for byte, and only IDs of an extreme length are
// rejected. The limits are in structs/limits.go.

// idFault describes the fault of an ID in an answer, "" for none.
func idFault(id string, limit int) string {
	if id == "" {
		return "is empty"
	}
	return sizeFault(id, limit)
}

// sizeFault describes a text that is too long, "" for none.
func sizeFault(text string, limit int) string {
	if len(text) > limit {
		return fmt.Sprintf("is %d bytes long, at most %d are allowed", len(text), limit)
	}
	return ""
}

// mapFault describes a map that is too large by the specification's rule, "" for none.
func mapFault(m map[string]string, limit int) string {
	n := structs.PairBytes(m)
	if n > limit {
		return fmt.Sprintf("holds %d bytes, at most %d are allowed", n, limit)
	}
	return ""
}

// capacityFault describes the fault of a capacity range, "" for none.
func capacityFault(r nodecalls.CSICapacityRange) string {
	switch {
	case r.RequiredBytes < 0 || r.LimitBytes < 0:
		return "is negative"
	case r.LimitBytes > 0 && r.RequiredBytes > r.LimitBytes:
		return fmt.Sprintf("required %d bytes are above the limit of %d", r.RequiredBytes, r.LimitBytes)
	}
	return ""
}

// rangeFault describes how the size of a volume misses the requested range. A size of 0 is unknown.
func rangeFault(size int64, r nodecalls.CSICapacityRange) string {
	switch {
	case size < 0:
		return fmt.Sprintf("is negative: %d", size)
	case size == 0:
		return ""
	case size < r.RequiredBytes:
		return fmt.Sprintf("of %d is smaller than the %d requested", size, r.RequiredBytes)
	case r.LimitBytes > 0 && size > r.LimitBytes:
		return fmt.Sprintf("of %d is above the limit of %d", size, r.LimitBytes)
	case size > structs.MaxVolumeBytes:
		return fmt.Sprintf("of %d is above the %d that a volume may have",
			size, int64(structs.MaxVolumeBytes))
	}

	return ""
}

// flagsFault describes the fault of mount flags, "" for none. It names none, because they may hold secrets.
func flagsFault(flags []string) string {
	n := 0
	for _, f := range flags {
		n += len(f)
	}
	if n > structs.MaxCSIMap {
		return fmt.Sprintf("the mount flags hold %d bytes, at most %d are allowed", n, structs.MaxCSIMap)
	}
	return ""
}

// volumeNameFault describes the fault of the name for a volume, "" for none (CSI spec,
// CreateVolumeRequest.name).
func volumeNameFault(name string) string {
	if fault := idFault(name, structs.MaxCSIString); fault != "" {
		return fault
	}
	for _, r := range name {
		if field.BarredInName(r) {
			return fmt.Sprintf("holds the control character %U", r)
		}
	}
	return ""
}

// requirement is one condition on a request or an answer: the name of the field and its fault, "" for none.
type requirement struct{ field, fault string }

// checkRequest returns the first fault of a request, which is then not sent. The error is final: a repeat of
// the same request fails in the same way.
func (c *Client) checkRequest(rpc string, list ...requirement) error {
	for _, d := range list {
		if d.fault != "" {
			return structs.Invalidf("%s: %s not called: %s: %s",
				c.pluginTitle(), rpc, d.field, d.fault)
		}
	}
	return nil
}

// checkResponse returns the first fault of an answer, which breaks the specification.
func (c *Client) checkResponse(rpc string, list ...requirement) error {
	for _, d := range list {
		if d.fault != "" {
			// The plugin may have done its work, so Final and Code must not tell of a rejection.
			root := &callError{malformed: true, text: d.fault}
			return structs.Internalf("%s: %s: the answer's %s: %w",
				c.pluginTitle(), rpc, d.field, root)
		}
	}
	return nil
}

func notEmpty(field, value string) requirement {
	return requirement{field, faultIf(value == "", "is empty")}
}

// faultIf returns the fault if present, else "".
func faultIf(present bool, fault string) string {
	if present {
		return fault
	}
	return ""
}

func absolutePath(field, path string) requirement {
	if !filepath.IsAbs(path) {
		return requirement{field, strconv.Quote(path) + " is not an absolute path"}
	}
	return requirement{field, ""}
}

// topologiesFault describes the fault of a volume's topologies in an answer, "" for none.
func topologiesFault(ts []*spec.Topology) string {
	if len(ts) > structs.MaxCSITopologies {
		return fmt.Sprintf("names %d topologies, at most %d are allowed", len(ts), structs.MaxCSITopologies)
	}
	for _, t := range ts {
		if fault := segmentsFault(t.GetSegments()); fault != "" {
			return fault
		}
	}
	return ""
}

func smallMap(field string, m map[string]string) requirement {
	return requirement{field, mapFault(m, structs.MaxCSIMap)}
}

func notNegative(field string, n int64) requirement {
	fault := fmt.Sprintf("is negative: %d", n)
	return requirement{field, faultIf(n < 0, fault)}
}

// segmentsFault describes the fault of a topology in an answer, "" for none.
func segmentsFault(m map[string]string) string {
	if _, has := m[""]; has {
		return "has a segment without a key"
	}
	return mapFault(m, structs.MaxCSIMap)
}
