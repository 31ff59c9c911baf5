package scheduler

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"berth/structs"
)

// setAny sets a field to a value that is not its zero value.
func setAny(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int, reflect.Int64:
		field.SetInt(1)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		setAny(field.Index(0))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.ValueOf("x"), reflect.Zero(field.Type().Elem()))
	default:
		panic(field.Type())
	}
}

// inPlace divides the fields of a group or task, by their names in job files, into those whose change leaves
// the allocations running and those whose change replaces them. version makes the two versions of a group.
func inPlace[T any](version func(*T) *structs.TaskGroup) (in, replaced []string) {
	job := &structs.Job{}
	for f := range reflect.TypeFor[T]().Fields() {
		if f.Name == "Name" || f.Name == "Tasks" {
			continue // they tell groups and tasks apart
		}
		var changed T
		setAny(reflect.ValueOf(&changed).Elem().FieldByIndex(f.Index))
		if sameRunSpec(job, version(new(T)), job, version(&changed)) {
			in = append(in, fileName(f.Name))
		} else {
			replaced = append(replaced, fileName(f.Name))
		}
	}
	slices.Sort(in)
	slices.Sort(replaced)
	return in, slices.Compact(replaced)
}

// fileName returns the name that a field has in a job file.
func fileName(field string) string {
	switch field {
	case "Affinities":
		return "affinity"
	case "CSIPluginConfig":
		return "csi_plugin"
	case "Identities":
		return "identity"
	case "LogConfig":
		return "logs"
	case "ReschedulePolicy", "RestartPolicy":
		field = strings.TrimSuffix(field, "Policy")
	case "Actions", "Artifacts", "Constraints", "Networks", "Services", "Spreads", "Templates", "VolumeMounts",
		"Volumes":
		field = strings.TrimSuffix(field, "s")
	}
	var name strings.Builder
	for i, r := range field {
		if unicode.IsUpper(r) && i > 0 {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToLower(r))
	}
	return name.String()
}

// The documentation lists the changes that replace no allocation, and those that do.
func TestSameRunSpec_IsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/operations/updates.md")
	if err != nil {
		t.Fatal(err)
	}
	groups, groupsReplaced := inPlace(func(g *structs.TaskGroup) *structs.TaskGroup { return g })
	tasks, tasksReplaced := inPlace(func(task *structs.Task) *structs.TaskGroup {
		return &structs.TaskGroup{Tasks: []*structs.Task{task}}
	})
	for row, want := range map[string][2][]string{
		"| runs on |":  {groups, tasks},
		"| replaced |": {groupsReplaced, tasksReplaced},
	} {
		_, after, _ := strings.Cut(string(text), "\n"+row)
		line, _, _ := strings.Cut(after, "\n")
		cells := strings.Split(line, "|")
		if len(cells) != 3 {
			t.Fatalf("the row %q has %d cells", row, len(cells))
		}
		for i, want := range want {
			var listed []string
			for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[i], -1) {
				listed = append(listed, name[1])
			}
			slices.Sort(listed)
			if !slices.Equal(listed, want) {
				t.Errorf("%s lists %q in column %d, want %q", row, listed, i+1, want)
			}
		}
	}
}
