package jobspec

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/hcl/v2"
)

// TestReference_IsCurrent compares the reference of both file formats with the tags of the structs. -rewrite
// writes the reference.
func TestReference_IsCurrent(t *testing.T) {
	for _, c := range []struct {
		page, title, more string
		files             []reflect.Type
	}{
		{
			"job-file", "Job files", "docs/jobs.md describes variables, locals, functions and `dynamic` blocks.",
			[]reflect.Type{reflect.TypeFor[variableFile](), reflect.TypeFor[jobFile]()},
		},
		{
			"volume-file", "Volume files", "A volume file has constants only.",
			[]reflect.Type{reflect.TypeFor[volumeFile]()},
		},
	} {
		r := reference{seen: map[reflect.Type]bool{}}
		fmt.Fprintf(&r.text, "# %s\n\nThe arguments and blocks of a file. A map may also be written as a block.\n%s\n",
			c.title, c.more)
		for _, file := range c.files {
			r.describe("", file)
		}
		compareGolden(t, "../docs/reference/"+c.page+".md", []byte(r.text.String()))
	}
}

type reference struct {
	text strings.Builder
	seen map[reflect.Type]bool
}

// describe writes a section for a block, and then sections for the blocks in it.
func (r *reference) describe(name string, block reflect.Type) {
	if r.seen[block] {
		return
	}
	r.seen[block] = true
	var rows []string
	var inner []reflect.StructField
	for _, f := range reflect.VisibleFields(block) {
		argument, options, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		switch {
		case argument == "":
		case strings.Contains(options, "block"):
			inner = append(inner, f)
			rows = append(rows, fmt.Sprintf("| `%s` | %s |", blockSyntax(argument, f.Type), blockCount(f.Type)))
		default:
			required := ""
			if strings.Contains(options, "required") {
				required = "; required"
			}
			rows = append(rows, fmt.Sprintf("| `%s` | %s%s |", argument, typeText(f.Type), required))
		}
	}
	if name != "" {
		fmt.Fprintf(&r.text, "\n## %s\n", name)
	}
	fmt.Fprintf(&r.text, "\n| name | value |\n|---|---|\n%s\n", strings.Join(rows, "\n"))
	if d, ok := reflect.Zero(block).Interface().(interface{ Unsupported() string }); ok {
		names := strings.Fields(d.Unsupported())
		slices.Sort(names)
		fmt.Fprintf(&r.text, "\nRejected, because berth does not support it yet: `%s`.\n", strings.Join(names, "`, `"))
	}
	for _, f := range inner {
		argument, _, _ := strings.Cut(f.Tag.Get("hcl"), ",")
		r.describe(argument, structOf(f.Type))
	}
}

func structOf(t reflect.Type) reflect.Type {
	for t.Kind() != reflect.Struct {
		t = t.Elem()
	}
	return t
}

func blockSyntax(name string, t reflect.Type) string {
	labelled := t.Kind() == reflect.Map
	for _, f := range reflect.VisibleFields(structOf(t)) {
		labelled = labelled || f.Tag.Get("hcl") == ",label"
	}
	if labelled {
		return name + ` "name" { ... }`
	}
	return name + " { ... }"
}

func blockCount(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Slice:
		return "a block, any number"
	case reflect.Map:
		return "a block, any number with different names"
	}
	return "a block"
}

func typeText(t reflect.Type) string {
	if d, ok := reflect.New(t).Interface().(interface{ Expected() string }); ok {
		return d.Expected()
	}
	switch {
	case t == reflect.TypeFor[hcl.Expression]():
		return "an expression"
	case t == reflect.TypeFor[time.Duration]():
		return `a duration such as "30s"`
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return "a text"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeText(t.Elem())
	case reflect.Slice:
		return "a list: " + typeText(t.Elem())
	case reflect.Map:
		return "a map: " + typeText(t.Elem())
	case reflect.Interface:
		return "any value"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
