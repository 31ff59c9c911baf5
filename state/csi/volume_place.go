package csi

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
)

// Placeless returns why nothing reaches a volume any more: no node with its plugin is where the volume is,
// although others run the plugin. It returns "" if one is, also if that is down, and if nobody can tell. The
// remedy of the caller is GoneCommand.
func Placeless(tx mvcc.Reader, v *structs.CSIVolume) string {
	if len(v.Topologies) == 0 || v.ExternalID == "" || onOwnNode(tx, v) {
		return ""
	}
	known := false
	for i := range InstancesByPluginKind(tx, v.PluginID, structs.CSIKindNode) {
		if i.NodeInfo == nil || v.ReachableFrom(i.NodeInfo.AccessibleTopology) {
			return "" // this node has the volume, or has not told yet where it is
		}
		known = known || tellsPlace(i)
	}
	if !known {
		return ""
	}
	return fmt.Sprintf("volume %s is in %s, and no node there runs plugin %s; if it was on the disk of a "+
		"machine that is gone, its data is gone, too", v.ID, placeText(v), v.PluginID)
}

// onOwnNode reports whether a node that alone has a segment of the volume reaches it. With local storage it
// spares a search among all nodes.
func onOwnNode(tx mvcc.Reader, v *structs.CSIVolume) bool {
	for _, t := range v.Topologies {
		for key, value := range t.Segments {
			i := schema.InstancesByOwnSegment.First(tx, v.PluginID, strings.ToLower(key), value)
			if i != nil && t.Matches(i.NodeInfo.AccessibleTopology) {
				return true
			}
		}
	}
	return false
}

func tellsPlace(i *structs.CSIPluginInstance) bool {
	place := i.NodeReport().AccessibleTopology
	return place != nil && len(place.Segments) > 0
}

// places are the places of the nodes that run a plugin, for many volumes.
type places struct {
	unknown bool // a node has not told its place yet
	// bySegment has each place under its segments, with the keys in lower case.
	bySegment map[[2]string][]*structs.CSITopology
}

func placesOf(tx mvcc.Reader, plugin string) *places {
	p := &places{bySegment: map[[2]string][]*structs.CSITopology{}}
	for i := range InstancesByPluginKind(tx, plugin, structs.CSIKindNode) {
		p.unknown = p.unknown || i.NodeInfo == nil
		if place := i.NodeReport().AccessibleTopology; tellsPlace(i) && !p.has(place) {
			for key, value := range place.Segments {
				at := [2]string{strings.ToLower(key), value}
				p.bySegment[at] = append(p.bySegment[at], place)
			}
		}
	}
	return p
}

// placelessAmong returns a function that reports the same as Placeless. It reads the places of a plugin once.
func placelessAmong(tx mvcc.Reader) func(*structs.CSIVolume) bool {
	known := map[string]*places{}
	return func(v *structs.CSIVolume) bool {
		if len(v.Topologies) == 0 || v.ExternalID == "" {
			return false
		}
		p := known[v.PluginID]
		if p == nil {
			p = placesOf(tx, v.PluginID)
			known[v.PluginID] = p
		}
		return !p.unknown && len(p.bySegment) > 0 && !slices.ContainsFunc(v.Topologies, p.has)
	}
}

// has reports whether a node is in a place. It compares with the nodes of the segment that has the fewest.
func (p *places) has(t *structs.CSITopology) bool {
	if t == nil || len(t.Segments) == 0 {
		return true
	}
	var fewest []*structs.CSITopology
	first := true
	for key, value := range t.Segments {
		at := p.bySegment[[2]string{strings.ToLower(key), value}]
		if first || len(at) < len(fewest) {
			fewest = at
			first = false
		}
	}
	return slices.ContainsFunc(fewest, t.Matches)
}

// SurelyPlaceless is Placeless for a volume whose node is surely deleted: each node of the cluster runs the
// plugin, and none is where the volume is.
func SurelyPlaceless(tx mvcc.Reader, v *structs.CSIVolume) string {
	why := Placeless(tx, v)
	if why == "" {
		return ""
	}
	for n := range schema.Nodes.Scan(tx) {
		if Instance(tx, v.PluginID, structs.CSIKindNode, n.ID) == nil {
			return "" // the volume may be there
		}
	}
	return why
}

// GoneCommand is the command that forgets a volume whose data is gone.
func GoneCommand(v *structs.CSIVolume) string {
	return structs.CommandLine(v.Namespace, "volume deregister -force", v.ID)
}

// placeText describes where a volume is.
func placeText(v *structs.CSIVolume) string {
	var all []string
	for _, t := range v.Topologies {
		var segments []string
		for _, key := range slices.Sorted(maps.Keys(t.Segments)) {
			segments = append(segments, key+"="+t.Segments[key])
		}
		all = append(all, strings.Join(segments, ","))
	}
	return structs.Cut(strings.Join(all, " or "), structs.MaxQuoted)
}
