package devices

import (
	"time"

	"berth/client/drivers/protocol/device"
	"berth/client/drivers/protocol/shared"
	"berth/structs"
	"berth/structs/nodecalls"
)

// maxStatsDepth bounds the nesting of statistics.
const maxStatsDepth = 8

// statsOf converts the statistics of a plugin.
func statsOf(answer *device.StatsResponse) ([]*nodecalls.DeviceGroupStats, error) {
	if len(answer.GetGroups()) > structs.MaxDeviceGroups {
		return nil, structs.Invalidf("the plugin sends statistics of %d groups: at most %d are allowed",
			len(answer.GetGroups()), structs.MaxDeviceGroups)
	}

	var groups []*nodecalls.DeviceGroupStats
	instances := 0
	for _, g := range answer.GetGroups() {
		instances += len(g.GetInstanceStats())
		if instances > structs.MaxDevices {
			return nil, structs.Invalidf("the plugin sends statistics of more than %d devices",
				structs.MaxDevices)
		}

		group := &nodecalls.DeviceGroupStats{
			Vendor:        g.GetVendor(),
			Type:          g.GetType(),
			Name:          g.GetName(),
			InstanceStats: map[string]*nodecalls.DeviceStats{},
		}

		for id, s := range g.GetInstanceStats() {
			// The bound is of one device.
			converter := statsConverter{left: maxStats}
			group.InstanceStats[id] = converter.instance(s)
			if converter.left < 0 {
				return nil, structs.Invalidf("device group %s: device %.40q has more than %d statistics",
					group.ID(), id, maxStats)
			}
		}

		groups = append(groups, group)
	}

	return groups, nil
}

// statsConverter converts the statistics of one device up to a number of values. A field that the plugin
// leaves out is empty and not nil, because clients of the dialect read it without a check.
type statsConverter struct {
	left int // values that it still converts
}

func (c *statsConverter) instance(s *device.DeviceStats) *nodecalls.DeviceStats {
	stats := &nodecalls.DeviceStats{Summary: valueOf(s.GetSummary()), Stats: c.object(s.GetStats(), 0)}
	// A plugin may leave the time out.
	if at := s.GetTimestamp(); at.CheckValid() == nil {
		stats.Timestamp = at.AsTime()
	} else {
		stats.Timestamp = time.Now().UTC()
	}
	return stats
}

// object converts a tree of values down to maxStatsDepth. It leaves out deeper ones.
func (c *statsConverter) object(o *shared.StatObject, depth int) *nodecalls.StatObject {
	object := &nodecalls.StatObject{
		Nested:     map[string]*nodecalls.StatObject{},
		Attributes: map[string]*nodecalls.StatValue{},
	}
	c.left -= len(o.GetAttributes()) + len(o.GetNested())
	// statsOf rejects the answer then.
	if c.left < 0 {
		return object
	}

	for name, nested := range o.GetNested() {
		if depth < maxStatsDepth {
			object.Nested[name] = c.object(nested, depth+1)
		}
	}

	for name, value := range o.GetAttributes() {
		object.Attributes[name] = valueOf(value)
	}

	return object
}

// valueOf converts a value. It leaves out a number that is not finite, because JSON has none.
func valueOf(v *shared.StatValue) *nodecalls.StatValue {
	value := &nodecalls.StatValue{
		Unit: structs.Cut(v.GetUnit(), maxText),
		Desc: structs.Cut(v.GetDesc(), maxText),
	}
	if n := v.GetFloatNumeratorVal(); n != nil && structs.IsFinite(n.Value) {
		value.FloatNumeratorVal = &n.Value
	}

	if n := v.GetFloatDenominatorVal(); n != nil && structs.IsFinite(n.Value) {
		value.FloatDenominatorVal = &n.Value
	}

	if n := v.GetIntNumeratorVal(); n != nil {
		value.IntNumeratorVal = &n.Value
	}

	if n := v.GetIntDenominatorVal(); n != nil {
		value.IntDenominatorVal = &n.Value
	}

	if text := v.GetStringVal(); text != nil {
		short := structs.Cut(text.Value, maxText)
		value.StringVal = &short
	}

	if flag := v.GetBoolVal(); flag != nil {
		value.BoolVal = &flag.Value
	}

	return value
}
