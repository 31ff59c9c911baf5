package locate

import (
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"berth/internal/conf"
	"berth/structs"
)

// InJSON adds the position in a file to each fault of Validate, as Locator.Locate: src is a job, a namespace
// or a node pool in the JSON of the API, or an object that has a job. The place is the field in the
// fault, or else the innermost object in its path. InJSON drops faults that may be due to parts
// that the target lacks because of the faults of the source, which may be nil.
func InJSON(filename string, src []byte, faults *conf.JSONFaults, err error) error {
	root, diags := conf.ParseValue(filename, src)
	if diags.HasErrors() && faults != nil {
		return nil // each of them may be due to another one
	}

	if diags.HasErrors() {
		return err
	}

	// A request of the API has the job in an object.
	for _, job := range fieldValues(root, "job") {
		root = job
	}

	l := jsonLocator{
		root: root,
		lost: map[int]*conf.JSONFault{},
	}
	if faults != nil {
		for _, f := range faults.List {
			l.lost[f.Offset] = f
		}
	}

	return conf.Place(err, l.placeOf)
}

// jsonLocator finds the places of faults in the JSON of the API.
type jsonLocator struct {
	root hcl.Expression
	lost map[int]*conf.JSONFault // by the offsets of the keys or values
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
	"listener":      {"Listeners"},
	"logs":          {"LogConfig"},
	"max_file_size": {"MaxFileSizeMB"},
	"memory":        {"MemoryMB"},
	"memory_max":    {"MemoryMaxMB"},
	"mode":          {"GetterMode"},
	"network":       {"Networks"},
	"operator":      {"Operand"},
	"options":       {"GetterOptions"},
	"parameterized": {"ParameterizedJob"},
	"path":          {"Paths"},
	"token":         {"Tokens"},
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

// jsonWalk is the way to the place of a fault.
type jsonWalk struct {
	*jsonLocator
	rest    string           // the text after the steps of the way
	objects []hcl.Expression // from the outermost to the innermost
	kind    string           // of the innermost object
	due     bool             // the fault may be due to a lost field
}

// placeOf returns the range that a fault names, nil if the fault has no path. It also returns whether the
// fault counts.
func (l *jsonLocator) placeOf(text string) (at *hcl.Range, counts bool) {
	first, found := firstStep(text)
	if !found {
		return nil, true
	}

	w := jsonWalk{
		jsonLocator: l,
		rest:        first.rest,
		objects:     []hcl.Expression{l.root},
		due:         l.isLost(l.root),
	}

	w.followPath()
	inner := w.inner()
	place := inner.Range()
	name := words.FindString(w.rest)
	if !strings.HasPrefix(w.rest, name) {
		name = ""
	}

	values := fieldValues(inner, name)
	for _, value := range values {
		place = value.Range()
	}

	if len(values) == 0 && w.lacksAny(inner) && !w.isStructural() {
		w.due = true // the fault is one of the whole object
	}

	for _, word := range words.FindAllString(w.rest, -1) {
		w.due = w.due || w.means(word)
	}

	return &place, !w.due
}

// followPath walks along the path of the fault.
func (w *jsonWalk) followPath() {
	for {
		s, found := firstStep(w.rest)
		if !found {
			return
		}

		w.due = w.due || w.lacksNeeded(s.name) || w.lacks(w.inner(), s.name)
		// As in the file, a group has the policies of its job, whose object may have the place.
		next := objectAt(w.inner(), s)
		for i := len(w.objects) - 2; i >= 0 && next == nil && inherited[s.name]; i-- {
			next = objectAt(w.objects[i], s)
		}

		if next == nil {
			return
		}

		w.due = w.due || w.isLost(next)
		w.objects = append(w.objects, next)
		w.kind = s.name
		w.rest = s.rest
	}
}

// inner returns the innermost object.
func (w *jsonWalk) inner() hcl.Expression { return w.objects[len(w.objects)-1] }

// isStructural is like walk.isStructural.
func (w *jsonWalk) isStructural() bool {
	return len(w.objects) == 1 || w.kind == "group" || w.kind == "task"
}

// means reports whether a word of a fault is the name of a lost field. The innermost object in which
// it has a meaning decides.
func (w *jsonWalk) means(word string) bool {
	for _, object := range slices.Backward(w.objects) {
		if w.lacks(object, word) {
			return true
		}
		if len(fieldValues(object, word)) > 0 {
			return false
		}
	}
	return false
}

// isLost reports whether a value is lost itself.
func (l *jsonLocator) isLost(value hcl.Expression) bool {
	return l.lost[value.Range().Start.Byte] != nil
}

// lacks reports whether a field of an object is lost that a block or an argument has.
func (l *jsonLocator) lacks(object hcl.Expression, name string) bool {
	return slices.ContainsFunc(l.lostFields(object), func(field string) bool { return isField(field, name) })
}

// lacksAny reports whether a field of an object is lost.
func (l *jsonLocator) lacksAny(object hcl.Expression) bool { return len(l.lostFields(object)) > 0 }

// lostFields returns the fields of an object that are lost, or of which an element is.
func (l *jsonLocator) lostFields(object hcl.Expression) (fields []string) {
	entries, _ := hcl.ExprMap(object)
	for _, e := range entries {
		name := constantText(e.Key)
		// Of a list, an element may be lost alone.
		for _, value := range elementsOf(e.Value) {
			fault := l.lost[value.Range().Start.Byte]
			if fault != nil && !fault.Empty && strings.EqualFold(fault.Lost, name) {
				fields = append(fields, name)
			}
		}

		for _, value := range []hcl.Expression{e.Key, e.Value} {
			fault := l.lost[value.Range().Start.Byte]
			if fault != nil {
				fields = append(fields, fault.Lost)
			}
		}
	}
	return fields
}

// elementsOf returns the elements of a list or a map.
func elementsOf(value hcl.Expression) []hcl.Expression {
	elements, _ := hcl.ExprList(value)
	entries, _ := hcl.ExprMap(value)
	for _, e := range entries {
		elements = append(elements, e.Value)
	}
	return elements
}

// lacksNeeded reports whether anything is lost, wherever it is, on which blocks of a kind depend: others, or
// their names.
func (l *jsonLocator) lacksNeeded(kind string) bool {
	needed := dependsOn[kind].blocks
	for _, fault := range l.lost {
		isIt := func(block string) bool { return isField(fault.Lost, block) }
		if len(needed) > 0 && (fault.Lost == "Name" || fault.Lost == "Label") ||
			slices.ContainsFunc(needed, isIt) {
			return true
		}
	}
	return false
}

// fieldValues returns the values of the fields of an object that a block or an argument has.
func fieldValues(object hcl.Expression, name string) (values []hcl.Expression) {
	entries, _ := hcl.ExprMap(object)
	for _, e := range entries {
		if isField(constantText(e.Key), name) {
			values = append(values, e.Value)
		}
	}
	return values
}

// isField reports whether a block or an argument has a field.
func isField(field, name string) bool {
	names := append([]string{strings.ReplaceAll(name, "_", "")}, fieldsOf[name]...)
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, field) })
}

// objectAt returns the object of a step, nil for none: an entry of a map by its key, an element of a list by
// its name or its number, or else the first one.
func objectAt(in hcl.Expression, s step) hcl.Expression {
	name := s.label()
	for _, value := range fieldValues(in, s.name) {
		elements, notList := hcl.ExprList(value)
		entries, notMap := hcl.ExprMap(value)
		switch {
		case notList.HasErrors() && s.quoted == "" && !notMap.HasErrors():
			return value
		case notList.HasErrors():
			for _, e := range entries {
				// The fault shows a long name cut, so the key is cut for the comparison.
				if structs.Cut(constantText(e.Key), structs.MaxQuoted) == name {
					return e.Value
				}
			}

		case s.quoted == "" && s.number >= 1 && s.number <= len(elements):
			return elements[s.number-1]
		case s.quoted != "":
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
	names := slices.Concat(fieldValues(object, "Name"), fieldValues(object, "Label"))
	isIt := func(v hcl.Expression) bool { return structs.Cut(constantText(v), structs.MaxQuoted) == name }
	return len(names) == 0 && name == "" || slices.ContainsFunc(names, isIt)
}

// constantText returns the text of a constant, "" for another value.
func constantText(e hcl.Expression) string {
	v, diags := e.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || v.IsNull() || !v.IsKnown() {
		return ""
	}
	return v.AsString()
}
