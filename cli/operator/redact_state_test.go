package operator

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/internal/mvcc"
	"berth/state"
	"berth/state/schema"
	"berth/structs"
	"berth/structs/access"
)

// redactFiller fills rows: each text is a canary that names its field.
type redactFiller struct {
	t      *testing.T
	number int
}

// fill sets all fields of a value. field is the name of the one that has it.
func (f *redactFiller) fill(v reflect.Value, field string, depth int) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return
	}
	f.number++
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("c4n4ry.%s.%d.", field, f.number))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.number % 100))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(f.number % 100))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(1)
	case reflect.Pointer:
		if depth < 9 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), field, depth+1)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte("c4n4ry.bytes-of-" + field + ".0."))
		} else if depth < 9 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			f.fill(v.Index(0), field, depth+1)
		}
	case reflect.Map:
		if depth < 9 {
			key := reflect.New(v.Type().Key()).Elem()
			f.fill(key, "key-of-"+field, depth+1)
			value := reflect.New(v.Type().Elem()).Elem()
			f.fill(value, field, depth+1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(key, value)
		}
	case reflect.Interface:
		v.Set(reflect.ValueOf("c4n4ry.anything-of-" + field + ".0."))
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), v.Type().Field(i).Name, depth)
			}
		}
	}
}

// rowType returns the type of the rows of a table.
func rowType(t mvcc.AnyTable) reflect.Type {
	put, _ := reflect.TypeOf(t).MethodByName("Put")
	return put.Type.In(2).Elem()
}

// saveFilled saves a state with a row, or several, in each table.
func saveFilled(t *testing.T, rows int) (*state.Store, []byte) {
	t.Helper()
	f := &redactFiller{t: t}
	store := state.New()
	err := store.Write(7, func(tx *state.WriteTx) error {
		for _, table := range schema.Tables() {
			for range rows {
				if table.IsComputed() {
					continue
				}
				row := reflect.New(rowType(table))
				f.fill(row.Elem(), "", 0)
				put := reflect.ValueOf(table).MethodByName("Put")
				put.Call([]reflect.Value{reflect.ValueOf(tx), row})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	err = store.Save(&saved)
	if err != nil {
		t.Fatal(err)
	}
	return store, saved.Bytes()
}

func redactedState(t *testing.T, saved []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	err := redactSaved(bytes.NewReader(saved), &out)
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tableLength returns the number of the rows of a table.
func tableLength(t mvcc.AnyTable, tx *state.ReadTx) int {
	return int(reflect.ValueOf(t).MethodByName("Len").Call([]reflect.Value{reflect.ValueOf(tx)})[0].Int())
}

// Each row of the tables that stay is there, under its key, and loads. The others are gone.
func TestRedact_KeepsTheRowsOfItsTables(t *testing.T) {
	store, saved := saveFilled(t, 3)
	left := state.New()
	err := left.Load(bytes.NewReader(redactedState(t, saved)))
	if err != nil {
		t.Fatal(err)
	}
	if left.Index() != store.Index() {
		t.Errorf("the state has the index %d, want %d", left.Index(), store.Index())
	}
	for _, table := range schema.Tables() {
		want := 0
		if slices.Contains(redactedTables, table) {
			want = tableLength(table, store.Read())
			if want == 0 {
				t.Errorf("%s has no row", table.Name())
			}
		}
		if got := tableLength(table, left.Read()); got != want && !table.IsComputed() {
			t.Errorf("%s has %d rows, want %d", table.Name(), got, want)
		}
	}
	for n := range schema.Nodes.Scan(left.Read()) {
		before := schema.Nodes.Get(store.Read(), n.ID)
		if before == nil || n.SecretID != "" || n.Meta != nil || n.Status != before.Status ||
			n.ModifyIndex != before.ModifyIndex || len(n.Attributes) != 1 || n.NodeResources == nil ||
			n.NodeResources.Memory != before.NodeResources.Memory {
			t.Errorf("the node is %+v, before %+v", n, before)
		}
	}
	for j := range schema.Jobs.Scan(left.Read()) {
		task := j.TaskGroups[0].Tasks[0]
		if task.Name == "" || task.Driver == "" || task.Resources == nil || len(j.Constraints) != 1 ||
			task.Env != nil || task.Config != nil || task.Templates != nil || task.Artifacts != nil || j.Meta != nil ||
			j.Payload != nil {
			t.Errorf("the job is %+v with the task %+v", j, task)
		}
	}
}

// Each text that is left is of a field that a list names.
func TestRedact_LeavesNoTextThatNoListNames(t *testing.T) {
	_, saved := saveFilled(t, 1)
	canary := regexp.MustCompile(`c4n4ry\.([A-Za-z-]*)\.`)
	found := map[string]bool{}
	for _, m := range canary.FindAllSubmatch(redactedState(t, saved), -1) {
		found[string(m[1])] = true
	}
	for field := range found {
		of, isKey := strings.CutPrefix(field, "key-of-")
		if isKey && !keptByKey[of] || !isKey && !keptNames[field] && !keptByKey[field] {
			t.Errorf("a text of %s is left", field)
		}
	}
	if len(found) < 50 {
		t.Errorf("texts of %d fields are left, want those of the lists", len(found))
	}

	whole := map[string]bool{}
	for _, m := range canary.FindAllSubmatch(saved, -1) {
		whole[string(m[1])] = true
	}
	for _, secret := range []string{
		"SecretID", "key-of-Secrets", "bytes-of-Data", "bytes-of-Hash", "bytes-of-KeyHash", "Env",
		"anything-of-Config", "EmbeddedTmpl", "GetterSource", "GetterHeaders", "bytes-of-Payload", "Meta",
		"Parameters", "Context", "MountFlags", "Tags", "Args", "Header", "Message", "Description", "Rules",
	} {
		if !whole[secret] || found[secret] {
			t.Errorf("%s is in the state: %t; it is left: %t", secret, whole[secret], found[secret])
		}
	}
}

// plainMaps are the maps of texts whose keys a list names.
var plainMaps = []string{"Attributes", "Segments"}

// The lists reach no type of secrets, no bytes and no map of free texts. A new field with the name of another
// one could.
func TestRedactLists_ReachNoSecrets(t *testing.T) {
	secrets := []reflect.Type{
		reflect.TypeFor[structs.Secret](), reflect.TypeFor[structs.Secrets](), reflect.TypeFor[structs.Sealed](),
		reflect.TypeFor[access.Secret](), reflect.TypeFor[[]byte](),
	}
	seen := map[reflect.Type]bool{}
	var walk func(ty reflect.Type, path string)
	walk = func(ty reflect.Type, path string) {
		field := path[strings.LastIndex(path, ".")+1:]
		switch {
		case slices.Contains(secrets, ty), ty.Kind() == reflect.Interface:
			t.Errorf("the lists name %s, a %s", path, ty)
		case ty.Kind() == reflect.Map && !keptByKey[field]:
			t.Errorf("the lists name %s, a %s", path, ty)
		case ty.Kind() == reflect.Map && ty.Elem().Kind() == reflect.String && !slices.Contains(plainMaps, field):
			t.Errorf("the lists name %s, a %s", path, ty)
		case ty.Kind() == reflect.Pointer, ty.Kind() == reflect.Slice, ty.Kind() == reflect.Map:
			walk(ty.Elem(), path)
		case ty.Kind() == reflect.Struct && !seen[ty] && ty != reflect.TypeFor[time.Time]():
			seen[ty] = true
			for i := range ty.NumField() {
				f := ty.Field(i)
				if f.IsExported() && f.Tag.Get("codec") != "-" && (keptNames[f.Name] || keptByKey[f.Name]) {
					walk(f.Type, path+"."+f.Name)
				}
			}
		}
	}
	for _, table := range redactedTables {
		walk(rowType(table), table.Name())
	}
	if len(seen) < 40 {
		t.Errorf("%d types are reached", len(seen))
	}
}

func TestRedact_RejectsOtherFiles(t *testing.T) {
	_, saved := saveFilled(t, 1)
	for name, file := range map[string][]byte{
		"empty":   nil,
		"a text":  []byte("berth\n"),
		"cut off": saved[:len(saved)/2],
	} {
		err := redactSaved(bytes.NewReader(file), new(bytes.Buffer))
		if !structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// fullDisk is a writer without space after some bytes.
type fullDisk int

func (d *fullDisk) Write(b []byte) (int, error) {
	*d -= fullDisk(len(b))
	if *d < 0 {
		return 0, unix.ENOSPC
	}
	return len(b), nil
}

func TestRedact_TellsAFullDiskFromADamagedState(t *testing.T) {
	_, saved := saveFilled(t, 1)
	for _, space := range []int{0, 100} {
		disk := fullDisk(space)
		err := redactSaved(bytes.NewReader(saved), &disk)
		if !errors.Is(err, unix.ENOSPC) || structs.IsKind(err, structs.KindInvalid) {
			t.Errorf("with space for %d bytes: got %v", space, err)
		}
	}
}
