package conf

import "reflect"

// Field is an argument or a block of a file, as the tags of a struct type describe it.
type Field struct {
	Name     string       // in the file
	Go       string       // of the struct
	Block    reflect.Type // the struct type of a block, nil for an argument
	Required bool
}

// Fields returns the arguments and the blocks of a struct type, in its order. label is the Go name of the
// field that has the label, "" for none.
func Fields(t reflect.Type) (list []Field, label string) {
	s := specOf(t)
	for _, f := range s.fields {
		is := Field{Name: f.name, Go: t.FieldByIndex(f.index).Name, Required: f.required}
		if f.block {
			is.Block = f.elem()
		}
		list = append(list, is)
	}
	if s.label != nil {
		label = t.FieldByIndex(s.label).Name
	}
	return list, label
}
