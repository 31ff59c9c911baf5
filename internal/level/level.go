// Package level has the level of this version, and finds the fields of a value that need one. Servers and
// nodes of several versions run side by side during an upgrade, and an older one drops a field that it does
// not know. So servers and nodes tell their levels, files carry them, and newer commands and fields name the
// level that they need (ADR 52). It is apart: servers, nodes and files of the log have levels.
package level

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth/structs"
)

// Now is the level of this version. A version with a command or a field that an older server or agent must
// not drop has the next one.
const Now = 2

// First is the level of the first release: of all commands and fields that name none. Files, servers and
// nodes of level 1 are from before it, and are rejected.
const First = 2

// Part is a field that is set and needs a level.
type Part struct {
	Path  string // the names of the fields that lead to it, for example Job.TaskGroups.Name
	Level int
	Value any
}

// Above lists the fields of a value that are set and need a level above n. A field names its level in its
// tag, for example `level:"3"`.
func Above(v any, n int) []Part {
	w := walk{above: n}
	w.visit(reflect.ValueOf(v), "")
	return w.parts
}

// Newest returns the first of the parts with the highest level, and the zero value for none.
func Newest(parts []Part) (newest Part) {
	for _, p := range parts {
		if p.Level > newest.Level {
			newest = p
		}
	}
	return newest
}

// Check returns an error, of kind precondition, if a request or the payload of a command has a field that a
// server of the least level among all servers would drop.
func Check(v any, least int) error { return missing(Above(v, least), least) }

// Fit makes a request one that a server of the least level among all servers knows: it empties the newer
// fields that name a level and may be dropped: `level:"3" older:"drop"`. Without them the request says less
// and stays right. For other fields the error is as in Check.
func Fit(v any, least int) error {
	w := walk{above: least, drops: true}
	w.visit(reflect.ValueOf(v), "")
	return missing(w.parts, least)
}

// missing returns the error for the newest of the parts, nil for none.
func missing(parts []Part, least int) error {
	newest := Newest(parts)
	if newest.Level == 0 {
		return nil
	}
	return Missing(newest.Path, newest.Level, least)
}

// Missing returns the error for a command or a field that a server of the least level does not know.
func Missing(what string, needs, least int) error {
	return structs.Preconditionf("%s needs level %d, and a server of the cluster has level %d: "+
		"upgrade the servers, or remove one that is gone: berth server force-leave NAME", what, needs, least)
}

// walk collects the parts of a value.
type walk struct {
	above int
	drops bool // empties fields that may be dropped
	parts []Part
}

func (w *walk) visit(v reflect.Value, path string) {
	if !v.IsValid() || highest(v.Type()) <= w.above {
		return
	}

	switch v.Kind() {
	case reflect.Pointer:
		w.visit(v.Elem(), path)
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.visit(v.Index(i), path)
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			w.visit(v.MapIndex(key), path)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			w.visitField(v.Type().Field(i), v.Field(i), path)
		}
	}
}

func (w *walk) visitField(f reflect.StructField, v reflect.Value, path string) {
	if !f.IsExported() || !isSet(v) {
		return
	}

	if !f.Anonymous {
		path = strings.TrimPrefix(path+"."+f.Name, ".")
	}

	of := levelOf(f)
	if of > w.above && w.drops && f.Tag.Get("older") == "drop" {
		v.SetZero()
		return
	}

	if of > w.above {
		w.parts = append(w.parts, Part{
			Path:  path,
			Level: of,
			Value: v.Interface(),
		})
	}

	w.visit(v, path)
}

// isSet reports whether a field has a value. An empty list is none.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	}
	return !v.IsZero()
}

// sortedKeys returns the keys of a map in an order that does not change.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return keys
}

// levelOf returns the level that a field names, 0 for none.
func levelOf(f reflect.StructField) int {
	n, _ := strconv.Atoi(f.Tag.Get("level"))
	return n
}

// highestLevels has the results of highest, by type.
var highestLevels sync.Map

// Highest returns the highest level that a field of the type of v names, at any depth, 0 for none. Values of
// interfaces have no fields with levels.
func Highest(v any) int { return highest(reflect.TypeOf(v)) }

func highest(t reflect.Type) int {
	known, ok := highestLevels.Load(t)
	if ok {
		return known.(int)
	}
	n := highestBelow(t, map[reflect.Type]bool{})
	highestLevels.Store(t, n)
	return n
}

// highestBelow is highest without the types that were seen: a type may contain itself.
func highestBelow(t reflect.Type, seen map[reflect.Type]bool) (n int) {
	if seen[t] {
		return 0
	}

	seen[t] = true
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return highestBelow(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			n = max(n, levelOf(f), highestBelow(f.Type, seen))
		}
	}

	return n
}
