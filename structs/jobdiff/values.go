package jobdiff

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/structs"
)

// differ compares values of one type. It reads their fields by reflection, so a field that is added to a
// struct takes part without another line.
type differ struct {
	context bool // with the equal fields of objects that differ
}

// notCompared has the fields that take no part: the servers own them, or they have a place of their own in
// the result.
var notCompared = map[reflect.Type][]string{
	reflect.TypeFor[structs.Job](): {
		"ID", "TaskGroups", "Status", "StatusDescription", "Stable", "Version", "SubmitTime", "EndTime",
		"JobModifyIndex",
		"VersionTag", "ParentID", "Dispatched", "Payload", "DispatchIdempotencyToken",
	},
	reflect.TypeFor[structs.TaskGroup](): {"Name", "Tasks"},
	reflect.TypeFor[structs.Task]():      {"Name"},
	reflect.TypeFor[structs.Indexes]():   {"CreateIndex", "ModifyIndex"},
}

// diffNames has the names of objects in lists that are not their list's name in the singular.
var diffNames = map[string]string{
	"ReservedPorts": "Static Port",
	"DynamicPorts":  "Dynamic Port",

	"EnvoyGatewayBindAddresses": "EnvoyGatewayBindAddress",
}

// mountFlags is the list whose values may be secrets (see CSIMountOptions.Redacted).
const mountFlags = "MountFlags"

var spanType = reflect.TypeFor[time.Duration]()

// identities are the fields that tell the objects of a list apart.
var identities = []string{"Name", "Label", "DestinationName", "Path", "DestPath"}

// diffParts collects the differences of the parts of one object.
type diffParts struct {
	fields  []*structs.FieldDiff
	objects []*structs.ObjectDiff
}

// compare compares two structs. Either may be nil.
func (d differ) compare(old, now any) ([]*structs.FieldDiff, []*structs.ObjectDiff) {
	parts := &diffParts{}
	d.structs(parts, target(reflect.ValueOf(old)), target(reflect.ValueOf(now)))
	byName := func(a, b *structs.FieldDiff) int { return cmp.Compare(a.Name, b.Name) }

	// The result does not depend on the order of the fields in the type. Fields of one name, as in a list, keep
	// their order.
	slices.SortStableFunc(parts.fields, byName)
	slices.SortStableFunc(parts.objects, func(a, b *structs.ObjectDiff) int {
		return cmp.Compare(a.Name, b.Name)
	})

	return parts.fields, parts.objects
}

// part compares a job, a group or a task with its earlier version, without their equal fields.
func (d differ) part(old, now any) ([]*structs.FieldDiff, []*structs.ObjectDiff) {
	fields, objects := d.compare(old, now)
	fields = slices.DeleteFunc(fields, func(f *structs.FieldDiff) bool { return f.Type == structs.DiffNone })
	return fields, objects
}

// target returns the value behind pointers and interfaces, an invalid one behind nil.
func target(v reflect.Value) reflect.Value {
	// Values of any kind are interfaces, and optional ones are pointers.
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	return v
}

// present returns the one of two values that is valid, or an invalid one.
func present(a, b reflect.Value) reflect.Value {
	if a.IsValid() {
		return a
	}
	return b
}

// structs compares the fields of two structs of one type. An absent one is invalid.
func (d differ) structs(parts *diffParts, old, now reflect.Value) {
	either := present(old, now)
	if !either.IsValid() {
		return
	}

	skipped := notCompared[either.Type()]
	for i := range either.NumField() {
		f := either.Type().Field(i)
		if !f.IsExported() || slices.Contains(skipped, f.Name) {
			continue
		}

		if either.Field(i).IsZero() && old.IsValid() != now.IsValid() {
			continue // a new or deleted object is described by the values that it has
		}

		o := fieldOf(old, i)
		n := fieldOf(now, i)

		// The fields of an embedded struct belong to the outer one, as in JSON.
		if f.Anonymous {
			d.structs(parts, o, n)
			continue
		}

		d.values(parts, f.Name, o, n)
	}
}

// fieldOf returns a field of a struct, or an invalid value if there is no struct.
func fieldOf(v reflect.Value, i int) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return target(v.Field(i))
}

// values compares two values under a name. An absent one is invalid.
func (d differ) values(parts *diffParts, name string, old, now reflect.Value) {
	either := present(old, now)
	if !either.IsValid() {
		return
	}

	switch either.Kind() {
	case reflect.Struct:
		d.object(parts, name, old, now)
	case reflect.Map:
		d.maps(parts, name, old, now)
	case reflect.Slice:
		d.lists(parts, name, old, now)
	default:
		f := d.field(parts, name, diffText(old), diffText(now))
		if f != nil && f.Type != structs.DiffNone {
			f.Annotations = spanNotes(old, now)
		}
	}
}

// field adds the difference of two texts and returns it, or returns nil if it is not shown.
func (d differ) field(parts *diffParts, name, old, now string) *structs.FieldDiff {
	// "" stands for an absent value, so a text that becomes empty counts as deleted.
	kind := diffType(old != "", now != "", old != now)
	if kind == structs.DiffNone && !d.context {
		return nil
	}

	f := &structs.FieldDiff{
		Type: kind,
		Name: name,
		Old:  old,
		New:  now,
	}

	parts.fields = append(parts.fields, f)
	return f
}

// spanNotes returns a note with the readable form of two durations, because their texts are nanoseconds. It
// returns none for other values.
func spanNotes(old, now reflect.Value) []string {
	var texts []string
	for _, v := range []reflect.Value{old, now} {
		if v.IsValid() && v.Type() == spanType {
			texts = append(texts, v.Interface().(time.Duration).String())
		}
	}

	// Equal durations, as with context, need one text.
	texts = slices.Compact(texts)
	if len(texts) == 0 {
		return nil
	}

	return []string{strings.Join(texts, " => ")}
}

// object adds the difference of two structs.
func (d differ) object(parts *diffParts, name string, old, now reflect.Value) {
	fields, objects := d.compare(valueOrNil(old), valueOrNil(now))
	changed := changedParts(fields, objects)
	d.add(parts, &structs.ObjectDiff{
		Type:    diffType(old.IsValid(), now.IsValid(), changed),
		Name:    name,
		Fields:  fields,
		Objects: objects,
	})
}

// valueOrNil returns the value for compare, which takes nil for an absent one.
func valueOrNil(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	return v.Interface()
}

// add adds an object, if it shows anything.
func (d differ) add(parts *diffParts, o *structs.ObjectDiff) {
	// An object that came or went is shown also without fields.
	if o.Type == structs.DiffNone ||
		len(o.Fields)+len(o.Objects) == 0 && o.Type != structs.DiffAdded && o.Type != structs.DiffDeleted {
		return
	}
	parts.objects = append(parts.objects, o)
}

// maps compares two maps: of objects by their keys, of texts as fields "Name[key]", and of values of any kind
// as one object with all that they hold.
func (d differ) maps(parts *diffParts, name string, old, now reflect.Value) {
	element := present(old, now).Type().Elem()
	if element.Kind() == reflect.Interface {
		d.trees(parts, name, old, now)
		return
	}

	o := entriesOf(old)
	n := entriesOf(now)

	// An entry may be in one of the maps only.
	keys := maps.Clone(o)
	maps.Copy(keys, n)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if target(keys[key]).Kind() == reflect.Struct {
			d.object(parts, singular(name), target(o[key]), target(n[key]))
			continue
		}

		d.values(parts, fmt.Sprintf("%s[%s]", name, key), target(o[key]), target(n[key]))
	}
}

// entriesOf returns the entries of a map by the texts of their keys.
func entriesOf(m reflect.Value) map[string]reflect.Value {
	entries := map[string]reflect.Value{}
	if !m.IsValid() {
		return entries
	}
	for key, value := range m.Seq2() {
		entries[key.String()] = value
	}
	return entries
}

// trees compares two maps of values of any kind, for example the configs of a driver.
func (d differ) trees(parts *diffParts, name string, old, now reflect.Value) {
	o := map[string]string{}
	n := map[string]string{}
	flatten(o, "", old)
	flatten(n, "", now)

	// Paths of both sides make one object, because their nesting may differ from version to version.
	inner := &diffParts{}
	keys := maps.Clone(o)
	maps.Copy(keys, n)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		d.field(inner, key, o[key], n[key])
	}

	d.add(parts, &structs.ObjectDiff{
		Type:   diffType(len(o) > 0, len(n) > 0, changedParts(inner.fields, nil)),
		Name:   name,
		Fields: inner.fields,
	})
}

// flatten adds all values within a value under their paths: a[0], b[key].
func flatten(out map[string]string, path string, v reflect.Value) {
	v = target(v)
	switch {
	case !v.IsValid():
	case v.Kind() == reflect.Map:
		for key, value := range v.Seq2() {
			inner := fmt.Sprintf("%s[%v]", path, key)
			if path == "" {
				inner = fmt.Sprint(key)
			}

			flatten(out, inner, value)
		}

	// Bytes are one value, and not a list of numbers.
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			flatten(out, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	default:
		out[path] = fmt.Sprint(v.Interface())
	}
}

// lists compares two lists: of objects by their names if they have any, else as sets.
func (d differ) lists(parts *diffParts, name string, old, now reflect.Value) {
	element := present(old, now).Type().Elem()
	for element.Kind() == reflect.Pointer {
		element = element.Elem()
	}

	switch {
	case element.Kind() == reflect.Struct:
		d.objectLists(parts, singular(name), elementsOf(old), elementsOf(now))
	case element.Kind() != reflect.Uint8:
		d.textLists(parts, name, textsOf(old), textsOf(now))
	}
}

// elementsOf returns the objects of a list without the empty ones. A list that is absent has none.
func elementsOf(list reflect.Value) (all []reflect.Value) {
	if !list.IsValid() {
		return nil
	}
	for i := range list.Len() {
		if v := target(list.Index(i)); v.IsValid() {
			all = append(all, v)
		}
	}
	return all
}

// objectLists pairs the objects with the same identity, then the equal ones. The others came or went.
func (d differ) objectLists(parts *diffParts, name string, old, now []reflect.Value) {
	var left []reflect.Value
	for _, n := range now {
		at := slices.IndexFunc(old, func(o reflect.Value) bool { return sameObject(o, n) })
		if at < 0 {
			left = append(left, n)
			continue
		}

		d.object(parts, name, old[at], n)

		// A clone, because the caller's list must stay as it is.
		old = slices.Delete(slices.Clone(old), at, at+1)
	}

	for _, n := range left {
		d.object(parts, name, reflect.Value{}, n)
	}

	for _, o := range old {
		d.object(parts, name, o, reflect.Value{})
	}
}

// sameObject reports whether two objects of a list are one before and after a change. The first field of
// identities that an object has decides, and objects without any are compared whole.
func sameObject(a, b reflect.Value) bool {
	for _, field := range identities {
		f := a.FieldByName(field)
		if f.IsValid() && f.Kind() == reflect.String && f.String() != "" {
			return f.String() == b.FieldByName(field).String()
		}
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// textLists compares two lists of texts as sets, and by position if only the order differs.
func (d differ) textLists(parts *diffParts, name string, old, now []string) {
	inner := &diffParts{}
	sortedOld := slices.Sorted(slices.Values(old))
	sortedNow := slices.Sorted(slices.Values(now))
	switch {
	// A text that came or went is shown alone, and does not move those behind it.
	case slices.Equal(old, now), !slices.Equal(sortedOld, sortedNow):
		d.textSets(inner, name, old, now)
	default:
		for i := range old {
			d.field(inner, fmt.Sprintf("%s[%d]", name, i), old[i], now[i])
		}
	}

	// The diff is shown to users who may not see the flags of a volume.
	if name == mountFlags {
		redactFields(inner.fields)
	}

	d.add(parts, &structs.ObjectDiff{
		Type:   diffType(len(old) > 0, len(now) > 0, changedParts(inner.fields, nil)),
		Name:   name,
		Fields: inner.fields,
	})
}

// textSets shows the texts that came or went. A text that is there twice counts twice.
func (d differ) textSets(parts *diffParts, name string, old, now []string) {
	gone := slices.Clone(old)
	for _, text := range now {
		at := slices.Index(gone, text)
		if at < 0 {
			d.field(parts, name, "", text)
			continue
		}

		d.field(parts, name, text, text)
		gone = slices.Delete(gone, at, at+1)
	}

	for _, text := range gone {
		d.field(parts, name, text, "")
	}
}

// textsOf returns the texts of a list.
func textsOf(list reflect.Value) (texts []string) {
	if !list.IsValid() {
		return nil
	}
	for i := range list.Len() {
		texts = append(texts, diffText(target(list.Index(i))))
	}
	return texts
}

// redactFields replaces the values of fields.
func redactFields(fields []*structs.FieldDiff) {
	for _, f := range fields {
		for _, text := range []*string{&f.Old, &f.New} {
			if *text != "" {
				*text = structs.RedactedFlag
			}
		}
	}
}

// diffText returns the text of a simple value, "" for an absent one. That of a duration is its nanoseconds.
func diffText(v reflect.Value) string {
	switch {
	case !v.IsValid():
		return ""
	case v.Type() == spanType:
		return strconv.FormatInt(v.Int(), 10)
	}
	return fmt.Sprint(v.Interface())
}

// singular returns the name of one object of a list.
func singular(list string) string {
	if name := diffNames[list]; name != "" {
		return name
	}
	if stem, ok := strings.CutSuffix(list, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(list, "s")
}
