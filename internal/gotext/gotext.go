// Package gotext executes texts of Go's template language. The language is package text/template's, whose
// parser it uses. The one difference: a text calls the methods that a table has, and no others. Package
// text/template looks for a method of any value by the name in the text. A program that reaches this look-up
// keeps all exported methods of all its types (ADR 107).
package gotext

import (
	"io"
	"maps"
	"reflect"
	"slices"
	"text/template/parse"
)

// Functions has functions by their names in a text. A function returns one value, or a value and an error.
type Functions = map[string]any

// Methods has the methods of one type that a text may call. Each is a method expression such as
// time.Time.Format: a function whose first argument is the value.
type Methods struct {
	of        reflect.Type
	functions Functions
}

// MethodsOf returns the methods of type T. If T is an interface, all types that implement it have them.
func MethodsOf[T any](functions Functions) Methods {
	return Methods{reflect.TypeFor[T](), functions}
}

// Bounds bounds an execution. Its errors end the text.
type Bounds interface {
	// Step is called before each pass of a loop.
	Step() error
	// Enter is called at the beginning of each template, and Leave at its end, if it has no error.
	Enter() error
	Leave()
}

// Config is how texts are executed.
type Config struct {
	Functions Functions // beside Builtins; one with the name of a builtin takes its place
	Methods   []Methods // beside the methods of times, and String and Error
	// FailMissing: a key that a map does not have is an error. Otherwise it is the zero value of the map's
	// elements with ZeroMissing, and no value without.
	FailMissing bool
	ZeroMissing bool
	Bounds      Bounds // nil: none but maxDepth
}

// Set is a group of templates that execute one another. It does not change.
type Set struct {
	Config
	trees     map[string]*parse.Tree
	functions map[string]reflect.Value
}

// New returns a set of parsed templates, by their names.
func New(config Config, trees map[string]*parse.Tree) *Set {
	s := &Set{Config: config, trees: trees, functions: map[string]reflect.Value{}}
	for _, some := range []Functions{builtins, config.Functions} {
		for name, f := range some {
			s.functions[name] = reflect.ValueOf(f)
		}
	}

	s.Methods = slices.Concat(config.Methods, standardMethods)
	return s
}

// Parse parses a text and returns a set with it, by its name, and with the templates that it defines.
func Parse(name, text string, config Config) (*Set, error) {
	known := maps.Clone(builtins)
	for _, special := range []string{"and", "or", "call"} {
		known[special] = true // the parser only looks for the name
	}
	trees, err := parse.Parse(name, text, "", "", known, config.Functions)
	if err != nil {
		return nil, err
	}
	return New(config, trees), nil
}

// Execute writes the template with a name for a value. An error is an Error, or one of the writer; what was
// written before it stays.
func (s *Set) Execute(w io.Writer, name string, data any) error {
	x := &execution{Set: s, out: w}
	value := reflect.ValueOf(data)
	return x.template(name, value)
}

// maxDepth bounds the templates within one another: a stack beyond its bound ends the process.
const maxDepth = 10_000

// execution is one execution of a set.
type execution struct {
	*Set
	out   io.Writer
	depth int
}

// frame is the execution of one template.
type frame struct {
	*execution
	name      string
	tree      *parse.Tree
	variables []variable // the last one with a name is the one in scope
}

// variable is a variable of a text, with its dollar sign.
type variable struct {
	name  string
	value reflect.Value
}

// template executes a template. Its dot and its variable $ are the value.
func (x *execution) template(name string, dot reflect.Value) error {
	tree := x.trees[name]
	if tree == nil || tree.Root == nil {
		return &Error{Cause: faultf("template %q not defined", name)}
	}
	if x.depth == maxDepth {
		return &Error{Cause: faultf("template %q is more than %d levels deep", name, maxDepth)}
	}

	if x.Bounds != nil {
		err := x.Bounds.Enter()
		if err != nil {
			return err
		}
	}

	x.depth++
	f := &frame{
		execution: x,
		name:      name,
		tree:      tree,
		variables: []variable{{"$", dot}},
	}
	err := f.walk(dot, tree.Root)
	if err != nil {
		return err
	}

	x.depth--
	if x.Bounds != nil {
		x.Bounds.Leave()
	}
	return nil
}
