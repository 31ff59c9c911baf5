package admit

import (
	"path"
	"reflect"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"

	"berth/structs"
)

// secretTypes are the types of fields that no expression sees.
var secretTypes = []reflect.Type{
	reflect.TypeFor[structs.Secret](),
	reflect.TypeFor[structs.Secrets](),
	reflect.TypeFor[*structs.Sealed](),
}

var durationPointer = reflect.TypeFor[*time.Duration]()

// structTypes teaches an environment the structs that the samples have in them. Expressions read these
// structs as they are, by reflection: no copy of them in another form is made (ADR 82).
func structTypes(samples ...reflect.Type) cel.EnvOption {
	return func(env *cel.Env) (*cel.Env, error) {
		args := []any{ext.ParseStructField(fieldName)}
		special := map[string]map[string]*types.FieldType{}
		for _, t := range samples {
			args = append(args, t)
			addSpecial(special, t)
		}

		env, err := ext.NativeTypes(args...)(env)
		if err != nil {
			return nil, err
		}
		return cel.CustomTypeProvider(&provider{
			Provider: env.CELTypeProvider(),
			special:  special,
		})(env)
	}
}

// fieldName returns the name that a field has in the JSON of the API, "" for a field that it has not, or that
// is a secret.
func fieldName(f reflect.StructField) string {
	if f.Anonymous {
		return "" // its own fields count
	}
	for _, t := range secretTypes {
		if f.Type == t {
			return ""
		}
	}

	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" {
		return f.Name
	}
	return strings.TrimPrefix(name, "-")
}

// provider adds the fields that the library leaves out, or has with another type at runtime.
type provider struct {
	types.Provider
	special map[string]map[string]*types.FieldType // by struct and field
}

// FindStructFieldType returns the type of a field.
func (p *provider) FindStructFieldType(structType, field string) (*types.FieldType, bool) {
	own, ok := p.special[structType][field]
	if ok {
		return own, true
	}
	return p.Provider.FindStructFieldType(structType, field)
}

// addSpecial adds the special fields of a type and of all types in it.
func addSpecial(known map[string]map[string]*types.FieldType, t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addSpecial(known, t.Elem())
		return
	case reflect.Struct:
	default:
		return
	}
	name := typeName(t)
	if known[name] != nil {
		return
	}

	known[name] = map[string]*types.FieldType{}
	for _, f := range reflect.VisibleFields(t) {
		if !f.IsExported() || fieldName(f) == "" {
			continue
		}
		if f.Type == durationPointer || holdsAny(f.Type) {
			known[name][fieldName(f)] = specialField(f)
		}
		addSpecial(known, f.Type)
	}
}

// typeName returns the name that the library gives to a struct.
func typeName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// holdsAny reports whether a type has values whose types are known at runtime only.
func holdsAny(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return holdsAny(t.Elem())
	}
	return false
}

func specialField(f reflect.StructField) *types.FieldType {
	at := func(object any) reflect.Value {
		v := reflect.Indirect(reflect.ValueOf(object))
		if !v.IsValid() {
			return reflect.Zero(f.Type)
		}
		return v.FieldByIndex(f.Index)
	}

	field := &types.FieldType{
		Type:  celType(f.Type),
		IsSet: func(object any) bool { return !at(object).IsZero() },
		GetFrom: func(object any) (any, error) {
			return at(object).Interface(), nil
		},
	}
	if f.Type == durationPointer {
		field.GetFrom = func(object any) (any, error) {
			d, _ := at(object).Interface().(*time.Duration)
			if d == nil {
				return time.Duration(0), nil
			}
			return *d, nil
		}
	}
	return field
}

// celType returns the type of a special field.
func celType(t reflect.Type) *types.Type {
	switch {
	case t == durationPointer:
		return types.DurationType
	case t.Kind() == reflect.Slice:
		return types.NewListType(celType(t.Elem()))
	case t.Kind() == reflect.Map:
		return types.NewMapType(types.StringType, celType(t.Elem()))
	}
	return types.DynType
}
