package jobspec

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/hclconf"
	"berth/structs"
)

// LocateAPI adds the position in a file to each fault of Job.Validate, as Locate: src is a job in the JSON of
// the API. The position is that of the field in the fault, or else that of the innermost object in its path.
func LocateAPI(filename string, src []byte, err error) error {
	root, diags := hclconf.ParseValue(filename, src)
	if diags.HasErrors() {
		return err
	}
	return hclconf.Place(err, func(text string) (at *hcl.Range, counts bool) {
		return locateField(root, text), true
	})
}

// fieldsOf has the fields of the API for the blocks and arguments of job files with other names. The rest has
// the same names without underscores.
var fieldsOf = map[string][]string{
	"affinity":      {"Affinities"},
	"artifact":      {"Artifacts"},
	"attribute":     {"LTarget"},
	"check":         {"Checks"},
	"constraint":    {"Constraints"},
	"cron":          {"Spec"},
	"crons":         {"Specs"},
	"csi_plugin":    {"CSIPluginConfig"},
	"data":          {"EmbeddedTmpl"},
	"destination":   {"DestPath", "RelativeDest"},
	"device":        {"Devices"},
	"env":           {"Envvars"},
	"group":         {"TaskGroups"},
	"headers":       {"GetterHeaders"},
	"logs":          {"LogConfig"},
	"max_file_size": {"MaxFileSizeMB"},
	"memory":        {"MemoryMB"},
	"memory_max":    {"MemoryMaxMB"},
	"mode":          {"GetterMode"},
	"network":       {"Networks"},
	"operator":      {"Operand"},
	"options":       {"GetterOptions"},
	"parameterized": {"ParameterizedJob"},
	"port":          {"ReservedPorts", "DynamicPorts", "PortLabel"},
	"reschedule":    {"ReschedulePolicy"},
	"restart":       {"RestartPolicy"},
	"service":       {"Services"},
	"size":          {"SizeMB"},
	"source":        {"SourcePath", "GetterSource"},
	"spread":        {"Spreads"},
	"static":        {"Value"},
	"target":        {"SpreadTarget"},
	"task":          {"Tasks", "TaskName"},
	"template":      {"Templates"},
	"value":         {"RTarget"},
	"volume":        {"Volumes"},
	"volume_mount":  {"VolumeMounts"},
}

// locateField returns the range that a fault names in a job, nil if the fault has no path.
func locateField(job hcl.Expression, text string) *hcl.Range {
	in := job
	for depth := 0; ; depth++ {
		s, found := firstStep(text)
		if !found && depth == 0 {
			return nil
		}
		if !found {
			break
		}
		if depth > 0 {
			next := objectAt(in, s)
			if next == nil {
				break
			}
			in = next
		}
		text = s.rest
	}
	at := in.Range()
	for _, value := range fieldValues(in, words.FindString(text)) {
		at = value.Range()
	}
	return &at
}

// fieldValues returns the values of the fields of an object that a block or an argument has.
func fieldValues(object hcl.Expression, name string) (values []hcl.Expression) {
	names := append([]string{strings.ReplaceAll(name, "_", "")}, fieldsOf[name]...)
	entries, _ := hcl.ExprMap(object)
	for _, e := range entries {
		key := constantText(e.Key)
		isField := func(n string) bool { return strings.EqualFold(n, key) }
		if slices.ContainsFunc(names, isField) {
			values = append(values, e.Value)
		}
	}
	return values
}

// objectAt returns the object of a step, nil for none: an entry of a map by its key, an element of a list by
// its name or its number, or else the first one.
func objectAt(in hcl.Expression, s step) hcl.Expression {
	name := s.label()
	for _, value := range fieldValues(in, s.name) {
		elements, notList := hcl.ExprList(value)
		entries, notMap := hcl.ExprMap(value)
		switch {
		case notList.HasErrors() && name == "" && !notMap.HasErrors():
			return value
		case notList.HasErrors():
			for _, e := range entries {
				if structs.Cut(constantText(e.Key), structs.MaxQuoted) == name {
					return e.Value
				}
			}
		case name == "" && s.number >= 1 && s.number <= len(elements):
			return elements[s.number-1]
		case name != "":
			for _, e := range elements {
				if isNamed(e, name) {
					return e
				}
			}
		}
	}
	return nil
}

// isNamed reports whether an object has a name, as a group or a task, or a label, as a port.
func isNamed(object hcl.Expression, name string) bool {
	return slices.ContainsFunc(slices.Concat(fieldValues(object, "Name"), fieldValues(object, "Label")),
		func(value hcl.Expression) bool { return structs.Cut(constantText(value), structs.MaxQuoted) == name })
}

// constantText returns the text of a constant, "" for another value.
func constantText(e hcl.Expression) string {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}
