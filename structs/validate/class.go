package validate

import (
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate/field"
)

var classForm = field.Pattern(`^[a-zA-Z0-9]([a-zA-Z0-9._-]{0,62}[a-zA-Z0-9])?$`)

// VolumeClass checks a canonical volume class and returns every fault, each with its path. No parameter or
// mount flag appears in one.
func VolumeClass(c *storage.VolumeClass) error {
	f := field.New("")
	f.Require(c.Name != "", "class: name is required")
	checkClassName(f, "class: name", c.Name)
	f = f.At("class %q", structs.Cut(c.Name, structs.MaxQuoted))
	checkDescription(f, c.Description)
	f.CheckPluginID("plugin_id", c.PluginID)
	f.CheckCSIMap("parameters", c.Parameters)
	f.CheckCSIMap("mutable_parameters", c.MutableParameters)
	checkSecretsPattern(f, c.SecretsFrom)
	checkMountOptions(f, c.MountOptions)
	for i, t := range field.FirstOf(f, "allowed_topology", c.AllowedTopologies, structs.MaxCSITopologies) {
		checkTopology(f.At("allowed_topology %d", i+1), t)
	}
	checkNodeLoss(f, c.OnNodeLoss)
	f.CheckOneOf("reclaim", c.Reclaim, []string{storage.ReclaimRetain, storage.ReclaimDelete})
	f.CheckOneOf("binding", c.Binding, []string{storage.BindImmediate, storage.BindFirstConsumer})
	f.CheckRange("quota_weight", c.QuotaWeight, field.Between(1, storage.MaxClassWeight))
	if c.DeleteAfter != nil {
		f.CheckDuration("delete_after", *c.DeleteAfter, structs.MaxInterval)
	}
	checkClassUpkeep(f, c)
	return f.Err()
}

// checkReclaim checks the rule for the deletion of a volume. A delay without storage.ReclaimDelete would have
// no effect.
func checkReclaim(f field.Errors, v *structs.CSIVolume) {
	if v.Reclaim != "" {
		f.CheckOneOf("reclaim", structs.Cut(v.Reclaim, structs.MaxQuoted),
			[]string{storage.ReclaimRetain, storage.ReclaimDelete})
	}
	if v.DeleteAfter != nil {
		f.CheckDuration("delete_after", *v.DeleteAfter, structs.MaxInterval)
		f.Require(v.Reclaim == storage.ReclaimDelete, "delete_after needs reclaim = %q beside it",
			storage.ReclaimDelete)
	}
}

// checkClassName checks the name of a volume class, "" for none.
func checkClassName(f field.Errors, name, value string) {
	f.Require(value == "" || classForm().MatchString(value),
		"%s %.70q must be at most 64 letters, digits, dots, dashes and underscores, beginning and ending with a letter or digit", name, value)
}
