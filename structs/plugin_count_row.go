package structs

// CSIPluginCountRow counts the instances of one half of a plugin, in the table csi_plugin_counts. It exists
// while a counter is not 0.
type CSIPluginCountRow struct {
	PluginID string
	Kind     CSIKind
	Tally    CSIPluginTally
	Indexes
}

// CSIPluginTally holds the counters of one half of a plugin.
type CSIPluginTally struct {
	Instances int // reported by nodes
	Healthy   int // of those
	Runs      int // allocations that run this half and have not ended
	// Ending are the instances with calls that end them.
	Ending int `json:",omitempty" codec:",omitempty"`
}

// Plus returns the sum of two tallies.
func (t CSIPluginTally) Plus(o CSIPluginTally) CSIPluginTally {
	return CSIPluginTally{
		Instances: t.Instances + o.Instances,
		Healthy:   t.Healthy + o.Healthy,
		Runs:      t.Runs + o.Runs,
		Ending:    t.Ending + o.Ending,
	}
}

// Minus returns the difference of two tallies.
func (t CSIPluginTally) Minus(o CSIPluginTally) CSIPluginTally {
	return CSIPluginTally{
		Instances: t.Instances - o.Instances,
		Healthy:   t.Healthy - o.Healthy,
		Runs:      t.Runs - o.Runs,
		Ending:    t.Ending - o.Ending,
	}
}

// Expected returns how many instances there should be: the allocations that run the half, if they are more
// than the nodes have reported.
func (t CSIPluginTally) Expected() int {
	return max(t.Instances, t.Runs)
}
