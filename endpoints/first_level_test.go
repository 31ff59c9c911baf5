package endpoints_test

import (
	"errors"
	"flag"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"berth/endpoints/endpointstest"
	"berth/fsm"
	"berth/internal/level"
	"berth/tools/codecgen"
)

var update = flag.Bool("update", false, "write the list of the first level if it is missing")

// firstLevel lists the commands and the fields of level 2, that of the first release. It stays as it is after
// that release.
const firstLevel = "testdata/level-2.txt"

// TestFirstLevel_IsThatOfTheListAlone: a command or a field of a request that is not in the list is newer
// than the first release, so it names its level. Otherwise a server of the first release would drop the
// field, or stop at the command.
func TestFirstLevel_IsThatOfTheListAlone(t *testing.T) {
	levels := declaredLevels(t)
	b, err := os.ReadFile(firstLevel)
	if *update && errors.Is(err, fs.ErrNotExist) {
		b = listFirstLevel(levels)
		err = os.WriteFile(firstLevel, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range levelFaults(levels, strings.Fields(string(b))) {
		t.Error(fault)
	}
}

// levelFaults compares the levels that are declared with the list of the first level.
func levelFaults(levels map[string]int, first []string) (faults []string) {
	for name, of := range levels {
		switch listed := slices.Contains(first, name); {
		case of > level.Now:
			faults = append(faults, name+" has a level above that of this version (level.Now)")
		case listed && of > level.First:
			faults = append(faults, name+" is in "+firstLevel+" and names a later level")
		case !listed && of <= level.First:
			faults = append(faults, name+" is not in "+firstLevel+" and names no level: give a field the tag `level:\"N\"`, and a command the option since(N) "+
				"(before level 2 is released: remove the file and run `make goldens`)")
		}
	}
	for _, name := range first {
		if _, ok := levels[name]; !ok {
			faults = append(faults, name+" is in "+firstLevel+" and gone: servers of level 2 have it")
		}
	}
	slices.Sort(faults)
	return faults
}

func TestLevelFaults_NamesEach(t *testing.T) {
	levels := map[string]int{"Old": 2, "Raised": 3, "New": 2, "Later": 99}
	faults := levelFaults(levels, []string{"Old", "Raised", "Gone"})
	var names []string
	for _, f := range faults {
		name, _, _ := strings.Cut(f, " ")
		names = append(names, name)
	}
	want := []string{"Gone", "Later", "New", "Raised"}
	if !slices.Equal(names, want) {
		t.Errorf("got the faults %q, want those of %q", faults, want)
	}
}

// listFirstLevel returns the names of the first level, one a line.
func listFirstLevel(levels map[string]int) []byte {
	var names []string
	for name, of := range levels {
		if of <= level.First {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return []byte(strings.Join(names, "\n") + "\n")
}

// declaredLevels returns the levels of all commands, and of all fields that a request or the payload of a
// command may have, at any depth.
func declaredLevels(t *testing.T) map[string]int {
	t.Helper()
	levels := map[string]int{}
	for _, c := range fsm.List() {
		levels["command:"+c.Name] = c.Level
		if c.Payload != nil {
			addFields(t, levels, reflect.TypeOf(c.Payload()))
		}
	}
	for _, e := range endpointstest.New(t).List() {
		addFields(t, levels, reflect.TypeOf(e.New()))
	}
	return levels
}

// addFields adds the levels of the fields of a type.
func addFields(t *testing.T, levels map[string]int, of reflect.Type) {
	t.Helper()
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		addFields(t, levels, of.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	for f := range of.Fields() {
		name := listedName(of) + "." + f.Name
		if _, seen := levels[name]; seen || !f.IsExported() {
			continue
		}
		levels[name] = level.First
		if tag, ok := f.Tag.Lookup("level"); ok {
			n, err := strconv.Atoi(tag)
			if err != nil || n <= level.First {
				t.Errorf("%s has the level %q", name, tag)
			}
			levels[name] = n
		}
		addFields(t, levels, f.Type)
	}
}

// listedName returns a type as the list has it: all wire types have the package structs there, in which the
// list was made.
func listedName(of reflect.Type) string {
	folder := strings.TrimPrefix(of.PkgPath(), "berth/")
	if slices.Contains(codecgen.WirePackages, folder) {
		return "structs." + of.Name()
	}
	return of.String()
}
