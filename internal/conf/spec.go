package conf

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
)

// structField is one tagged field of a struct.
type structField struct {
	name     string
	index    []int
	typ      reflect.Type
	block    bool
	required bool
	syntax   bool // in JSON, its string is the text of an expression
	// placeholders keeps each ${name} in the texts of an argument.
	placeholders bool
	content      bool // a block whose labels are elsewhere
}

// elem returns the struct type of a block field, also through pointers, slices and maps.
func (f *structField) elem() reflect.Type {
	t := f.typ
	for t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	return t
}

// labels returns the names of the block's labels: none or one.
func (f *structField) labels() []string {
	if !f.block || f.content {
		return nil
	}
	if f.typ.Kind() == reflect.Map ||
		specOf(f.elem()).label != nil {
		return []string{"name"}
	}
	return nil
}

// isMap reports whether a file may write the argument as a block.
func (f *structField) isMap() bool {
	return !f.block && f.typ.Kind() == reflect.Map
}

// spec holds the tags of one struct type.
type spec struct {
	fields      []*structField
	label       []int
	at          []int
	unsupported []string
	rejected    map[string]string // name -> what to do instead
	ignored     map[string]string // name -> why it has no effect
}

// find returns the field of a name, nil for a name that the struct does not have.
func (s *spec) find(name string) *structField {
	for _, f := range s.fields {
		if f.name == name {
			return f
		}
	}
	return nil
}

// names lists the arguments and blocks of the type, in the order of the struct.
func (s *spec) names() []string {
	var out []string
	for _, f := range s.fields {
		out = append(out, f.name)
	}
	return out
}

// schema returns the names by which JSON tells blocks from arguments.
func (s *spec) schema() *hcl.BodySchema {
	schema := &hcl.BodySchema{}
	for _, f := range s.fields {
		if f.block {
			schema.Blocks = append(schema.Blocks,
				hcl.BlockHeaderSchema{
					Type:       f.name,
					LabelNames: f.labels(),
				})
		} else {
			schema.Attributes = append(schema.Attributes,
				hcl.AttributeSchema{Name: f.name})
		}
	}
	return schema
}

// The tags of a type never change, so they are read once.
var specs sync.Map // reflect.Type -> *spec

func specOf(t reflect.Type) *spec {
	if s, ok := specs.Load(t); ok {
		return s.(*spec)
	}

	s := &spec{}
	zero := reflect.New(t).Interface()
	if dialect, ok := zero.(interface{ Unsupported() string }); ok {
		s.unsupported = strings.Fields(dialect.Unsupported())
	}

	if dialect, ok := zero.(interface{ Rejected() map[string]string }); ok {
		s.rejected = dialect.Rejected()
	}

	if dialect, ok := zero.(interface{ Ignored() map[string]string }); ok {
		s.ignored = dialect.Ignored()
	}

	for _, f := range reflect.VisibleFields(t) {
		if tag, tagged := f.Tag.Lookup("hcl"); tagged {
			s.addField(f, tag)
		}
	}

	specs.Store(t, s)
	return s
}

// addField reads the tag of a field. A tag that it does not know is a fault of the program.
func (s *spec) addField(f reflect.StructField, tag string) {
	name, options, _ := strings.Cut(tag, ",")
	added := &structField{
		name:  name,
		index: f.Index,
		typ:   f.Type,
	}

	for _, o := range strings.Split(options, ",") {
		switch o {
		case "label":
			s.label = f.Index
		case "range":
			s.at = f.Index
		case "block":
			added.block = true
		case "required":
			added.required = true
		case "syntax":
			added.syntax = true
		case "placeholders":
			added.placeholders = true
		case "":
		default:
			// The tags are constants of the program, so the first use in any test finds this.
			panic(fmt.Sprintf("conf: field %s: unknown tag option %q", f.Name, o))
		}
	}

	if name != "" {
		s.fields = append(s.fields, added)
	}
}
