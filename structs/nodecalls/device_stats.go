package nodecalls

import "time"

// DeviceGroupStats are the statistics of the devices of one group, by their IDs.
type DeviceGroupStats struct {
	Vendor        string
	Type          string
	Name          string
	InstanceStats map[string]*DeviceStats
}

// DeviceStats are the statistics of one device.
type DeviceStats struct {
	Summary   *StatValue
	Stats     *StatObject
	Timestamp time.Time
}

// StatObject is a tree of statistics.
type StatObject struct {
	Nested     map[string]*StatObject
	Attributes map[string]*StatValue
}

// StatValue is one statistic: a number, a fraction, a text or a flag.
type StatValue struct {
	FloatNumeratorVal   *float64 `json:",omitempty"`
	FloatDenominatorVal *float64 `json:",omitempty"`
	IntNumeratorVal     *int64   `json:",omitempty"`
	IntDenominatorVal   *int64   `json:",omitempty"`
	StringVal           *string  `json:",omitempty"`
	BoolVal             *bool    `json:",omitempty"`
	Unit                string   `json:",omitempty"`
	Desc                string   `json:",omitempty"`
}

// ID returns "vendor/type/name".
func (g *DeviceGroupStats) ID() string { return g.Vendor + "/" + g.Type + "/" + g.Name }
