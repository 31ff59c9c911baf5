package csi

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/internal/mvcc"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/storage"
	"berth/structs/validate"
)

// maxClasses is the most rows of the table.
const maxClasses = 1000

// Class returns a class, nil if there is none.
func Class(tx mvcc.Reader, name string) *storage.VolumeClass {
	return schema.VolumeClasses.Get(tx, name)
}

// Classes yields the classes by name.
func Classes(tx mvcc.Reader) iter.Seq[*storage.VolumeClass] { return schema.VolumeClasses.Scan(tx) }

// DefaultClass returns the class of the volumes that name neither a class nor a plugin, nil if there is none.
func DefaultClass(tx mvcc.Reader) *storage.VolumeClass {
	for c := range schema.DefaultClasses.Scan(tx) {
		return c
	}
	return nil
}

// ClassPut creates or replaces a class. A class that volumes name keeps its plugin and its parameters.
func ClassPut(tx *mvcc.WriteTx, p *storage.ClassPutRequest) error {
	if p.Class == nil {
		return structs.Invalidf("there is no volume class")
	}

	row := *p.Class
	row.Canonicalize()
	old := Class(tx, row.Name)
	if row.MountOptions.IsRedacted() {
		if old == nil {
			return structs.Invalidf("volume class %q: mount_flags are redacted, and there is no class whose flags "+
				"could be kept; write them out", structs.Cut(row.Name, structs.MaxQuoted))
		}
		row.MountOptions = withStoredFlags(row.MountOptions, old.MountOptions)
	}

	err := validate.VolumeClass(&row)
	if err == nil {
		err = checkDefaultClass(tx, &row)
	}
	if err == nil && old == nil {
		err = checkClassCount(tx)
	}
	if err == nil && old != nil {
		err = checkFixedValues(tx, &row, old)
	}
	if err == nil {
		err = checkClassModifiable(tx, &row)
	}
	if err != nil {
		return err
	}

	if old != nil && old.PluginID != row.PluginID {
		forgetClassSpace(tx, old.PluginID, old.Name)
	}
	schema.VolumeClasses.Put(tx, &row)
	return nil
}

// checkClassModifiable rejects mutable parameters if a healthy controller of the plugin is known to have
// none.
func checkClassModifiable(tx mvcc.Reader, c *storage.VolumeClass) error {
	if len(c.MutableParameters) == 0 {
		return nil
	}
	for i := range InstancesByPluginKind(tx, c.PluginID, structs.CSIKindController) {
		if i.Healthy && i.ControllerInfo != nil && !i.ControllerInfo.SupportsModify {
			return structs.Preconditionf(
				"volume class %q: CSI plugin %q %s", c.Name, c.PluginID, storage.NoModifyVolume)
		}
	}
	return nil
}

// withStoredFlags returns options with the stored flags, for which redacted ones stand.
func withStoredFlags(given, stored *structs.CSIMountOptions) *structs.CSIMountOptions {
	kept := &structs.CSIMountOptions{FSType: given.FSType}
	if stored != nil {
		kept.MountFlags = stored.MountFlags
	}
	return kept
}

// checkDefaultClass rejects a second default.
func checkDefaultClass(tx mvcc.Reader, c *storage.VolumeClass) error {
	other := DefaultClass(tx)
	if !c.Default || other == nil || other.Name == c.Name {
		return nil
	}
	return structs.Conflictf("volume class %q is the default already; apply it with default = false first",
		other.Name)
}

func checkClassCount(tx mvcc.Reader) error {
	count := schema.VolumeClasses.Len(tx)
	if count >= maxClasses {
		return structs.Preconditionf("there are %d volume classes, the most that the servers store; "+
			"delete some of them first", count)
	}
	return nil
}

// checkFixedValues rejects a change of the values that the volumes of a class have in common.
func checkFixedValues(tx mvcc.Reader, now, old *storage.VolumeClass) error {
	field := ""
	switch {
	case now.PluginID != old.PluginID:
		field = "plugin_id"
	case !maps.Equal(now.Parameters, old.Parameters):
		field = "parameters"
	}
	used := classUsers(tx, now.Name)
	if field == "" || used == "" {
		return nil
	}
	return structs.Conflictf("%s of volume class %q cannot change while %s; make a class with another name",
		field, now.Name, used)
}

// manyClassUsers is the number of volumes that an error names.
const manyClassUsers = 3

// classUsers says which volumes name a class, "" if none does.
func classUsers(tx mvcc.Reader, name string) string {
	var first []string
	count := 0
	for v := range schema.VolumesByClass.Scan(tx, name) {
		if count < manyClassUsers {
			first = append(first, v.Namespace+"/"+v.ID)
		}
		count++
	}

	switch {
	case count == 0:
		return ""
	case count == 1:
		return "volume " + first[0] + " names it"
	case count > len(first):
		return fmt.Sprintf("%d volumes name it, the first are %s", count, strings.Join(first, ", "))
	}
	return fmt.Sprintf("%d volumes name it: %s", count, strings.Join(first, ", "))
}

// ClassDelete deletes a class that no volume names. The error is not-found, or a precondition.
func ClassDelete(tx *mvcc.WriteTx, p *storage.ClassDeleteRequest) error {
	row := Class(tx, p.Name)
	if row == nil {
		return NoClass(p.Name)
	}
	used := classUsers(tx, p.Name)
	if used != "" {
		return structs.Preconditionf("volume class %q cannot be deleted while %s", p.Name, used)
	}
	schema.VolumeClasses.Delete(tx, row)
	forgetClassSpace(tx, row.PluginID, row.Name)
	return nil
}

// NoClass is the error for a class that does not exist.
func NoClass(name string) error {
	return structs.NotFoundf("there is no volume class %q", structs.Cut(name, structs.MaxQuoted))
}

// checkVolumeClass returns an error unless a volume agrees with its class, of which it has the plugin and the
// parameters.
func checkVolumeClass(tx mvcc.Reader, v *structs.CSIVolume) error {
	if v.Class == "" {
		return nil
	}

	c := Class(tx, v.Class)
	if c == nil {
		return unknownClass(v)
	}
	if v.PluginID != c.PluginID {
		return structs.Conflictf("volume %q: plugin_id is %q; volume class %q has the plugin %q", v.ID, v.PluginID,
			c.Name, c.PluginID)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Parameters)) {
		if v.Parameters[key] != c.Parameters[key] {
			return structs.Conflictf("volume %q: the parameter %q differs from that of volume class %q; leave it out",
				v.ID, key, c.Name)
		}
	}
	return nil
}

// CheckClasses checks that at most one class is the default, and that volumes agree with their classes.
func CheckClasses(c *schema.Report) {
	schema.CheckIndexes(c, schema.VolumeClasses)
	defaults := 0
	for row := range Classes(c) {
		if row.Default {
			defaults++
		}
		c.Want(row.DeleteAfter != nil && row.PluginID != "", "volume class %s: a part is missing", row.Name)
	}
	c.Want(defaults <= 1, "%d volume classes are the default", defaults)
	for v := range schema.Volumes.Scan(c) {
		err := checkVolumeClass(c, v)
		c.Want(err == nil, "volume %s/%s: %v", v.Namespace, v.ID, err)
	}
}
