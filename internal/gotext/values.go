package gotext

import (
	"reflect"
	"strings"
	"text/template/parse"
)

// arguments are the arguments of a function or a method.
type arguments struct {
	nodes []parse.Node
	piped bool          // there is one more:
	last  reflect.Value // the value of the command before in the pipe
}

func (a arguments) count() int {
	if a.piped {
		return len(a.nodes) + 1
	}
	return len(a.nodes)
}

// pipe evaluates a pipe: each command has the value of the one before as its last argument. The value is not
// valid if there is none. Variables of the pipe get the value.
func (f *frame) pipe(dot reflect.Value, p *parse.PipeNode) (value reflect.Value, err error) {
	if p == nil {
		return reflect.Value{}, nil
	}

	for i, c := range p.Cmds {
		value, err = f.command(dot, c, arguments{c.Args[1:], i > 0, value})
		if err != nil {
			return reflect.Value{}, err
		}
		// A value that may be of any type has its own one from here on.
		if value.Kind() == reflect.Interface && value.NumMethod() == 0 {
			value = value.Elem()
		}
	}

	for _, v := range p.Decl {
		switch {
		case !p.IsAssign:
			f.variables = append(f.variables, variable{v.Ident[0], value})
		case !f.set(v.Ident[0], value):
			return value, f.fail(v, "undefined variable: %s", v)
		}
	}
	return value, nil
}

// command evaluates one command of a pipe.
func (f *frame) command(dot reflect.Value, c *parse.CommandNode, args arguments) (reflect.Value, error) {
	switch n := c.Args[0].(type) {
	case *parse.FieldNode:
		return f.fields(dot, dot, fieldPath{n, n.Ident, args})
	case *parse.ChainNode:
		return f.chain(dot, n, args)
	case *parse.VariableNode:
		return f.variable(dot, n, args)
	case *parse.IdentifierNode:
		return f.function(dot, n, args)
	case *parse.NilNode:
		return reflect.Value{}, f.fail(n, "nil is not a command")
	}

	first := c.Args[0]
	if args.count() > 0 {
		return reflect.Value{}, f.fail(first, "can't give argument to non-function %s", first)
	}
	return f.value(dot, first)
}

// value evaluates an argument, or a command without arguments, to a value of its own type.
func (f *frame) value(dot reflect.Value, node parse.Node) (reflect.Value, error) {
	switch n := node.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.BoolNode:
		return reflect.ValueOf(n.True), nil
	case *parse.StringNode:
		return reflect.ValueOf(n.Text), nil
	case *parse.NumberNode:
		return f.number(n)
	case *parse.PipeNode:
		return f.pipe(dot, n)
	case *parse.FieldNode:
		return f.fields(dot, dot, fieldPath{node: n, names: n.Ident})
	case *parse.ChainNode:
		return f.chain(dot, n, arguments{})
	case *parse.VariableNode:
		return f.variable(dot, n, arguments{})
	case *parse.IdentifierNode:
		return f.function(dot, n, arguments{})
	case *parse.NilNode:
		return reflect.Value{}, nil
	}
	return reflect.Value{}, f.fail(node, "can't handle %s", node)
}

// number returns a number as Go would without a type: a whole one as an int.
func (f *frame) number(n *parse.NumberNode) (reflect.Value, error) {
	isHex := len(n.Text) > 2 && strings.EqualFold(n.Text[:2], "0x")
	isChar := n.Text[0] == '\'' // which may be an 'e'
	broken := strings.ContainsAny(n.Text, ".pP") || !isHex && strings.ContainsAny(n.Text, "eE")
	switch {
	case n.IsComplex && strings.HasSuffix(n.Text, "i"):
		return reflect.ValueOf(n.Complex128), nil
	case n.IsFloat && broken && !isChar:
		return reflect.ValueOf(n.Float64), nil
	case n.IsInt:
		return reflect.ValueOf(int(n.Int64)), nil
	case n.IsUint:
		return reflect.Value{}, f.fail(n, "%s overflows int", n.Text)
	case n.IsFloat:
		return reflect.ValueOf(n.Float64), nil
	}
	return reflect.Value{}, f.fail(n, "%s is not a number", n.Text)
}

// chain evaluates fields behind a value in parentheses, or behind the result of a function.
func (f *frame) chain(dot reflect.Value, n *parse.ChainNode, args arguments) (reflect.Value, error) {
	if len(n.Field) == 0 {
		return reflect.Value{}, f.fail(n, "a chain without fields")
	}
	if n.Node.Type() == parse.NodeNil {
		return reflect.Value{}, f.fail(n, "indirection through explicit nil in %s", n)
	}

	value, err := f.value(dot, n.Node)
	if err != nil {
		return reflect.Value{}, err
	}
	return f.fields(dot, value, fieldPath{n, n.Field, args})
}

// variable evaluates a variable and the fields behind it.
func (f *frame) variable(dot reflect.Value, n *parse.VariableNode, args arguments) (reflect.Value, error) {
	value, ok := f.get(n.Ident[0])
	if !ok {
		return reflect.Value{}, f.fail(n, "undefined variable: %s", n.Ident[0])
	}
	if len(n.Ident) > 1 {
		return f.fields(dot, value, fieldPath{n, n.Ident[1:], args})
	}
	if args.count() > 0 {
		return reflect.Value{}, f.fail(n, "can't give argument to non-function %s", n)
	}
	return value, nil
}

// fieldPath is a path of fields, such as .A.B, and the arguments of a method at its end.
type fieldPath struct {
	node  parse.Node
	names []string
	args  arguments
}

// fields evaluates a path of fields of a value.
func (f *frame) fields(dot, value reflect.Value, path fieldPath) (_ reflect.Value, err error) {
	last := len(path.names) - 1
	for i, name := range path.names {
		args := arguments{}
		if i == last {
			args = path.args
		}

		value, err = f.field(dot, value, fieldPath{path.node, []string{name}, args})
		if err != nil {
			return reflect.Value{}, err
		}
	}
	return value, nil
}

// field evaluates the method, the field or the key of a map with a name.
func (f *frame) field(dot, value reflect.Value, path fieldPath) (reflect.Value, error) {
	name := path.names[0]
	if !value.IsValid() {
		if f.FailMissing {
			return reflect.Value{}, f.fail(path.node, "nil data; no entry for key %q", name)
		}
		return reflect.Value{}, nil
	}

	inner, isNil := indirect(value)
	t := value.Type()
	if value.Kind() == reflect.Interface && !value.IsNil() {
		t = value.Elem().Type()
	}
	if inner.Kind() == reflect.Interface && isNil {
		return reflect.Value{}, f.fail(path.node, "nil pointer evaluating %s.%s", t, name)
	}
	method, receiver := f.method(value, inner, name)
	if method.IsValid() {
		return f.call(dot, path.node, callee{name, method, receiver}, path.args)
	}

	hasArgs := path.args.count() > 0
	switch inner.Kind() {
	case reflect.Struct:
		found, ok := inner.Type().FieldByName(name)
		switch {
		case !ok:
		case !found.IsExported():
			return reflect.Value{}, f.fail(path.node, "%s is an unexported field of struct type %s", name, t)
		case hasArgs:
			return reflect.Value{}, f.fail(path.node, "%s has arguments but cannot be invoked as function", name)
		default:
			part, err := inner.FieldByIndexErr(found.Index)
			if err != nil {
				return reflect.Value{}, f.fail(path.node, "nil pointer evaluating %s.%s", t, name)
			}
			return part, nil
		}

	case reflect.Map:
		key := reflect.ValueOf(name)
		if !key.Type().AssignableTo(inner.Type().Key()) {
			break
		}
		if hasArgs {
			return reflect.Value{}, f.fail(path.node, "%s is not a method but has arguments", name)
		}
		return f.key(inner, path.node, key)

	case reflect.Pointer:
		if isNil {
			return reflect.Value{}, f.fail(path.node, "nil pointer evaluating %s.%s", t, name)
		}
	}
	return reflect.Value{}, f.fail(path.node, "can't evaluate field %s in type %s", name, t)
}

// key returns the element of a map.
func (f *frame) key(m reflect.Value, at parse.Node, key reflect.Value) (reflect.Value, error) {
	element := m.MapIndex(key)
	switch {
	case element.IsValid():
	case f.FailMissing:
		return element, f.fail(at, "map has no entry for key %q", key)
	case f.ZeroMissing:
		return reflect.Zero(m.Type().Elem()), nil
	}
	return element, nil
}

// indirect returns the value behind pointers and interfaces, or the last that is nil.
func indirect(value reflect.Value) (inner reflect.Value, isNil bool) {
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Interface {
		if value.IsNil() {
			return value, true
		}
		value = value.Elem()
	}
	return value, false
}

// behindInterface returns the value in an interface. It is not valid if the interface is nil.
func behindInterface(value reflect.Value) reflect.Value {
	if value.Kind() == reflect.Interface {
		return value.Elem()
	}
	return value
}
